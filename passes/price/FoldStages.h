//===- FoldStages.h - The small pipeline of a large one ---------*- C++ -*-===//
//
// A program of N layers is cut into V virtual stages. Two stages have the same
// *shape* when they begin and end at the same position: an op before the
// layers, an op of any layer, or an op after the layers. Stages of one shape
// differ by whole layers only. The small pipeline has a stage of every shape,
// each with few layers, and every stage begins where the stage before it ends.
//
// Ops are numbers: the positions of the ops that belong to stages (Stages.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_FOLDSTAGES_H
#define DPC_PASSES_PRICE_FOLDSTAGES_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dpc {

/// The number of ops of a program: `before`, `layers` times `period`, `after`.
struct LayerRun {
  int64_t before = 0, period = 0, layers = 0, after = 0;

  int64_t size() const { return before + period * layers + after; }
};

/// A stage of the large pipeline.
struct FoldedStage {
  int64_t shape = 0;
  int64_t layers = 0; ///< Whole layers.
};

struct FoldedPipeline {
  std::vector<FoldedStage> stages; ///< By virtual stage.
  /// A program to lower.
  struct Small {
    int64_t layers = 0;
    std::vector<int64_t> starts; ///< The first op of all stages but the first.
  };
  Small fewer, more;
  /// The stages of `fewer` have all layers of their shapes, and `more` is
  /// empty.
  bool isExact = false;
  std::vector<FoldedStage> small; ///< The stages of `fewer`.
  std::vector<int64_t> example;   ///< A small stage of every shape.
};

/// Folds stages that begin at ops 0 and `starts`. Stages of `fewer` have at
/// most `few` layers, and stages of `more` have one more.
FoldedPipeline foldStages(const LayerRun &run,
                          const std::vector<int64_t> &starts, int64_t few);

} // namespace dpc

#endif // DPC_PASSES_PRICE_FOLDSTAGES_H
