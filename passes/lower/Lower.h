//===- Lower.h - From a training step to one rank's program --*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"
#include "passes/shard/Assign.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace dpc {

/// Called with the name of an altitude ("sharded" or "local") and the module
/// when it has reached the final form of this altitude.
using PhaseObserver = llvm::function_ref<void(llvm::StringRef, mlir::ModuleOp)>;

/// Returns `common` with the keys of `strategy`. The number of micro-batches is
/// a data-parallel rank's share of the batch divided by `strategy.microBatch`,
/// rounded up, or 1 if `strategy.microBatch` is 0.
LoweringSpec specOf(const cost::Strategy &strategy, int64_t globalBatch,
                    const LoweringSpec &common);

/// Returns the spec of a strategy with the decisions of its evaluation.
LoweringSpec specOf(const cost::Strategy &strategy,
                    const cost::Decisions &decisions, int64_t globalBatch,
                    const LoweringSpec &common);

/// Rewrites and marks `func` before shardings are chosen. `spec.dataInside`
/// must be set.
mlir::LogicalResult prepareToShard(mlir::func::FuncOp func,
                                   const LoweringSpec &spec);

/// A program that replaces the program being lowered when sizes decide the
/// shardings over tensor and sequence axes. With it, a shrunk program gets the
/// same shardings as the program from which it was shrunk.
struct LayoutModel {
  /// Has the ops of the lowered program in the same order.
  mlir::ModuleOp program;
  const cost::Cluster &cluster;
  LoweringSpec spec; ///< Has the mesh axes of the lowered program.
  /// Set by lowerForStrategy. False if the programs or their axes differ, so
  /// that the sizes of the lowered program decide.
  bool isUsed = false;
};

//===----------------------------------------------------------------------===//
// The phases, in the order of execution and of the pipeline dpc-lower.
//===----------------------------------------------------------------------===//

/// Graph altitude -> sharded altitude: assigns a sharding to every value of
/// @train_step or @forward. Fails with a diagnostic.
mlir::LogicalResult shardProgram(mlir::ModuleOp module,
                                 const cost::Cluster &cluster,
                                 const LoweringSpec &spec,
                                 LayoutModel *layouts = nullptr);

/// Sharded altitude -> local altitude: creates one step function per pipeline
/// stage. `spec.recompute`, `spec.depth` and `spec.alive` have no effect.
void addPartitionPhase(mlir::OpPassManager &pm, const cost::Cluster &cluster,
                       const LoweringSpec &spec);

/// Adds the passes that recompute values and merge collectives into buckets.
void addRecomputePhase(mlir::OpPassManager &pm, const cost::Cluster &cluster,
                       const LoweringSpec &spec);

/// Sets the attributes for the placement of ranks, uneven batch shares and
/// hierarchical all_reduces, and for the strategy keys that only the cost model
/// reads.
mlir::LogicalResult placeRanks(mlir::ModuleOp module,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// Adds the passes for compression, kernels, offloading and epilogues.
void addKernelPhase(mlir::OpPassManager &pm, const LoweringSpec &spec);

/// Clones `program` (a module with @train_step or @forward without encodings)
/// and runs all phases. The result contains @step, or @step.0, @step.1, ... of
/// a pipeline. With `verifies` and an observer, the IR verifier runs after
/// every pass, and the verifier of the altitude runs after every altitude.
/// Fails with one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerForStrategy(mlir::ModuleOp program, const cost::Cluster &cluster,
                 const LoweringSpec &spec, PhaseObserver observer = nullptr,
                 LayoutModel *layouts = nullptr, bool verifies = true);

/// The halves of lowerForStrategy. lowerToShared clones the program and runs
/// the phases up to the partition. lowerRest runs the later phases in place.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
lowerToShared(mlir::ModuleOp program, const cost::Cluster &cluster,
              const LoweringSpec &spec, PhaseObserver observer = nullptr,
              LayoutModel *layouts = nullptr, bool verifies = false);
mlir::LogicalResult lowerRest(mlir::ModuleOp module,
                              const cost::Cluster &cluster,
                              const LoweringSpec &spec, bool verifies);

/// Returns the pipeline for `spec` in the syntax of --pass-pipeline. Its passes
/// read the cluster from the file `name`.
std::string pipelineText(const LoweringSpec &spec, const cost::Cluster &cluster,
                         const std::string &name);

/// Returns `@step` of a lowered module without pipeline stages.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

/// Returns the step functions of a lowered module, indexed by the stage of the
/// rank: `@step`, or `@step.0`, `@step.1`, ... of a pipeline; empty if there
/// are none.
llvm::SmallVector<mlir::func::FuncOp> findSteps(mlir::ModuleOp module);

} // namespace dpc
