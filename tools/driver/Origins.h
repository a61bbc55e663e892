//===- Origins.h - What a value was made from -------------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

/// Returns the value that `value` has before its elements were only moved,
/// repeated or converted.
mlir::Value originOf(mlir::Value value);

/// Returns the op that made the origin of `value` if it is an `Op`, or null.
template <typename Op> Op madeBy(mlir::Value value) {
  return originOf(value).getDefiningOp<Op>();
}

/// Whether the origin of `value` is an argument of the function.
bool isWeight(mlir::Value value);

/// Returns the product with a weight that made the origin of `value`, or null.
MatmulOp weightProduct(mlir::Value value);

} // namespace dpc
