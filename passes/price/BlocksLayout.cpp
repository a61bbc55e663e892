//===- BlocksLayout.cpp - Layers of the stages of a composed pipeline -----===//
//
// As the stages of a program are chosen (Stages.h), without the seconds of the
// messages at cuts.
//
//===----------------------------------------------------------------------===//
#include "passes/price/BlocksPlan.h"

#include <cmath>
#include <numeric>

using namespace dpc;

/// Most whole layers of `seconds` each in a stage that takes `most` at most and
/// has `fixed` besides.
static int64_t layersWithin(double most, double fixed, double seconds) {
  constexpr double kRounding = 1e-9;
  return most < fixed
             ? 0
             : static_cast<int64_t>((most - fixed) / seconds * (1 + kRounding) +
                                    kRounding);
}

/// Whole layers of stages: the slowest is as fast as can be, and the first
/// stages have fewer layers where there is a choice.
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
      if (std::accumulate(counts.begin(), counts.end(), int64_t(0)) >= layers)
        best = most;
    }
  std::vector<int64_t> counts = within(best);
  int64_t extra =
      std::accumulate(counts.begin(), counts.end(), int64_t(0)) - layers;
  for (int64_t v = 0; extra > 0; v = (v + 1) % stages)
    if (counts[v] > (v == 0 || v == stages - 1 ? 0 : 1)) {
      --counts[v];
      --extra;
    }
  return counts;
}

/// Seconds of stages that are cut at some of `cuts`, the seconds before every
/// place where that can be: the last ones as long as the slowest, which is as
/// fast as can be. Empty where there are fewer places.
static std::vector<double> cutEvenly(const std::vector<double> &cuts,
                                     int64_t stages) {
  constexpr double kRounding = 1e-9;
  constexpr int kHalvings = 24;
  std::vector<double> seconds(stages);
  auto cutWithin = [&](double most) {
    auto end = cuts.end() - 1;
    for (int64_t v = stages - 1; v >= 0; --v) {
      auto first = cuts.begin() + v; // the others need a place each
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

/// The work of stages of `seconds` in layers. What the two ends have too much
/// of is not in the layers beside them.
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

/// Work of the rank that has most in all its chunks.
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
  if (!isNew)
    return layout.work.empty() ? nullptr : &layout;
  int64_t stages = pp * vpp;
  if (stages == 1) {
    layout = {{layers}, {static_cast<double>(layers)}};
    return &layout;
  }
  if (homes->run.layers < stages)
    return nullptr;
  std::vector<double> fine = cutEvenly(homes->cuts, stages);
  if (!fine.empty())
    layout.work = workOf(std::move(fine));
  if (layers < stages) {
    for (double work : layout.work)
      layout.layersOf.push_back(std::ceil(work));
    return layout.work.empty() ? nullptr : &layout;
  }
  layout.layersOf = wholeLayers(stages);
  std::vector<double> whole(layout.layersOf.begin(), layout.layersOf.end());
  // Chunks of a rank make up for each other.
  bool isBetter =
      layout.work.empty() ||
      (vpp > 1 && mostOfRanks(whole, pp) < mostOfRanks(layout.work, pp));
  if (isBetter)
    layout.work = std::move(whole);
  return &layout;
}
