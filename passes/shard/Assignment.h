//===- Assignment.h - The state of assignShardings --------------*- C++ -*-===//
#ifndef DPC_PASSES_SHARD_ASSIGNMENT_H
#define DPC_PASSES_SHARD_ASSIGNMENT_H

#include "ir/TensorUtils.h"
#include "passes/shard/Assign.h"

#include <map>
#include <memory>

namespace dpc {

/// The types of one op.
struct OpTypes {
  /// The types to which operands are resharded; null where an operand already
  /// has the right sharding.
  llvm::SmallVector<mlir::RankedTensorType, 4> operands;
  llvm::SmallVector<mlir::RankedTensorType, 2> results;
};

/// What assignShardings was given and what it has decided so far. Arguments,
/// and the results of all ops before the current one, have shardings.
struct Assignment {
  using Axes = llvm::SmallVector<int64_t, 2>;

  Assignment(const ProgramFacts &facts, const ShardChoices &choices,
             const LoweringSpec &spec);

  const ProgramFacts &facts;
  const ShardChoices &choices;
  mlir::func::FuncOp func;
  MeshAttr mesh;
  /// Mesh indices of the data axes, of the axes that ZeRO splits states over,
  /// and of `choices.axes` in their order.
  Axes dataAxes, zeroAxes, solvedAxes;
  std::optional<int64_t> microBatchAxis;
  int64_t zero = 0; ///< The ZeRO stage; 0 without an axis to split over.
  /// `dpc.compress` of reshards of gradients and of weights, or null.
  mlir::Attribute gradientCompression, weightCompression;

  /// Reshards by value, target encoding and, for a parameter that each phase
  /// gathers, phase.
  llvm::DenseMap<
      std::pair<mlir::Value, std::pair<mlir::Attribute, mlir::Attribute>>,
      mlir::Value>
      reshards;
  /// Values that are complete only after the last micro-batch of a step.
  llvm::DenseSet<mlir::Value> late;
  /// The parameter of each value that is the gradient of a parameter.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> parameterOf;
  /// The shardings with which parameters are updated; states have the same.
  llvm::DenseMap<mlir::Value, ShardingSpec> updateSpecs;
  /// Copies of parameters in the compute type.
  llvm::DenseSet<mlir::Value> copies;
  /// Ops whose results are replaced. Each is erased when its turn comes.
  llvm::DenseSet<mlir::Operation *> replaced;
  /// Types of ops by all that decides them, because layers repeat.
  std::map<std::vector<int64_t>, OpTypes> known;
  std::string why; ///< The reason of the last failure.

  /// True if the program sees the batch as [data ranks, micro-batches, ..]
  /// (statistics of a micro-batch): `mb` then splits the second factor.
  bool separatesMicroBatches() const;
  /// The sharding of a value; read once for each type.
  const ShardingSpec &actual(mlir::Value value) const;
  /// Bytes of the shard of a value of this type.
  int64_t localBytes(mlir::Type type);
  bool isLate(mlir::ValueRange values) const {
    return llvm::any_of(values, [&](mlir::Value v) { return late.count(v); });
  }

private:
  mutable llvm::DenseMap<mlir::Type, std::unique_ptr<ShardingSpec>> specs;
  llvm::DenseMap<mlir::Type, int64_t> bytes;
};

/// Finds the axes of the factors of one op or argument, in order.
class FactorAxes {
public:
  explicit FactorAxes(const Assignment &state)
      : state(state), microBatchDone(!state.separatesMicroBatches()) {}

  /// The axes of the next factor. If `takesBatch`, the data axes and `mb` split
  /// the first factor of their class. `isSplit` says which solved axes split
  /// the factor. Sequence axes come first along the sequence, so that tensor
  /// axes gather inside them, and last elsewhere, so that one all_to_all moves
  /// heads from tp to tp and cp.
  Assignment::Axes next(int64_t factorClass, bool takesBatch,
                        llvm::function_ref<bool(size_t)> isSplit);

private:
  const Assignment &state;
  bool batchDone = false, microBatchDone;
};

/// True if `a` and `b` are equal as they are. They may place equally even if
/// this is false.
inline bool isSamePlacement(const ShardingSpec &a, const ShardingSpec &b) {
  return a.partial == b.partial && a.dims == b.dims;
}

/// `value` with the sharding `to`: a reshard that is shared by all readers that
/// can share it.
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, mlir::RankedTensorType to,
                    mlir::Attribute phase);
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, const ShardingSpec &to,
                    mlir::Attribute phase);
/// Reshards the gradient of a parameter for the update. From ZeRO-2 on it is
/// scattered before it is accumulated, so that no rank holds all of it.
void reshardGradient(Assignment &state, mlir::OpBuilder &builder,
                     mlir::Value gradient, mlir::BlockArgument parameter,
                     mlir::Attribute phase);

/// True if ranks store a shard of `value` and each phase gathers it again
/// (ZeRO-3): parameters and their copies.
bool isGatheredAtUse(const Assignment &state, mlir::Value value);
/// True if `op` converts a parameter to the compute type. Each rank converts
/// its shard, and the copy is gathered.
bool makesCopy(const Assignment &state, mlir::Operation *op);
/// Gives arguments their shardings. Fails with a diagnostic.
llvm::LogicalResult assignArguments(Assignment &state);
/// Fills `parameterOf`. With one micro-batch, gradients in the compute type
/// reach the optimizer unconverted, so that they are reduced in that type; sums
/// over micro-batches are in f32.
void findParameterGradients(Assignment &state);
void assignReturn(Assignment &state, mlir::func::ReturnOp op);

/// True for an addition by which differentiation sums gradients.
bool isGradientSum(mlir::Operation *op);
/// True if `op` is part of a larger sum; the root of that sum is assigned.
bool isInnerSum(mlir::Operation *op);
/// Replaces the sum with the root `root` by sums per stage.
void assignGradientSum(Assignment &state, BinaryOp root);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGNMENT_H
