//===- Partition.h - Parts of dpc-partition ---------------------*- C++ -*-===//
//
// Private to passes/local. The Partitioner walks the sharded function and
// clones its ops one by one. The files are
//
//   Partition.cpp          the pass, signature, walk
//   PartitionOps.cpp       ops whose clone needs more than local types
//   PartitionMasks.cpp     operands whose padding would be read
//   PartitionReshard.cpp   a planned reshard as local ops
//   PartitionPhases.cpp    setup, forward, backward, update
//   ExpandGlobalNorm.cpp   the only op that adds its own collectives
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PARTITION_H
#define DPC_PASSES_LOCAL_PARTITION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/shard/ReshardPlan.h"

namespace dpc {

/// Names of mesh axes in mesh order, as collectives need them.
mlir::ArrayAttr axisNames(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// The number of ranks along the axes with the names `axes`.
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
  /// Returns `localType`, which is computed once per type.
  mlir::RankedTensorType localTypeOf(mlir::Type type);
  void setGlobalType(mlir::Operation *op, mlir::Operation *local);
  void makeBoxLocal(mlir::Operation *op, mlir::Operation *local);

  bool hasPadding(mlir::Type type);
  /// True if the local sizes of `op` allow fp8. Without fp8, padding matters
  /// only in the operands of sums.
  bool isFp8OnRank(mlir::Operation *op);
  void maskOperands(mlir::Operation *op, mlir::IRMapping &operands);
  /// `sharded` with its padding overwritten by `fill`. One mask per value and
  /// fill is built.
  mlir::Value mask(mlir::Value sharded, double fill);
  /// Emits planned steps that convert `local` to a local value of `shape`. An
  /// accumulation is placed directly after the producer. Collectives get the
  /// compression of `reshard`.
  mlir::Value emitSteps(llvm::ArrayRef<ReshardStep> steps, mlir::Value local,
                        mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                        mlir::Operation *reshard = nullptr);

  mlir::func::FuncOp sharded;
  mlir::func::FuncOp step;
  MeshAttr mesh;
  mlir::OpBuilder builder;
  mlir::IRMapping mapping;
  /// Reshard plans by source and target type.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>,
                 std::optional<std::vector<ReshardStep>>>
      plans;
  llvm::DenseMap<mlir::Type, mlir::RankedTensorType> localTypes;
  llvm::DenseMap<mlir::Type, bool> padded;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

/// The source of `value` when reshapes are skipped.
inline mlir::Value withoutReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The source of `value` when views that move no data are skipped.
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

/// Converts the `dpc.phase` marks of graph passes to phases of execution and
/// sorts the ops by phase (see the table in the .cpp file). Fails with a
/// diagnostic at an op that reads both one micro-batch and a sum over all
/// micro-batches.
mlir::LogicalResult assignPhases(mlir::func::FuncOp step);

/// The position of a phase and chunk in the order in which a rank runs ops: by
/// phase, then by chunk. Backward and weight start with the last chunk.
int64_t runOrder(Phase phase, int64_t chunk);

/// `runOrder` for many ops of one context. Results are cached, since ops have
/// few different phases. An op without a phase is forward.
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

#endif // DPC_PASSES_LOCAL_PARTITION_H
