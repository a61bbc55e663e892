//===- Lower.h - From a training step to one rank's program --*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_LOWER_H
#define DPC_PASSES_LOWER_LOWER_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Assign.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace dpc {

/// Called with the module at the end of the altitudes "sharded" and "local".
using PhaseObserver = llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)>;

/// `common` with the keys of `strategy`. The number of micro-batches is a
/// data-parallel rank's share of the batch divided by `strategy.microBatch`,
/// rounded up; 1 if that is 0.
LoweringSpec specOf(const cost::Strategy &strategy, int64_t globalBatch,
                    const LoweringSpec &common);

/// The same with the decisions of the strategy's evaluation.
LoweringSpec specOf(const cost::Strategy &strategy,
                    const cost::Decisions &decisions, int64_t globalBatch,
                    const LoweringSpec &common);

/// Rewrites and marks `func` before shardings are chosen. `spec` has
/// `dataInside` set.
mlir::LogicalResult prepareToShard(mlir::func::FuncOp func,
                                   const LoweringSpec &spec);

/// Another program whose sizes decide the shardings over tensor and sequence
/// axes: a shrunk program takes the shardings of the original one.
struct LayoutModel {
  mlir::ModuleOp program; ///< Has the same ops in the same order.
  const cost::Cluster &cluster;
  LoweringSpec spec; ///< Has the same mesh axes.
  /// Set by lowerForStrategy: false if the programs or their axes differ, so
  /// that the sizes of the lowered program decided.
  bool isUsed = false;
};

//===----------------------------------------------------------------------===//
// The phases in their order, which the registered pipeline dpc-lower has too.
//===----------------------------------------------------------------------===//

/// Graph altitude -> sharded altitude: gives every value of @train_step or
/// @forward a sharding. Fails with a diagnostic.
mlir::LogicalResult shardProgram(mlir::ModuleOp module,
                                 const cost::Cluster &cluster,
                                 const LoweringSpec &spec,
                                 LayoutModel *layouts = nullptr);

/// Sharded altitude -> local altitude: one step function per pipeline stage. It
/// does not depend on `spec.recompute`, `depth` and `alive`.
void addPartitionPhase(mlir::OpPassManager &pm, const LoweringSpec &spec);

/// Recomputation in the backward pass, then buckets of collectives.
void addRecomputePhase(mlir::OpPassManager &pm, const cost::Cluster &cluster,
                       const LoweringSpec &spec);

/// Marks placement, uneven batch shares, hierarchical all_reduces and keys that
/// only the cost model reads.
mlir::LogicalResult placeRanks(mlir::ModuleOp module,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// Executable collectives, kernels, offloading and epilogues.
void addKernelPhase(mlir::OpPassManager &pm, const LoweringSpec &spec);

/// Clones `program` (a module with @train_step or @forward without encodings)
/// and runs all phases. The result holds @step, or @step.0, @step.1, ... of a
/// pipeline. With `verifies` and an observer, every pass is followed by the IR
/// verifier and every altitude by its own verifier. Fails with one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerForStrategy(mlir::ModuleOp program, const cost::Cluster &cluster,
                 const LoweringSpec &spec, PhaseObserver observer = nullptr,
                 LayoutModel *layouts = nullptr, bool verifies = true);

/// The phases up to the partition, on a clone; then the others, in place.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToShared(mlir::ModuleOp program, const cost::Cluster &cluster,
              const LoweringSpec &spec, PhaseObserver observer = nullptr,
              LayoutModel *layouts = nullptr, bool verifies = false);
mlir::LogicalResult lowerRest(mlir::ModuleOp module,
                              const cost::Cluster &cluster,
                              const LoweringSpec &spec, bool verifies);

/// The pipeline for `spec` in the form of --pass-pipeline. Its passes read the
/// cluster from `name`.
std::string pipelineText(const LoweringSpec &spec, const cost::Cluster &cluster,
                         const std::string &name);

/// `@step` of a lowered module without pipeline stages.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

/// The step functions of a lowered module by rank stage: `@step`, or `@step.0`,
/// `@step.1`, ... of a pipeline; empty if there are none.
llvm::SmallVector<mlir::func::FuncOp> findSteps(mlir::ModuleOp module);

} // namespace dpc

#endif // DPC_PASSES_LOWER_LOWER_H
