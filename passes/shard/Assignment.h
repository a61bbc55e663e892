//===- Assignment.h - The state of assignShardings --------------*- C++ -*-===//
#pragma once

#include "ir/TensorUtils.h"
#include "passes/shard/Assign.h"

#include <map>
#include <memory>

namespace dpc {

/// The types of one op.
struct OpTypes {
  /// The types to which operands are resharded. Null for an operand that
  /// already has the sharding.
  llvm::SmallVector<mlir::RankedTensorType, 4> operands;
  llvm::SmallVector<mlir::RankedTensorType, 2> results;
};

/// The inputs of assignShardings, and its decisions so far. Arguments and the
/// results of all ops before the current op have shardings.
struct Assignment {
  using Axes = llvm::SmallVector<int64_t, 2>;

  Assignment(const ProgramFacts &facts, const ShardChoices &choices,
             const LoweringSpec &spec);

  const ProgramFacts &facts;
  const ShardChoices &choices;
  mlir::func::FuncOp func;
  MeshAttr mesh;
  /// Indices of mesh axes. ZeRO shards states over `zeroAxes`. `solvedAxes` are
  /// those of `choices.axes`, in this order.
  Axes dataAxes, zeroAxes, solvedAxes;
  std::optional<int64_t> microBatchAxis;
  int64_t zero = 0; ///< The ZeRO stage; 0 without an axis to split over.
  /// `dpc.compress` for reshards of gradients and of weights, or null.
  mlir::Attribute gradientCompression, weightCompression;

  /// Reshards by value and target encoding. If each phase gathers the value,
  /// the phase is also part of the key.
  llvm::DenseMap<
      std::pair<mlir::Value, std::pair<mlir::Attribute, mlir::Attribute>>,
      mlir::Value>
      reshards;
  /// By partial value, what reshards have reduced, wholly or in part.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 1>> reduced;
  /// Sums over all micro-batches of a step, and values that depend on them.
  llvm::DenseSet<mlir::Value> late;
  /// Maps gradients of parameters to the parameters.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> parameterOf;
  /// The sharding of each parameter, its gradient and its states in the update.
  llvm::DenseMap<mlir::Value, ShardingSpec> updateSpecs;
  /// Copies of parameters in the compute type.
  llvm::DenseSet<mlir::Value> copies;
  /// Ops whose results are replaced. assignShardings erases each when it
  /// reaches the op.
  llvm::DenseSet<mlir::Operation *> replaced;
  /// The types of earlier ops, keyed by all properties that determine them.
  /// Layers repeat, so most ops have an entry.
  std::map<std::vector<int64_t>, OpTypes> known;
  std::string why; ///< The reason for the last failure.

  /// Returns true if the program reshapes the batch dimension to [data ranks,
  /// micro-batches, ..] to compute statistics per micro-batch. In this case
  /// `mb` splits the second factor.
  bool separatesMicroBatches() const;
  /// Returns the sharding of a value. Computed once per type.
  const ShardingSpec &actual(mlir::Value value) const {
    return actual(value.getType());
  }
  const ShardingSpec &actual(mlir::Type type) const;
  /// Returns the bytes of a shard.
  int64_t localBytes(mlir::Type type);
  bool isLate(mlir::ValueRange values) const {
    return llvm::any_of(values, [&](mlir::Value v) { return late.count(v); });
  }

private:
  mutable llvm::DenseMap<mlir::Type, std::unique_ptr<ShardingSpec>> specs;
  llvm::DenseMap<mlir::Type, int64_t> bytes;
};

/// Finds the axes that split each factor of one op or argument. Factors must be
/// visited in order.
class FactorAxes {
public:
  explicit FactorAxes(const Assignment &state)
      : state(state), microBatchDone(!state.separatesMicroBatches()) {}

  /// Returns the axes that split the next factor. If `takesBatch`, the data
  /// axes and `mb` split the first factor of their class. `isSplit` tells which
  /// solved axes split the factor.
  ///
  /// On sequence factors, sequence axes are outermost, so that an all_gather
  /// over tensor axes restores a contiguous shard of the sequence. On other
  /// factors, sequence axes are innermost, so that one all_to_all over `cp` can
  /// split heads over `tp` and `cp` that were split over `tp` only, and vice
  /// versa.
  Assignment::Axes next(int64_t factorClass, bool takesBatch,
                        llvm::function_ref<bool(size_t)> isSplit);

private:
  const Assignment &state;
  bool batchDone = false, microBatchDone;
};

/// Returns true if `a` and `b` are identical. Shardings that differ may still
/// place a value equally.
inline bool isSamePlacement(const ShardingSpec &a, const ShardingSpec &b) {
  return a.partial == b.partial && a.routed == b.routed && a.dims == b.dims;
}

/// Converts `value` to the sharding `to`. Readers share reshards if possible.
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, mlir::RankedTensorType to,
                    mlir::Attribute phase);
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, const ShardingSpec &to,
                    mlir::Attribute phase);
/// Reshards the gradient of a parameter for the update. With ZeRO-2 and ZeRO-3,
/// gradients are scattered before they are accumulated, so that no rank stores
/// a whole gradient.
void reshardGradient(Assignment &state, mlir::OpBuilder &builder,
                     mlir::Value gradient, mlir::BlockArgument parameter,
                     mlir::Attribute phase);

/// Returns true if each rank stores a shard of `value` and each phase gathers
/// it: with ZeRO-3, parameters and their copies.
bool isGatheredAtUse(const Assignment &state, mlir::Value value);
/// Returns true if `op` converts a parameter to the compute type. Each rank
/// converts its shard, and the result is gathered.
bool makesCopy(const Assignment &state, mlir::Operation *op);
/// Fails with a diagnostic.
llvm::LogicalResult assignArguments(Assignment &state);
/// Fills `parameterOf`. With a single micro-batch, gradients in the compute
/// type reach the optimizer without a conversion, so they are reduced in this
/// type. Sums over several micro-batches are in f32.
void findParameterGradients(Assignment &state);
void assignReturn(Assignment &state, mlir::func::ReturnOp op);

/// Returns true if `op` adds gradients and was created by differentiation.
bool isGradientSum(mlir::Operation *op);
/// Returns true if another sum of gradients is the only reader of `op`.
bool isInnerSum(mlir::Operation *op);
/// Replaces the sum at `root` by one sum per stage.
void assignGradientSum(Assignment &state, BinaryOp root);

} // namespace dpc
