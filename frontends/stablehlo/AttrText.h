//===- AttrText.h - Attributes of dialects that are not there --*- C++ -*-===//
//
// Attributes such as #stablehlo.dot<lhs_contracting_dimensions = [1]> are
// opaque to a context without their dialect, which keeps their text. The texts
// that matter are read here.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_ATTRTEXT_H
#define DPC_FRONTENDS_STABLEHLO_ATTRTEXT_H

#include "frontends/emit/ConstTensor.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace dpc::frontend::hlo {

/// The text behind "#stablehlo." or inside of "#stablehlo<..>"; "" of what is
/// no opaque attribute.
llvm::StringRef opaqueText(mlir::Attribute attribute);

/// "name<key = [1, 2], key = 3>" as lists of numbers by key. Nullopt when the
/// text is something else.
std::optional<llvm::StringMap<Shape>> parseFields(llvm::StringRef text);

/// "comparison_direction LT" -> "LT".
llvm::StringRef parseEnum(llvm::StringRef text);

/// One side of "conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>": where the two
/// named dimensions and the spatial ones lie.
struct ConvSide {
  int64_t first = -1;  ///< b, or o of the filter
  int64_t second = -1; ///< f, or i of the filter
  Shape spatial;
};
struct ConvDims {
  ConvSide input, filter, output;
};
std::optional<ConvDims> parseConv(llvm::StringRef text);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_ATTRTEXT_H
