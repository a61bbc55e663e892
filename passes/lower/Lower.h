//===- Lower.h - From a training step to one rank's program --*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_LOWER_H
#define DPC_PASSES_LOWER_LOWER_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Assign.h"

#include "mlir/IR/OwningOpRef.h"

namespace dpc {

/// Called with the module after every phase: "sharded", "local".
using PhaseObserver = llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)>;

/// The degrees of a strategy. Micro-batches: the data-parallel rank's share of
/// the batch, cut into pieces of `strategy.microBatch` samples (0 = one piece).
/// What no strategy says (buckets, compression) is that of `common`.
ShardDegrees degreesOf(const cost::Strategy &strategy, int64_t globalBatch,
                       const ShardDegrees &common);

/// The degrees of a strategy with what its evaluation decided.
ShardDegrees degreesOf(const cost::Strategy &strategy,
                       const cost::Decisions &decisions, int64_t globalBatch,
                       const ShardDegrees &common);

/// What choices need to know of a function: its axes, marks and rewrites.
/// `degrees` with `dataInside`.
mlir::LogicalResult prepareToShard(mlir::func::FuncOp func,
                                   const ShardDegrees &degrees);

/// The program whose sizes decide what tensor and sequence axes do in every op,
/// where that is not the lowered one: a shrunk program takes the layouts of the
/// large one.
struct LayoutModel {
  mlir::ModuleOp program; ///< The same ops, in the same order.
  const cost::Cluster &cluster;
  ShardDegrees degrees; ///< The same axes.
  /// Set by lowerForStrategy: false where the two programs or their axes turned
  /// out to be unlike, so that the lowered one's own sizes decided.
  bool isUsed = false;
};

/// Clones `program` (a module with @train_step or @forward without encodings)
/// and lowers it for one strategy: shard, partition, form kernels. The result
/// holds @step. Needs the passes of passes/local to be registered. Fails with
/// one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerForStrategy(mlir::ModuleOp program, const cost::Cluster &cluster,
                 const ShardDegrees &degrees, PhaseObserver observer = nullptr,
                 LayoutModel *layouts = nullptr, bool verifies = true);

/// The part of it that does not depend on what backward makes again
/// (`recompute`, `depth` and `alive` of `degrees`), and the rest, in place.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToShared(mlir::ModuleOp program, const cost::Cluster &cluster,
              const ShardDegrees &degrees, PhaseObserver observer = nullptr,
              LayoutModel *layouts = nullptr, bool verifies = false);
mlir::LogicalResult lowerRest(mlir::ModuleOp module,
                              const cost::Cluster &cluster,
                              const ShardDegrees &degrees, bool verifies);

/// `@step` of a lowered module without pipeline.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

/// The functions of a lowered module by rank stage: `@step`, or `@step.0`,
/// `@step.1`, ... of a pipeline. Empty when there is none.
llvm::SmallVector<mlir::func::FuncOp> findSteps(mlir::ModuleOp module);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LOWER_H
