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

/// The number of ranks along `axes`, which are names.
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
  /// `localType`, computed once per type.
  mlir::RankedTensorType localTypeOf(mlir::Type type);
  void setGlobalType(mlir::Operation *op, mlir::Operation *local);
  void makeBoxLocal(mlir::Operation *op, mlir::Operation *local);

  bool hasPadding(mlir::Type type);
  /// True if the local sizes of `op` allow fp8. Without it, padding enters only
  /// sums.
  bool isFp8OnRank(mlir::Operation *op);
  void maskOperands(mlir::Operation *op, mlir::IRMapping &operands);
  /// `sharded` with its padding overwritten; one mask per value and fill.
  mlir::Value mask(mlir::Value sharded, double fill);
  /// Emits planned steps to a local value of `shape`. An accumulation comes
  /// right after the producer. Collectives get the compression of `reshard`.
  mlir::Value emitSteps(llvm::ArrayRef<ReshardStep> steps, mlir::Value local,
                        mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                        mlir::Operation *reshard = nullptr);

  mlir::func::FuncOp sharded;
  mlir::func::FuncOp step;
  MeshAttr mesh;
  mlir::OpBuilder builder;
  mlir::IRMapping mapping;
  /// Plans by source and target type.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>,
                 std::optional<std::vector<ReshardStep>>>
      plans;
  llvm::DenseMap<mlir::Type, mlir::RankedTensorType> localTypes;
  llvm::DenseMap<mlir::Type, bool> padded;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

/// The value that leads to `value` through reshapes.
inline mlir::Value withoutReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getX();
  return value;
}

/// The value of which `value` is a view, through views that move no data.
inline mlir::Value withoutViews(mlir::Value value) {
  while (mlir::Operation *op = value.getDefiningOp()) {
    if (!isMovedView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Erases pure ops without readers. Returns true if there were any.
bool eraseDeadOps(mlir::Block &block);

/// Turns the `dpc.phase` of graph passes into phases of execution, and sorts
/// the ops by them; see the table in the .cpp file. Fails with a diagnostic at
/// an op that reads one micro-batch and the sum over all of them.
mlir::LogicalResult assignPhases(mlir::func::FuncOp step);

/// The order in which a rank stage runs ops: by phase, then by chunk; backward
/// and weight begin with the last chunk.
int64_t runOrder(Phase phase, int64_t chunk);

/// `runOrder` of many ops of one context, which have few phases. An op without
/// a phase is forward.
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
