//===- Factors.h - Factors of dimensions and their classes ------*- C++ -*-===//
//
// Ops divide one dimension in different ways: a matmul has 192 columns, slices
// of its result have 3 x 64, and reshapes of the slices have 4 x 16. The
// analysis cuts each dimension of a value, and each iteration dimension of an
// op, at every boundary that a connected op has. In the example, all these
// dimensions become 3 x 4 x 16, including those of the weight and its gradient.
// An op connects a factor of an operand or result with the factor of the
// iteration dimension that indexes it. Connected factors form a *class*.
//
// Invariant: the factors of a dimension of an operand or result are those of
// its iteration dimensions, one after the other, and factors at equal positions
// have equal classes. Factors of size 1 are omitted.
//
// If the boundaries of a dimension cannot be aligned (6 x 4 with 4 x 6), its
// iteration dimensions are *blocked*: the op needs them whole.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Clones each splat constant and each iota for each use. Simplification merges
/// equal constants, and a shared constant would put unrelated dimensions into
/// one class, for example the tokens of a loss and a bias without gradient.
void separateConstants(mlir::func::FuncOp func);

struct IterFactor {
  int64_t dim = -1;
  int64_t factor = -1;
  bool operator==(const IterFactor &) const = default;
};

/// The factors of one value.
struct ValueFactors {
  /// Sizes of the factors of each dimension, outermost first.
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 4> dims;
  /// The number of the first factor. Other factors have consecutive numbers.
  int64_t first = 0;
};

struct OpFactors {
  mlir::Operation *op = nullptr;
  ShardingRule rule;
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 6> dims;
  /// By dimension, the number of its first factor.
  llvm::SmallVector<int64_t, 6> first;
  llvm::SmallVector<bool, 8> blocked; ///< By dimension.
  /// Indices of the operands and then of the results in FactorTables::values.
  llvm::SmallVector<int32_t, 8> values;

  /// Returns the iteration dimensions of an operand or result; `tensor` is an
  /// index of `values`.
  const TensorMap &mapOf(size_t tensor) const {
    size_t operands = rule.operands.size();
    return tensor < operands ? rule.operands[tensor]
                             : rule.results[tensor - operands];
  }
};

/// The factors of all values and of all ops with a sharding rule, in program
/// order. `classes` maps the number of a factor to its class.
struct FactorTables {
  std::vector<OpFactors> ops;
  std::vector<ValueFactors> values;
  llvm::DenseMap<mlir::Operation *, int32_t> opIndex;
  llvm::DenseMap<mlir::Value, int32_t> valueIndex;
  std::vector<int64_t> classes;
};

/// The analysis of one function (see the file comment). While the analysis is
/// in use, only the encodings of the function may change.
class FactorAnalysis {
public:
  explicit FactorAnalysis(mlir::func::FuncOp func);

  bool hasRule(mlir::Operation *op) const { return tables.opIndex.count(op); }
  const ShardingRule &rule(mlir::Operation *op) const { return of(op).rule; }

  /// The sizes of the factors of an iteration dimension, outermost first.
  llvm::ArrayRef<int64_t> factors(mlir::Operation *op, int64_t dim) const {
    return of(op).dims[dim];
  }
  int64_t classOf(mlir::Operation *op, IterFactor factor) const {
    return tables.classes[of(op).first[factor.dim] + factor.factor];
  }
  /// Returns true if the rule allows the split and the factor is not blocked.
  bool canSplit(mlir::Operation *op, IterFactor factor) const;
  bool isBlocked(mlir::Operation *op, int64_t dim) const {
    return of(op).blocked[dim];
  }
  llvm::SmallVector<IterFactor> splittable(mlir::Operation *op) const;

  /// Returns true if `op` has a factor of class `cls` that cannot be split.
  bool needsWhole(mlir::Operation *op, int64_t cls) const;
  std::optional<IterFactor> splittable(mlir::Operation *op, int64_t cls) const;

  /// Returns the sizes of the factors of a dimension, outermost first.
  llvm::ArrayRef<int64_t> factors(mlir::Value value, int64_t dim) const {
    return of(value).dims[dim];
  }
  /// Counts the factors of all dimensions, or of the first `dims` dimensions.
  int64_t numFactors(mlir::Value value, std::optional<int64_t> dims = {}) const;
  /// `index` counts the factors of all dimensions.
  int64_t factorSize(mlir::Value value, int64_t index) const;
  int64_t classOf(mlir::Value value, int64_t index) const {
    return tables.classes[of(value).first + index];
  }

  /// Returns the index of the first factor of class `cls`, or -1.
  int64_t indexOf(mlir::Value value, int64_t cls) const;

  /// Returns the index of `factor` in operand (or result) `index` of `op`,
  /// counted over all dimensions of the tensor, or -1 if the tensor does not
  /// contain the factor.
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
