//===- Match.h - Recognizers of values --------------------------*- C++ -*-===//
//
// Predicates for rewrites. They inspect only defining ops, and return nullopt
// or null if the answer is unknown.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_MATCH_H
#define DPC_PASSES_GRAPH_MATCH_H

#include "passes/graph/GraphBuilder.h"

#include "llvm/ADT/SetVector.h"

namespace dpc {

/// `roots` and the values on which they depend. `follows` decides for the op
/// that defines a value if its operands belong to the result.
llvm::SetVector<mlir::Value>
dependencies(llvm::ArrayRef<mlir::Value> roots,
             llvm::function_ref<bool(mlir::Operation *)> follows);

/// The number that all elements of `value` equal. It looks through data
/// movement and conversions to floats.
std::optional<double> splatValue(mlir::Value value);

/// True if `value` is a splat within 1e-6 (relative) of `expected`. Exporters
/// round mathematical constants to f32 or to few decimals.
bool isSplatNear(mlir::Value value, double expected);

/// The operand of the conversions between floats that end in `value`, if they
/// widen or do not change the type; a fused op has the same effect.
mlir::Value skipConverts(mlir::Value value);

/// The op that defines `value` if it is of `kind`, else null.
UnaryOp unaryOf(mlir::Value value, UnaryKind kind);
BinaryOp binaryOf(mlir::Value value, BinaryKind kind);

/// Both orders of the operands of a commutative `op`.
inline std::array<std::pair<mlir::Value, mlir::Value>, 2>
operandOrders(BinaryOp op) {
  return {std::pair<mlir::Value, mlir::Value>(op.getA(), op.getB()),
          {op.getB(), op.getA()}};
}

/// The other operand of a commutative `op` if one operand satisfies
/// `predicate`, else null. `op` may be null.
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
/// `factor` to c or 1 / c. Null for other values.
mlir::Value scaledValue(mlir::Value value, double &factor);

/// The source of a broadcast.
struct Repeated {
  mlir::Value source;
  /// The result dimension of each source dimension whose size is not 1.
  llvm::SmallVector<int64_t> dims;
};

/// The value of which `value` is a broadcast. It looks through broadcasts and
/// reshapes that only add or remove dimensions of size 1. The source of any
/// other value is the value itself.
Repeated repeatedSource(mlir::Value value);

/// Element `index` of `value` if constants, iota, elementwise ops and data
/// movement determine it at compile time.
std::optional<double> elementAt(mlir::Value value,
                                llvm::ArrayRef<int64_t> index);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_MATCH_H
