//===- Match.h - Recognizers of values --------------------------*- C++ -*-===//
//
// Predicates for rewrites. They inspect only the ops that define a value. If
// the answer is unknown, they return nullopt or null.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/GraphBuilder.h"

#include "llvm/ADT/SetVector.h"

namespace dpc {

/// Returns `roots` and the values on which they depend. If `follows(op)` is
/// false, the operands of `op` do not count.
llvm::SetVector<mlir::Value>
dependencies(llvm::ArrayRef<mlir::Value> roots,
             llvm::function_ref<bool(mlir::Operation *)> follows);

/// Returns the number that all elements of `value` equal, or nullopt. Looks
/// through data movement and conversions to floats.
std::optional<double> splatValue(mlir::Value value);

/// Returns true if `value` is a splat of `expected` with a relative error of at
/// most 1e-6. Exporters round mathematical constants to f32 or to few decimals.
bool isSplatNear(mlir::Value value, double expected);

/// Returns `value` before float conversions that keep or widen the type. A
/// fused op may read this input instead.
mlir::Value skipConverts(mlir::Value value);

/// Returns `value` before ops that move, repeat, select or convert its
/// elements.
mlir::Value skipMoves(mlir::Value value);

UnaryOp unaryOf(mlir::Value value, UnaryKind kind);
BinaryOp binaryOf(mlir::Value value, BinaryKind kind);

/// Returns the two operands of `op` in both orders, to match a commutative op.
inline std::array<std::pair<mlir::Value, mlir::Value>, 2>
operandOrders(BinaryOp op) {
  return {std::pair<mlir::Value, mlir::Value>(op.getA(), op.getB()),
          {op.getB(), op.getA()}};
}

/// Returns the operand of a commutative `op` whose other operand satisfies
/// `predicate`, or null. `op` may be null.
template <typename Predicate>
mlir::Value otherOperand(BinaryOp op, Predicate predicate) {
  if (!op)
    return nullptr;
  if (predicate(op.getA()))
    return op.getB();
  if (predicate(op.getB()))
    return op.getA();
  return nullptr;
}

/// Returns x if `value` is x * c, c * x or x / c, and sets `factor` to c or 1 /
/// c. Returns null for other values.
mlir::Value scaledValue(mlir::Value value, double &factor);

struct Repeated {
  mlir::Value source;
  /// The result dimension of each source dimension whose size is not 1.
  llvm::SmallVector<int64_t> dims;
};

/// Returns the source of a value that broadcasts produce. Skips broadcasts and
/// reshapes that only add or remove dimensions of size 1. For any other value,
/// the source is `value`.
Repeated repeatedSource(mlir::Value value);

/// Returns element `index` of `value`, or nullopt unless the element is known
/// at compile time from constants, iota, elementwise ops and data movement.
std::optional<double> elementAt(mlir::Value value,
                                llvm::ArrayRef<int64_t> index);

} // namespace dpc
