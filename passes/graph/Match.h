//===- Match.h - Asking values what they are --------------------*- C++ -*-===//
//
// Small predicates for rewrites. All look at defining ops only and return
// nullopt or null when the answer is not known.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_MATCH_H
#define DPC_PASSES_GRAPH_MATCH_H

#include "passes/graph/GraphBuilder.h"

namespace dpc {

/// The number that all elements of `value` equal, seen through broadcasts,
/// reshapes, transposes and float conversions.
std::optional<double> splatValue(mlir::Value value);

/// True when `value` is a splat within 1e-6 (relative) of `expected`: what
/// rounding to f32 and exporters' decimals leave of a mathematical constant.
bool isSplatNear(mlir::Value value, double expected);

/// `value` without float-to-float conversions that change nothing a fused op
/// would not do itself: widening ones and those between equal types.
mlir::Value skipConverts(mlir::Value value);

/// The op that defines `value` when it is a unary op of `kind`.
UnaryOp unaryOf(mlir::Value value, UnaryKind kind);
/// The op that defines `value` when it is a binary op of `kind`.
BinaryOp binaryOf(mlir::Value value, BinaryKind kind);

/// For a commutative `op`: the other operand when one operand satisfies
/// `predicate`, else null.
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

/// x for a value x * c, c * x or x / c of a constant c; `factor` becomes the
/// number that x is multiplied by. Null for anything else.
mlir::Value scaledValue(mlir::Value value, double &factor);

/// A value and the way it was repeated.
struct Repeated {
  mlir::Value source;
  /// Result dimension of each source dimension (source dimensions of size 1
  /// are dropped, as are those that are repeated).
  llvm::SmallVector<int64_t> dims;
};

/// Sees `value` as a broadcast of a smaller value: looks through broadcasts and
/// through reshapes that only add or remove unit dimensions. The source keeps
/// its unit dimensions; `dims` lists its other dimensions only. A value that is
/// no broadcast is its own source.
Repeated repeatedSource(mlir::Value value);

/// Element `index` of `value` when all of it is known at compile time.
/// Understands constants, iota, elementwise ops and data movement.
std::optional<double> elementAt(mlir::Value value,
                                llvm::ArrayRef<int64_t> index);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_MATCH_H
