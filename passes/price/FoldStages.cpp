//===- FoldStages.cpp - The small pipeline of a large one -----------------===//
#include "passes/price/FoldStages.h"

#include <algorithm>
#include <cassert>
#include <map>

using namespace dpc;

namespace {

/// The ops of a stage.
struct Span {
  int64_t begin = 0, end = 0;
};

} // namespace

/// Returns the position of `op`. An op in a layer has the position of the
/// corresponding op in the first layer.
static int64_t placeOf(const LayerRun &run, int64_t op) {
  int64_t end = run.before + run.layers * run.period;
  if (op <= run.before)
    return op;
  if (op <= end)
    return run.before + (op - run.before) % run.period;
  return run.before + run.period + (op - end);
}

static int64_t layersIn(const LayerRun &run, const Span &span) {
  int64_t begin = std::max(span.begin, run.before);
  int64_t end = std::min(span.end, run.before + run.layers * run.period);
  return std::max<int64_t>(0, end - begin) / run.period;
}

/// Returns false if the stage begins after the layers or ends before them, so
/// that it cannot have one more layer.
static bool touchesLayers(const LayerRun &run, const Span &span) {
  return span.begin <= run.before + run.layers * run.period &&
         span.end >= run.before;
}

/// Appends from..to-1, without stages between two that begin at one position.
static void appendPath(const std::vector<std::pair<int64_t, int64_t>> &places,
                       int64_t from, int64_t to, std::vector<int64_t> &kept) {
  size_t base = kept.size();
  for (int64_t i = from; i < to; ++i) {
    kept.push_back(i);
    for (size_t k = base; k < kept.size(); ++k)
      if (places[kept[k]].first == places[i].second) {
        kept.resize(k);
        break;
      }
  }
}

/// Returns the first stage of every shape and the stages that connect them.
static std::vector<int64_t>
chooseStages(const std::vector<FoldedStage> &stages,
             const std::vector<std::pair<int64_t, int64_t>> &places) {
  std::vector<int64_t> kept;
  std::vector<bool> seen(stages.size(), false); // by shape
  int64_t from = 0, count = stages.size();
  for (int64_t i = 0; i < count; ++i) {
    if (seen[stages[i].shape])
      continue;
    appendPath(places, from, i, kept);
    kept.push_back(i);
    seen[stages[i].shape] = true;
    from = i + 1;
  }
  assert(from == count && "the last stage has a shape of its own");
  return kept;
}

static std::vector<Span> spansOf(const LayerRun &run,
                                 const std::vector<int64_t> &starts) {
  std::vector<Span> spans;
  for (size_t i = 0; i <= starts.size(); ++i)
    spans.push_back({i == 0 ? 0 : starts[i - 1],
                     i == starts.size() ? run.size() : starts[i]});
  return spans;
}

FoldedPipeline dpc::foldStages(const LayerRun &run,
                               const std::vector<int64_t> &starts,
                               int64_t few) {
  FoldedPipeline result;
  const std::vector<Span> spans = spansOf(run, starts);
  std::vector<std::pair<int64_t, int64_t>> places;
  std::map<std::pair<int64_t, int64_t>, int64_t> shapes;
  std::vector<int64_t> least, whole; // layers, by shape
  bool isExact = true; // whether the stages of each shape have equal layers
  for (const Span &span : spans) {
    places.push_back({placeOf(run, span.begin), placeOf(run, span.end)});
    auto [it, isNew] =
        shapes.try_emplace(places.back(), static_cast<int64_t>(shapes.size()));
    int64_t layers = layersIn(run, span);
    if (isNew) {
      least.push_back(std::min(layers, few));
      whole.push_back(layers);
    }
    least[it->second] = std::min(least[it->second], layers);
    isExact &= whole[it->second] == layers;
    result.stages.push_back({it->second, layers});
  }
  std::vector<int64_t> kept = chooseStages(result.stages, places);
  result.example.assign(shapes.size(), -1);
  for (int64_t i : kept) {
    int64_t shape = result.stages[i].shape;
    if (result.example[shape] < 0)
      result.example[shape] = result.small.size();
    result.small.push_back({shape, least[shape]});
  }
  // Cuts a program whose stages have `layers` (by shape) plus `extra` layers.
  auto lay = [&](const std::vector<int64_t> &layers, int64_t extra) {
    FoldedPipeline::Small small;
    int64_t at = 0;
    for (size_t k = 0; k < kept.size(); ++k) {
      const Span &span = spans[kept[k]];
      const FoldedStage &stage = result.stages[kept[k]];
      int64_t cut = stage.layers - layers[stage.shape];
      if (touchesLayers(run, span))
        cut -= extra;
      at += span.end - span.begin - cut * run.period;
      if (k + 1 < kept.size())
        small.starts.push_back(at);
    }
    small.layers = (at - run.before - run.after) / run.period;
    assert(small.layers * run.period == at - run.before - run.after);
    return small;
  };
  result.fewer = lay(least, 0);
  result.more = lay(least, 1);
  FoldedPipeline::Small exact = lay(whole, 0);
  if (isExact && exact.layers <= result.more.layers) {
    result.isExact = true;
    result.fewer = std::move(exact);
    result.more = {};
    for (FoldedStage &stage : result.small)
      stage.layers = whole[stage.shape];
  }
  return result;
}
