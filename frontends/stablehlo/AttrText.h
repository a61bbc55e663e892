//===- AttrText.h - Parsers for unregistered attributes ---------*- C++ -*-===//
//
// Parsers for the text of StableHLO attributes, for example
// #stablehlo.dot<lhs_contracting_dimensions = [1]>. A context without the
// dialect does not parse them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/ConstTensor.h"

#include "llvm/ADT/StringMap.h"

#include <optional>

namespace dpc::frontend::hlo {

/// Returns the text of an opaque attribute after "#stablehlo." or within
/// "#stablehlo<..>"; "" for other attributes.
llvm::StringRef opaqueText(mlir::Attribute attribute);

/// Parses "name<key = [1, 2], key = 3>" into a list of integers per key;
/// nullopt if the text is malformed.
std::optional<llvm::StringMap<Shape>> parseFields(llvm::StringRef text);

/// "comparison_direction LT" -> "LT".
llvm::StringRef parseEnum(llvm::StringRef text);

/// One operand in "conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>": the
/// positions of its named and of its spatial dimensions.
struct ConvSide {
  int64_t first = -1;  ///< b; o of the filter
  int64_t second = -1; ///< f; i of the filter
  Shape spatial;
};
struct ConvDims {
  ConvSide input, filter, output;
};
std::optional<ConvDims> parseConv(llvm::StringRef text);

} // namespace dpc::frontend::hlo
