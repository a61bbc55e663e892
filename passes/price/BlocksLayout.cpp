//===- BlocksLayout.cpp - Layers of the stages of a composed pipeline -----===//
// The layers of stages are chosen as in Stages.h, but messages are not counted.
//===----------------------------------------------------------------------===//
#include "passes/price/Blocks.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace dpc;

/// Returns how many layers, each of `seconds`, fit into a stage that takes at
/// most `most` seconds and spends `fixed` seconds on other ops.
static int64_t layersWithin(double most, double fixed, double seconds) {
  constexpr double kRounding = 1e-9;
  return most < fixed
             ? 0
             : static_cast<int64_t>((most - fixed) / seconds * (1 + kRounding) +
                                    kRounding);
}

/// Returns the number of layers of each stage that minimizes the time of the
/// slowest stage. On ties the first stages get fewer layers.
std::vector<int64_t> Blocks::wholeLayers(int64_t stages) const {
  double first = weights.first, layer = weights.layer, last = weights.last;
  auto within = [&](double most) {
    std::vector<int64_t> counts(stages, layersWithin(most, 0, layer));
    counts.front() = layersWithin(most, first, layer);
    counts.back() = layersWithin(most, last, layer);
    return counts;
  };
  double best = std::numeric_limits<double>::infinity();
  for (double fixed : {0.0, first, last})
    for (int64_t count = 0; count <= layers; ++count) {
      double most = fixed + count * layer;
      if (most >= best)
        break;
      std::vector<int64_t> counts = within(most);
      if (llvm::sum_of(counts) >= layers)
        best = most;
    }
  std::vector<int64_t> counts = within(best);
  int64_t extra = llvm::sum_of(counts) - layers;
  for (int64_t v = 0; extra > 0; v = (v + 1) % stages)
    if (counts[v] > (v == 0 || v == stages - 1 ? 0 : 1)) {
      --counts[v];
      --extra;
    }
  return counts;
}

/// Returns the seconds of each stage such that the slowest stage takes the
/// least time. Stages are filled from the last to the first. Stages may be cut
/// at the positions of `cuts`, which contains the seconds before each position.
/// Returns an empty vector if there are too few positions.
static std::vector<double> cutEvenly(const std::vector<double> &cuts,
                                     int64_t stages) {
  constexpr double kRounding = 1e-9;
  constexpr int kHalvings = 24;
  std::vector<double> seconds(stages);
  auto cutWithin = [&](double most) {
    auto end = cuts.end() - 1;
    for (int64_t v = stages - 1; v >= 0; --v) {
      auto first = cuts.begin() + v; // each earlier stage needs a cut
      auto begin =
          v == 0 ? first : std::lower_bound(cuts.begin(), end, *end - most);
      begin = std::max(begin, first);
      if (begin >= end || *end - *begin > most)
        return false;
      seconds[v] = *end - *begin;
      end = begin;
    }
    return true;
  };
  double longest = 0;
  for (size_t i = 1; i < cuts.size(); ++i)
    longest = std::max(longest, cuts[i] - cuts[i - 1]);
  double least = cuts.back() / stages, most = least + longest;
  for (int i = 0; i < kHalvings; ++i) {
    double middle = (least + most) / 2;
    (cutWithin(middle) ? most : least) = middle;
  }
  if (!cutWithin(most * (1 + kRounding)))
    seconds.clear();
  return seconds;
}

/// Converts the seconds of stages to work in layers. If the ops before or after
/// the layers take longer than their stage, the adjacent stage gets less work.
std::vector<double> Blocks::workOf(std::vector<double> seconds) const {
  seconds.front() -= weights.first;
  seconds.back() -= weights.last;
  auto settle = [](double &seconds, double &next) {
    double excess = std::min(0.0, seconds);
    seconds -= excess;
    next += excess;
  };
  for (size_t v = 0; v + 1 < seconds.size(); ++v)
    settle(seconds[v], seconds[v + 1]);
  for (size_t v = seconds.size() - 1; v > 0; --v)
    settle(seconds[v], seconds[v - 1]);
  for (double &work : seconds)
    work = std::max(0.0, work) / weights.layer;
  return seconds;
}

/// Returns the largest work of a rank over all its chunks, in layers.
double Blocks::mostOfRanks(const std::vector<double> &work, int64_t pp) const {
  std::vector<double> ranks(pp, 0);
  for (size_t v = 0; v < work.size(); ++v)
    ranks[v % pp] += work[v];
  ranks.front() += weights.first / weights.layer;
  ranks.back() += weights.last / weights.layer;
  return *std::max_element(ranks.begin(), ranks.end());
}

const Blocks::Layout *Blocks::layoutOf(int64_t pp, int64_t vpp) const {
  std::lock_guard<std::mutex> lock(*mutex);
  auto [it, isNew] = layouts.try_emplace({pp, vpp});
  Layout &layout = it->second;
  int64_t stages = pp * vpp;
  if (isNew && stages == 1) {
    layout = {static_cast<double>(layers)};
  } else if (isNew && placement->run.layers >= stages) {
    std::vector<double> fine = cutEvenly(cuts, stages);
    if (!fine.empty())
      layout = workOf(std::move(fine));
    // With several chunks, cuts between layers may balance the ranks better.
    if (layers >= stages && (layout.empty() || vpp > 1)) {
      std::vector<int64_t> counts = wholeLayers(stages);
      Layout whole(counts.begin(), counts.end());
      if (layout.empty() || mostOfRanks(whole, pp) < mostOfRanks(layout, pp))
        layout = std::move(whole);
    }
  }
  return layout.empty() ? nullptr : &layout;
}
