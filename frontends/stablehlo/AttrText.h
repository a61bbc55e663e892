//===- AttrText.h - Parsers for unregistered attributes ---------*- C++ -*-===//
//
// Attributes such as #stablehlo.dot<lhs_contracting_dimensions = [1]> are
// opaque to a context without their dialect, but their text is available. These
// functions parse the texts that the frontend needs.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_ATTRTEXT_H
#define DPC_FRONTENDS_STABLEHLO_ATTRTEXT_H

#include "frontends/emit/ConstTensor.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace dpc::frontend::hlo {

/// The text after "#stablehlo." or within "#stablehlo<..>"; "" if the attribute
/// is not opaque.
llvm::StringRef opaqueText(mlir::Attribute attribute);

/// Parses "name<key = [1, 2], key = 3>" into lists of numbers by key. Returns
/// nullopt for any other text.
std::optional<llvm::StringMap<Shape>> parseFields(llvm::StringRef text);

/// "comparison_direction LT" -> "LT".
llvm::StringRef parseEnum(llvm::StringRef text);

/// One side of "conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>": the positions
/// of the two named dimensions and of the spatial ones.
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
