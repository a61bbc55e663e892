//===- Lower.h - From a training step to one rank's program --*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_LOWER_H
#define DPC_PASSES_LOWER_LOWER_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Assign.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace dpc {

/// Called with the module after every phase: "sharded", "local".
using PhaseObserver = llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)>;

/// What lowering takes for a strategy: its keys, with micro-batches counted (a
/// data-parallel rank's share of the batch, divided by `strategy.microBatch`,
/// rounded up; 1 where that is 0), and what `common` says for all strategies.
LoweringSpec specOf(const cost::Strategy &strategy, int64_t globalBatch,
                    const LoweringSpec &common);

/// The same with what the strategy's evaluation decided.
LoweringSpec specOf(const cost::Strategy &strategy,
                    const cost::Decisions &decisions, int64_t globalBatch,
                    const LoweringSpec &common);

/// Rewrites and marks `func` as choices of shardings expect it. `degrees` has
/// `dataInside` set.
mlir::LogicalResult prepareToShard(mlir::func::FuncOp func,
                                   const LoweringSpec &degrees);

/// The program whose sizes decide what tensor and sequence axes do in every op,
/// where that is not the lowered one: a shrunk program takes the layouts of the
/// large one.
struct LayoutModel {
  mlir::ModuleOp program; ///< The same ops, in the same order.
  const cost::Cluster &cluster;
  LoweringSpec degrees; ///< The same axes.
  /// Set by lowerForStrategy: false where the two programs or their axes turned
  /// out to be unlike, so that the lowered one's own sizes decided.
  bool isUsed = false;
};

//===----------------------------------------------------------------------===//
// The phases, in their order. The registered pipeline dpc-lower runs the same
// ones (Passes.h).
//===----------------------------------------------------------------------===//

/// Graph altitude -> sharded altitude: gives every value of @train_step or
/// @forward a sharding. Fails with a diagnostic.
mlir::LogicalResult shardProgram(mlir::ModuleOp module,
                                 const cost::Cluster &cluster,
                                 const LoweringSpec &spec,
                                 LayoutModel *layouts = nullptr);

/// Sharded altitude -> local altitude: one step function per pipeline stage.
/// `spec.recompute`, `depth` and `alive` make no difference.
void addPartitionPhase(mlir::OpPassManager &pm, const LoweringSpec &spec);

/// What the backward pass recomputes, and which collectives go together.
void addRecomputePhase(mlir::OpPassManager &pm, const cost::Cluster &cluster,
                       const LoweringSpec &spec);

/// Marks of placement, uneven batch shares and hierarchical all_reduces.
mlir::LogicalResult placeRanks(mlir::ModuleOp module,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// Collectives as they are executed, kernels, offloading, epilogues.
void addKernelPhase(mlir::OpPassManager &pm, const LoweringSpec &spec);

/// Clones `program` (a module with @train_step or @forward without encodings)
/// and runs all phases for one strategy. The result holds @step, or @step.0,
/// @step.1, ... of a pipeline. With `verifies` and an observer the IR is
/// verified after every pass, and each altitude's invariants at its end. Fails
/// with one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerForStrategy(mlir::ModuleOp program, const cost::Cluster &cluster,
                 const LoweringSpec &spec, PhaseObserver observer = nullptr,
                 LayoutModel *layouts = nullptr, bool verifies = true);

/// The phases up to the partition on a clone, and those after it in place.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToShared(mlir::ModuleOp program, const cost::Cluster &cluster,
              const LoweringSpec &spec, PhaseObserver observer = nullptr,
              LayoutModel *layouts = nullptr, bool verifies = false);
mlir::LogicalResult lowerRest(mlir::ModuleOp module,
                              const cost::Cluster &cluster,
                              const LoweringSpec &spec, bool verifies);

/// The passes that lower a program for `spec`, as --pass-pipeline takes them;
/// they read the cluster by its `name`.
std::string pipelineText(const LoweringSpec &spec, const cost::Cluster &cluster,
                         const std::string &name);

/// `@step` of a lowered module without pipeline.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

/// The functions of a lowered module by rank stage: `@step`, or `@step.0`,
/// `@step.1`, ... of a pipeline. Empty when there is none.
llvm::SmallVector<mlir::func::FuncOp> findSteps(mlir::ModuleOp module);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LOWER_H
