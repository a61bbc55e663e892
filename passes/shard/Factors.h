//===- Factors.h - Factors of dimensions and their classes ------*- C++ -*-===//
//
// Ops divide one dimension in different ways: a matmul has 192 columns, the
// slices after it have 3 x 64, and the reshapes after the slices have 4 x 16.
// The analysis cuts each dimension of each value, and each iteration dimension
// of each op, at every boundary that a connected op has (192 = 3 x 4 x 16, back
// to the weight and its gradient). Factors with the same index form a *class*.
//
// Invariant: a dimension of an operand or result has the factors of its
// iteration dimensions, one after the other, and factors at equal positions
// have equal classes. Factors of size 1 are left out.
//
// If the boundaries of a dimension cannot be aligned (6 x 4 with 4 x 6), its
// iteration dimensions are *blocked*: the op needs them whole.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_FACTORS_H
#define DPC_PASSES_SHARD_FACTORS_H

#include "ir/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Clones each splat constant and each iota for each of its uses.
/// Simplification merges equal constants. Without the clones, unrelated
/// dimensions (for example the tokens of a loss and a bias without gradient)
/// would be in one class through a shared constant.
void separateConstants(mlir::func::FuncOp func);

/// One factor of an iteration dimension of an op.
struct IterFactor {
  int64_t dim = -1;
  int64_t factor = -1;
  bool operator==(const IterFactor &) const = default;
};

/// The factors of one value.
struct ValueFactors {
  /// Sizes of the factors of each dimension, outermost first.
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 4> dims;
  /// The number of the first factor; the other factors are numbered
  /// consecutively.
  int64_t first = 0;
};

/// The factors of the iteration dimensions of one op.
struct OpFactors {
  mlir::Operation *op = nullptr;
  ShardingRule rule;
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 6> dims;
  /// For each dimension, as in ValueFactors.
  llvm::SmallVector<int64_t, 6> first;
  llvm::SmallVector<bool, 8> blocked; ///< For each dimension.
  /// Indices of its operands, then of its results, in FactorTables::values.
  llvm::SmallVector<int32_t, 8> values;

  /// The iteration dimensions of operand or result `tensor`, an index of
  /// `values`.
  const TensorMap &mapOf(size_t tensor) const {
    size_t operands = rule.operands.size();
    return tensor < operands ? rule.operands[tensor]
                             : rule.results[tensor - operands];
  }
};

/// The factors of all values and of all ops with a sharding rule, in program
/// order, and the class of each factor by its number.
struct FactorTables {
  std::vector<OpFactors> ops;
  std::vector<ValueFactors> values;
  llvm::DenseMap<mlir::Operation *, int32_t> opIndex;
  llvm::DenseMap<mlir::Value, int32_t> valueIndex;
  std::vector<int64_t> classes;
};

/// The analysis of one function, see the file comment. Until the last use of
/// the analysis, only the encodings of the function may change.
class FactorAnalysis {
public:
  explicit FactorAnalysis(mlir::func::FuncOp func);

  /// True for ops with a sharding rule.
  bool hasRule(mlir::Operation *op) const { return tables.opIndex.count(op); }
  const ShardingRule &rule(mlir::Operation *op) const { return of(op).rule; }

  /// Sizes of the factors of an iteration dimension, outermost first.
  llvm::ArrayRef<int64_t> factors(mlir::Operation *op, int64_t dim) const {
    return of(op).dims[dim];
  }
  int64_t classOf(mlir::Operation *op, IterFactor factor) const {
    return tables.classes[of(op).first[factor.dim] + factor.factor];
  }
  /// True if the rule allows a split of the factor and the factor is not
  /// blocked.
  bool canSplit(mlir::Operation *op, IterFactor factor) const;
  bool isBlocked(mlir::Operation *op, int64_t dim) const {
    return of(op).blocked[dim];
  }
  /// All factors of `op` that `canSplit` accepts.
  llvm::SmallVector<IterFactor> splittable(mlir::Operation *op) const;

  /// True if `op` has a factor of class `cls` that cannot be split.
  bool needsWhole(mlir::Operation *op, int64_t cls) const;
  /// The first factor of class `cls` that `canSplit` accepts.
  std::optional<IterFactor> splittable(mlir::Operation *op, int64_t cls) const;

  /// Sizes of the factors of a dimension of a value, outermost first.
  llvm::ArrayRef<int64_t> factors(mlir::Value value, int64_t dim) const {
    return of(value).dims[dim];
  }
  /// The number of factors of all dimensions of `value`, or of its first `dims`
  /// dimensions.
  int64_t numFactors(mlir::Value value, std::optional<int64_t> dims = {}) const;
  /// Size and class of factor `index`, counted over all dimensions in order.
  int64_t factorSize(mlir::Value value, int64_t index) const;
  int64_t classOf(mlir::Value value, int64_t index) const {
    return tables.classes[of(value).first + index];
  }

  /// The index of the first factor of class `cls`, or -1.
  int64_t indexOf(mlir::Value value, int64_t cls) const;

  /// The index of `factor` of `op` in operand (or result) `index`, counted over
  /// all dimensions of that tensor; -1 if the tensor does not contain the
  /// factor.
  int64_t positionIn(mlir::Operation *op, bool isResult, unsigned index,
                     IterFactor factor) const;

private:
  const OpFactors &of(mlir::Operation *op) const {
    return tables.ops[tables.opIndex.find(op)->second];
  }
  const ValueFactors &of(mlir::Value value) const {
    return tables.values[tables.valueIndex.find(value)->second];
  }

  FactorTables tables;
};

} // namespace dpc

#endif // DPC_PASSES_SHARD_FACTORS_H
