//===- Partition.h - Parts of dpc-partition ---------------------*- C++ -*-===//
//
// Private to passes/local. The Partitioner walks the sharded function and
// clones its ops one by one:
//
//   Partition.cpp          the pass, the signature, the walk
//   PartitionOps.cpp       ops that need more changes than local types
//   PartitionMasks.cpp     masks for operands whose padding an op reads
//   PartitionReshard.cpp   local ops and collectives for a planned reshard
//   PartitionPhases.cpp    the phases setup, forward, backward, update
//   PartitionTotals.cpp    passes that compute sums over all micro-batches
//   ExpandGlobalNorm.cpp   global_norm, which needs an all_reduce
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/shard/ReshardPlan.h"

namespace dpc {

/// Returns the names of mesh axes in mesh order, for collectives.
mlir::ArrayAttr axisNames(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// Returns the number of ranks along the mesh axes named `axes`.
inline int64_t ranksOver(MeshAttr mesh, mlir::ArrayAttr axes) {
  int64_t ranks = 1;
  for (auto axis : axes.getAsValueRange<mlir::StringAttr>())
    ranks *= mesh.axisSize(axis);
  return ranks;
}

class Partitioner {
public:
  Partitioner(mlir::func::FuncOp sharded, MeshAttr mesh);
  /// Creates @step after the sharded function. Fails with a diagnostic.
  mlir::FailureOr<mlir::func::FuncOp> run();

private:
  mlir::LogicalResult makeSignature();
  mlir::LogicalResult partition(mlir::Operation *op);
  mlir::LogicalResult partitionReshard(ReshardOp op);
  mlir::LogicalResult partitionConstant(ConstantOp op);
  mlir::LogicalResult partitionGlobalNorm(GlobalNormOp op);
  mlir::RankedTensorType localTypeOf(mlir::Type type);
  void setGlobalType(mlir::Operation *op, mlir::Operation *local);
  void makeBoxLocal(mlir::Operation *op, mlir::Operation *local);

  bool hasPadding(mlir::Type type);
  /// True if the local sizes of `op` allow fp8.
  bool isFp8OnRank(mlir::Operation *op);
  void maskOperands(mlir::Operation *op, mlir::IRMapping &operands);
  /// Returns `sharded` with its padding overwritten by `fill`. Each mask is
  /// built only once.
  mlir::Value mask(mlir::Value sharded, double fill);
  /// Emits the steps of a reshard plan, which convert `local` to a local value
  /// of `shape`. An accumulation is placed directly after the producer of
  /// `local`. Collectives get the compression of `reshard`.
  mlir::Value emitSteps(llvm::ArrayRef<ReshardStep> steps, mlir::Value local,
                        mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                        mlir::Operation *reshard = nullptr);

  mlir::func::FuncOp sharded;
  mlir::func::FuncOp step;
  MeshAttr mesh;
  mlir::OpBuilder builder;
  mlir::IRMapping mapping;
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>,
                 std::optional<std::vector<ReshardStep>>>
      plans;
  llvm::DenseMap<mlir::Type, mlir::RankedTensorType> localTypes;
  llvm::DenseMap<mlir::Type, bool> padded;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

/// Follows reshapes from `value` up to their source.
inline mlir::Value withoutReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// Follows views that move no data from `value` up to their source.
inline mlir::Value withoutViews(mlir::Value value) {
  while (mlir::Operation *op = value.getDefiningOp()) {
    if (!isMovedView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Erases pure ops without readers. Returns true if any op was erased.
bool eraseDeadOps(mlir::Block &block);

/// Says what differs between micro-batches whatever its operands are.
class MicroBatchSplits {
public:
  explicit MicroBatchSplits(mlir::func::FuncOp step);
  /// True if micro-batches split the argument.
  bool differs(mlir::BlockArgument argument) const;
  /// True if `op` takes a slice per micro-batch, or depends on the offset or
  /// the padding of a shard that micro-batches split.
  bool differs(mlir::Operation *op);

private:
  bool isSplit(mlir::Type type);

  mlir::func::FuncOp step;
  llvm::DenseMap<mlir::Type, bool> splits;
};

/// The passes over the micro-batches. All but the last one compute only sums.
struct LoopPasses {
  int64_t last = 0;
  /// The passes of the ops that `addTotalsPasses` creates. All other ops of the
  /// loop run in the last pass.
  llvm::DenseMap<mlir::Operation *, int64_t> passOf;
};

/// Clones ops so that every sum over all micro-batches that an op of the loop
/// reads is complete before the pass of this op (see PartitionTotals.cpp).
/// Fails with a diagnostic at an op for which this is impossible.
mlir::FailureOr<LoopPasses> addTotalsPasses(mlir::func::FuncOp step);

/// Replaces the `dpc.phase` marks of graph passes by execution phases and sorts
/// the ops by phase and pass (see PartitionPhases.cpp). Fails with the
/// diagnostic of `addTotalsPasses`.
mlir::LogicalResult assignPhases(mlir::func::FuncOp step);

/// Returns the position of a phase and chunk in the order in which a rank runs
/// ops: by phase, then by chunk. Backward and weight start with the last chunk.
int64_t runOrder(Phase phase, int64_t chunk);

/// Caches `runOrder`, because ops have few different phases. An op without a
/// phase is forward.
class RunOrders {
public:
  explicit RunOrders(mlir::MLIRContext *context)
      : phaseName(mlir::StringAttr::get(context, attr::kPhase)),
        chunkName(mlir::StringAttr::get(context, attr::kChunk)) {}
  int64_t of(mlir::Operation *op) {
    auto [it, isNew] = known.try_emplace(
        {op->getDiscardableAttr(phaseName), op->getDiscardableAttr(chunkName)},
        0);
    if (isNew)
      it->second = runOrder(phaseOf(op), chunkOf(op));
    return it->second;
  }

private:
  mlir::StringAttr phaseName, chunkName;
  llvm::DenseMap<PhaseKey, int64_t> known;
};

} // namespace dpc
