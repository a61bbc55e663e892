//===- FoldStages.h - A small pipeline for a large one ----------*- C++ -*-===//
//
// A program of N layers is cut into V virtual stages. Two stages have the same
// *shape* when they begin and end at the same place: an op before the layers,
// an op within any layer, or an op behind them. Stages of one shape differ in
// whole layers only. The small pipeline has a stage of every shape, each with
// few layers, in an order in which one begins where the one before it ends.
//
// Plain numbers, no IR: ops are counted as ops with a home are (Stages.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_FOLDSTAGES_H
#define DPC_PASSES_PRICE_FOLDSTAGES_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dpc {

/// Ops of a program: `before`, then `layers` times `period`, then `after`.
struct LayerRun {
  int64_t before = 0, period = 0, layers = 0, after = 0;

  int64_t size() const { return before + period * layers + after; }
};

/// A stage of the large pipeline.
struct FoldedStage {
  int64_t shape = 0;
  int64_t layers = 0; ///< Whole layers of ops in it.
};

struct FoldedPipeline {
  std::vector<FoldedStage> stages; ///< By virtual stage.

  /// What is to be lowered: the first op of every stage but the first, and the
  /// layers of the program, with `few` or `few + 1` layers in a stage.
  struct Small {
    int64_t layers = 0;
    std::vector<int64_t> starts;
  };
  Small fewer, more;
  /// Stages of `fewer` have all layers that those of their shape have: there is
  /// no `more`.
  bool isExact = false;
  std::vector<FoldedStage> small; ///< The stages of `fewer`.
  std::vector<int64_t> example;   ///< By shape: one of them.
};

/// Folds stages that begin at ops 0 and `starts`. Stages of the small pipeline
/// have at most `few` layers, of `more` one more.
FoldedPipeline foldStages(const LayerRun &run,
                          const std::vector<int64_t> &starts, int64_t few);

} // namespace dpc

#endif // DPC_PASSES_PRICE_FOLDSTAGES_H
