//===- Fold.h - Evaluation of deep models from shallow ones -----*- C++ -*-===//
//
// A strategy for a model of N equal layers is evaluated without lowering all
// layers. Without a pipeline, the programs with `few` and `few + 1` layers are
// lowered, and their costs are extrapolated (StageProfile.h). With a pipeline,
// the stages of the whole model are chosen from the seconds of its ops. A small
// pipeline that has a stage of every shape (FoldStages.h) is lowered twice, the
// second time with one more layer in each stage. The costs of the large stages
// are extrapolated from the costs of the small stages. Then the schedule of the
// large pipeline is simulated.
//
// Pipelines whose losses need sums over all micro-batches first
// (passes/local/PartitionTotals.cpp) are not folded.
//
// Measurements are cached. Strategies share them if they differ only in the
// number of layers per stage, in chunks, or in the order of the schedule.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/Evaluation.h"
#include "passes/lower/Lower.h"
#include "passes/lower/ProgramFamily.h"
#include "passes/lower/SharedLowering.h"

namespace dpc {

class Folder {
public:
  /// `family` and `lowering` must outlive the folder.
  Folder(ProgramFamily &family, SharedLowering &lowering);
  ~Folder();

  /// Returns true if the model has enough layers.
  bool canFold() const;

  /// Must be called before several threads evaluate. These threads use only
  /// measurements made before this call, so their order has no effect.
  void beginRound();

  /// Returns the time and memory of the whole model under `spec`, or the reason
  /// why the model cannot be lowered. Returns nothing if this strategy cannot
  /// be folded. The caller sets `flops`. Thread-safe.
  std::optional<cost::Evaluation> evaluate(const LoweringSpec &spec);

  /// Returns a text that is equal for strategies composed from the same
  /// segments (Blocks.h), or "" if the model has no segments.
  std::string blockOf(const LoweringSpec &spec, int64_t globalBatch);
  /// Measures the segments of strategies with equal `blockOf` and composes the
  /// evaluations. Does not cache the segments. Thread-safe.
  std::vector<std::optional<cost::Composition>>
  compose(llvm::ArrayRef<LoweringSpec> block, int64_t globalBatch,
          double limit);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace dpc
