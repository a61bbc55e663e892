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
  /// The types to which operands are resharded; null for an operand that
  /// already has the right sharding.
  llvm::SmallVector<mlir::RankedTensorType, 4> operands;
  llvm::SmallVector<mlir::RankedTensorType, 2> results;
};

/// The inputs of assignShardings and its decisions so far. Arguments, and the
/// results of all ops before the current op, have shardings.
struct Assignment {
  using Axes = llvm::SmallVector<int64_t, 2>;

  Assignment(const ProgramFacts &facts, const ShardChoices &choices,
             const LoweringSpec &spec);

  const ProgramFacts &facts;
  const ShardChoices &choices;
  mlir::func::FuncOp func;
  MeshAttr mesh;
  /// Mesh indices of the data axes, of the axes over which ZeRO splits states,
  /// and of `choices.axes` in the order of `choices.axes`.
  Axes dataAxes, zeroAxes, solvedAxes;
  std::optional<int64_t> microBatchAxis;
  int64_t zero = 0; ///< The ZeRO stage; 0 without an axis to split over.
  /// `dpc.compress` for reshards of gradients and of weights, or null.
  mlir::Attribute gradientCompression, weightCompression;

  /// Reshards by value and target encoding. For a parameter that each phase
  /// gathers, the phase is a part of the key.
  llvm::DenseMap<
      std::pair<mlir::Value, std::pair<mlir::Attribute, mlir::Attribute>>,
      mlir::Value>
      reshards;
  /// Values that are complete only after the last micro-batch of a step.
  llvm::DenseSet<mlir::Value> late;
  /// Maps the gradient of a parameter to the parameter.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> parameterOf;
  /// The shardings in which parameters are updated. The states of a parameter
  /// have the same sharding.
  llvm::DenseMap<mlir::Value, ShardingSpec> updateSpecs;
  /// Copies of parameters in the compute type.
  llvm::DenseSet<mlir::Value> copies;
  /// Ops whose results are replaced. Each op is erased when it becomes the
  /// current op.
  llvm::DenseSet<mlir::Operation *> replaced;
  /// The types of ops, keyed by all properties that determine them. Layers
  /// repeat, so most ops find their types here.
  std::map<std::vector<int64_t>, OpTypes> known;
  std::string why; ///< The reason for the last failure.

  /// True if the program reshapes the batch dimension to [data ranks,
  /// micro-batches, ..] to compute statistics of each micro-batch. Then `mb`
  /// splits the second factor.
  bool separatesMicroBatches() const;
  /// The sharding of a value; computed once for each type.
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

/// Finds the axes that split each factor of one op or argument. The factors
/// must be visited in order.
class FactorAxes {
public:
  explicit FactorAxes(const Assignment &state)
      : state(state), microBatchDone(!state.separatesMicroBatches()) {}

  /// The axes that split the next factor. If `takesBatch`, the data axes and
  /// `mb` split the first factor of their class. `isSplit` says which solved
  /// axes split the factor. Along the sequence, sequence axes are outermost, so
  /// that tensor axes gather inside their shards. On other factors they are
  /// innermost, so that one all_to_all over cp moves heads between shards over
  /// tp and shards over tp and cp.
  Assignment::Axes next(int64_t factorClass, bool takesBatch,
                        llvm::function_ref<bool(size_t)> isSplit);

private:
  const Assignment &state;
  bool batchDone = false, microBatchDone;
};

/// True if `a` and `b` are identical. Shardings that are not identical may
/// still place a value equally.
inline bool isSamePlacement(const ShardingSpec &a, const ShardingSpec &b) {
  return a.partial == b.partial && a.dims == b.dims;
}

/// `value` with the sharding `to`. Readers share the reshard where possible.
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, mlir::RankedTensorType to,
                    mlir::Attribute phase);
mlir::Value reshard(Assignment &state, mlir::OpBuilder &builder,
                    mlir::Value value, const ShardingSpec &to,
                    mlir::Attribute phase);
/// Reshards the gradient of a parameter for the update. With ZeRO-2 and ZeRO-3,
/// the gradient is scattered before it is accumulated, so that no rank holds
/// all of it.
void reshardGradient(Assignment &state, mlir::OpBuilder &builder,
                     mlir::Value gradient, mlir::BlockArgument parameter,
                     mlir::Attribute phase);

/// True if each rank stores a shard of `value` and each phase gathers the value
/// (ZeRO-3). This holds for parameters and their copies.
bool isGatheredAtUse(const Assignment &state, mlir::Value value);
/// True if `op` converts a parameter to the compute type. Each rank converts
/// its shard, and the converted copy is gathered.
bool makesCopy(const Assignment &state, mlir::Operation *op);
/// Assigns shardings to arguments. Fails with a diagnostic.
llvm::LogicalResult assignArguments(Assignment &state);
/// Fills `parameterOf`. With one micro-batch, gradients in the compute type
/// reach the optimizer without conversion, so they are reduced in that type.
/// Sums over several micro-batches are in f32.
void findParameterGradients(Assignment &state);
void assignReturn(Assignment &state, mlir::func::ReturnOp op);

/// True if `op` is an addition by which differentiation sums gradients.
bool isGradientSum(mlir::Operation *op);
/// True if `op` is part of a larger sum. Only the root of a sum is assigned.
bool isInnerSum(mlir::Operation *op);
/// Replaces the sum with the root `root` by one sum per stage.
void assignGradientSum(Assignment &state, BinaryOp root);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGNMENT_H
