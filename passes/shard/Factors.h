//===- Factors.h - Which dimensions of a program belong together *- C++ -*-===//
//
// Every op sees a dimension in its own way: a matmul sees 192 columns, the
// slices behind it see 3 x 64, the reshape behind those 4 x 16. FactorAnalysis
// cuts every dimension of every value and every iteration dimension of every op
// at all boundaries that somebody on either side can see (192 = 3 x 4 x 16,
// back to the weight and its gradient), and joins factors that are the same
// index into *classes*.
//
// Invariant: for every linked operand or result dimension, the factors of the
// value's dimension are those of the iteration dimensions it maps to, one after
// the other, and equal positions have equal classes. Factors of size 1 are left
// out.
//
// A link whose boundaries cannot be aligned (6 x 4 against 4 x 6) is *blocked*:
// the op then needs those dimensions whole.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_FACTORS_H
#define DPC_PASSES_SHARD_FACTORS_H

#include "ir/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Gives every use of a uniform constant or an iota an op of its own. Equal
/// constants are one value after simplification, and dimensions that have
/// nothing to do with each other (the tokens of a loss, a bias whose gradient
/// is zero) would become one class through it.
void separateConstants(mlir::func::FuncOp func);

/// One factor of an iteration dimension of an op.
struct IterFactor {
  int64_t dim = -1;
  int64_t factor = -1;
  bool operator==(const IterFactor &) const = default;
};

/// See the file comment. Holds for one function; ops and types must not change
/// while it is used, except for encodings.
class FactorAnalysis {
public:
  explicit FactorAnalysis(mlir::func::FuncOp func);

  /// True for ops with a sharding rule.
  bool hasRule(mlir::Operation *op) const { return opIndex.count(op); }
  const ShardingRule &rule(mlir::Operation *op) const { return of(op).rule; }

  /// Sizes of the factors of an iteration dimension, outermost first.
  llvm::ArrayRef<int64_t> factors(mlir::Operation *op, int64_t dim) const;
  /// Class of a factor of an iteration dimension.
  int64_t classOf(mlir::Operation *op, IterFactor factor) const;
  /// Whether the factor may be split: not whole, not behind a blocked link.
  bool canSplit(mlir::Operation *op, IterFactor factor) const;
  /// Whether a link of this iteration dimension could not be aligned.
  bool isBlocked(mlir::Operation *op, int64_t dim) const {
    return of(op).blocked[dim];
  }
  /// All factors of `op` that may be split.
  llvm::SmallVector<IterFactor> splittable(mlir::Operation *op) const;

  /// Sizes of the factors of a dimension of a value.
  llvm::ArrayRef<int64_t> factors(mlir::Value value, int64_t dim) const;
  /// Number of factors over all dimensions of `value`.
  int64_t numFactors(mlir::Value value) const;
  /// Size and class of factor `index`, counted over all dimensions in order.
  int64_t factorSize(mlir::Value value, int64_t index) const;
  int64_t classOf(mlir::Value value, int64_t index) const;

  /// Where factor `factor` of `op` is found in operand (or result) `index`:
  /// an index as in classOf(value, ..), or -1 when that tensor lacks it.
  int64_t positionIn(mlir::Operation *op, bool isResult, unsigned index,
                     IterFactor factor) const;

private:
  using Sizes = llvm::SmallVector<int64_t, 2>;
  struct ValueInfo {
    llvm::SmallVector<Sizes, 4> dims;
    /// Number of the first factor; those of all dimensions follow.
    int64_t firstAtom = 0;
  };
  struct OpInfo {
    mlir::Operation *op = nullptr;
    ShardingRule rule;
    llvm::SmallVector<Sizes, 6> dims;
    llvm::SmallVector<int64_t, 6> firstAtom; ///< Per iteration dimension.
    llvm::SmallVector<bool, 8> blocked;      ///< Per iteration dimension.
    /// Of its operands, then of its results.
    llvm::SmallVector<int32_t, 8> values;
    bool isQueued = false; ///< On the list of `refineAll`.
  };
  /// Ops to look at, the last one first; each is on it once.
  using Worklist = llvm::SmallVector<int32_t>;

  const OpInfo &of(mlir::Operation *op) const {
    return ops[opIndex.find(op)->second];
  }
  const ValueInfo &of(mlir::Value value) const {
    return values[valueIndex.find(value)->second];
  }
  const TensorMap &mapOf(const OpInfo &info, size_t tensor) const {
    size_t operands = info.rule.operands.size();
    return tensor < operands ? info.rule.operands[tensor]
                             : info.rule.results[tensor - operands];
  }
  void addValue(mlir::Value value);
  void addOp(mlir::Operation &op, ShardingRule rule);
  void refineAll();
  bool refine(OpInfo &info, Worklist &worklist);
  bool refineTensor(OpInfo &info, size_t tensor, Worklist &worklist);
  void queue(mlir::Operation *op, const OpInfo &from, Worklist &worklist);
  void numberAtoms();
  void joinTensor(const OpInfo &info, size_t tensor);
  bool isBlocked(const OpInfo &info, const DimMap &map) const;
  int64_t find(int64_t atom) const;

  /// In program order.
  std::vector<OpInfo> ops;
  std::vector<ValueInfo> values;
  llvm::DenseMap<mlir::Operation *, int32_t> opIndex;
  llvm::DenseMap<mlir::Value, int32_t> valueIndex;
  mutable std::vector<int64_t> parent;
};

} // namespace dpc

#endif // DPC_PASSES_SHARD_FACTORS_H
