//===- Match.h - Recognizers of values --------------------------*- C++ -*-===//
//
// Predicates for rewrites. They inspect only defining ops, and return nullopt
// or null if they cannot determine the answer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_MATCH_H
#define DPC_PASSES_GRAPH_MATCH_H

#include "passes/graph/GraphBuilder.h"

#include "llvm/ADT/SetVector.h"

namespace dpc {

/// Returns `roots` and the values on which they depend. `follows` decides, for
/// the op that defines a value, whether the search continues with its operands.
llvm::SetVector<mlir::Value>
dependencies(llvm::ArrayRef<mlir::Value> roots,
             llvm::function_ref<bool(mlir::Operation *)> follows);

/// If all elements of `value` are equal, the number that they equal. Looks
/// through data movement and conversions to floats.
std::optional<double> splatValue(mlir::Value value);

/// True if `value` is a splat within 1e-6 (relative) of `expected`. Exporters
/// round mathematical constants to f32 or to few decimals.
bool isSplatNear(mlir::Value value, double expected);

/// Skips the float conversions that produce `value` and widen or keep the type,
/// and returns their input. A fused op reads the narrower input with the same
/// effect.
mlir::Value skipConverts(mlir::Value value);

/// The op that defines `value` if its kind is `kind`, else null.
UnaryOp unaryOf(mlir::Value value, UnaryKind kind);
BinaryOp binaryOf(mlir::Value value, BinaryKind kind);

/// The operands of a commutative `op`, in both orders.
inline std::array<std::pair<mlir::Value, mlir::Value>, 2>
operandOrders(BinaryOp op) {
  return {std::pair<mlir::Value, mlir::Value>(op.getA(), op.getB()),
          {op.getB(), op.getA()}};
}

/// If one operand of a commutative `op` satisfies `predicate`, returns the
/// other operand, else null. `op` may be null.
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

/// If `value` is x * c, c * x or x / c with a constant c, returns x and sets
/// `factor` to c or 1 / c. Returns null for other values.
mlir::Value scaledValue(mlir::Value value, double &factor);

/// The source of a broadcast.
struct Repeated {
  mlir::Value source;
  /// For each source dimension whose size is not 1, the dimension of the
  /// result.
  llvm::SmallVector<int64_t> dims;
};

/// If `value` is a broadcast, returns its source. Looks through broadcasts and
/// reshapes that only add or remove dimensions of size 1. For any other value,
/// the source is the value itself.
Repeated repeatedSource(mlir::Value value);

/// Element `index` of `value`; nullopt unless constants, iota, elementwise ops
/// and data movement determine it at compile time.
std::optional<double> elementAt(mlir::Value value,
                                llvm::ArrayRef<int64_t> index);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_MATCH_H
