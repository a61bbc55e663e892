//===- FoldStages.h - The small pipeline of a large one ---------*- C++ -*-===//
//
// A program of N layers is cut into V virtual stages. Two stages have the same
// *shape* if they begin and end at the same position: an op before the layers,
// an op of a layer (of any layer), or an op after the layers. Stages of one
// shape differ only in their number of layers. The small pipeline has a stage
// of every shape, each with few layers, and every stage begins where the
// previous stage ends.
//
// The number of an op is its position among the staged ops (Stages.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dpc {

/// The ops of a program: `before` ops, `layers` layers with `period` ops each,
/// and `after` ops.
struct LayerRun {
  int64_t before = 0, period = 0, layers = 0, after = 0;

  int64_t size() const { return before + period * layers + after; }
};

struct FoldedStage {
  int64_t shape = 0;
  int64_t layers = 0; ///< Whole layers.
};

struct FoldedPipeline {
  std::vector<FoldedStage> stages; ///< By virtual stage.
  /// A small program to lower.
  struct Small {
    int64_t layers = 0;
    /// The first op of each stage except the first.
    std::vector<int64_t> starts;
  };
  Small fewer, more;
  /// True if `fewer` already has all layers of every shape; `more` is empty.
  bool isExact = false;
  std::vector<FoldedStage> small; ///< The stages of the program `fewer`.
  std::vector<int64_t> example;   ///< By shape, a stage in `small`.
};

/// Folds stages that begin at op 0 and at the ops `starts`. Stages of `fewer`
/// have at most `few` layers. Each stage of `more` has one layer more.
FoldedPipeline foldStages(const LayerRun &run,
                          const std::vector<int64_t> &starts, int64_t few);

} // namespace dpc
