//===- ArenaPacking.cpp - Offsets of buffers in one arena -----------------===//
#include "codegen/plan/ArenaPacking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

namespace dpc::codegen {

/// The maximum number of comparisons to improve a layout: about one second.
static constexpr double kComparisons = 2e8;
/// The maximum number of changes to one order of buffers.
static constexpr double kMostRounds = 4000;
/// Buffers smaller than 1/kSmallShare of the arena are placed last.
static constexpr int64_t kSmallShare = 1000;

static int64_t roundUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Maps each step at which the number of live bytes changes to the new number.
static std::map<int64_t, int64_t>
liveBytes(const std::vector<Lifetime> &buffers, int64_t alignment) {
  std::map<int64_t, int64_t> live;
  for (const Lifetime &buffer : buffers) {
    int64_t bytes = roundUp(buffer.bytes, alignment);
    live[buffer.first] += bytes;
    live[buffer.last + 1] -= bytes;
  }
  int64_t sum = 0;
  for (auto &[step, bytes] : live)
    bytes = sum += bytes;
  return live;
}

int64_t arenaLowerBound(const std::vector<Lifetime> &buffers,
                        int64_t alignment) {
  int64_t most = 0;
  for (auto [step, bytes] : liveBytes(buffers, alignment))
    most = std::max(most, bytes);
  return most;
}

namespace {

class Packer {
public:
  Packer(const std::vector<Lifetime> &buffers, int64_t alignment)
      : buffers(buffers), alignment(alignment) {}

  /// Places the buffers in `order`: each in the smallest gap where it fits or,
  /// with `lowest`, in the lowest gap where it fits.
  ArenaLayout place(const std::vector<size_t> &order, bool lowest);
  /// Places the buffers of `order` around the buffers that are already placed.
  void add(const std::vector<size_t> &order, bool lowest, ArenaLayout &layout);
  void fix(size_t buffer, int64_t offset);

private:
  struct Placed {
    int64_t begin, end;
    size_t buffer;
  };
  int64_t findOffset(const Lifetime &buffer, int64_t size, bool lowest) const;

  const std::vector<Lifetime> &buffers;
  int64_t alignment;
  std::vector<Placed> placed; ///< ascending by begin
};

} // namespace

int64_t Packer::findOffset(const Lifetime &buffer, int64_t size,
                           bool lowest) const {
  int64_t end = 0, best = -1, bestGap = INT64_MAX;
  for (const Placed &other : placed) {
    const Lifetime &life = buffers[other.buffer];
    if (life.last < buffer.first || life.first > buffer.last)
      continue;
    int64_t gap = other.begin - end;
    if (gap >= size && gap < bestGap) {
      if (lowest)
        return end;
      best = end;
      bestGap = gap;
    }
    end = std::max(end, other.end);
  }
  return best >= 0 ? best : end;
}

void Packer::fix(size_t buffer, int64_t offset) {
  int64_t size = roundUp(buffers[buffer].bytes, alignment);
  Placed entry{offset, offset + size, buffer};
  placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                 [](const Placed &a, const Placed &b) {
                                   return a.begin < b.begin;
                                 }),
                entry);
}

void Packer::add(const std::vector<size_t> &order, bool lowest,
                 ArenaLayout &layout) {
  for (size_t i : order) {
    int64_t size = roundUp(buffers[i].bytes, alignment);
    if (size == 0)
      continue;
    layout.offsets[i] = findOffset(buffers[i], size, lowest);
    layout.bytes = std::max(layout.bytes, layout.offsets[i] + size);
    fix(i, layout.offsets[i]);
  }
}

ArenaLayout Packer::place(const std::vector<size_t> &order, bool lowest) {
  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), 0);
  placed.clear();
  add(order, lowest, layout);
  return layout;
}

namespace {

struct Trial {
  std::vector<size_t> order;
  ArenaLayout layout;
};

/// Tries orders of the buffers and keeps the best layout.
class OrderSearch {
public:
  OrderSearch(const std::vector<Lifetime> &buffers, int64_t alignment)
      : buffers(buffers), alignment(alignment),
        bound(arenaLowerBound(buffers, alignment)), packer(buffers, alignment) {
  }

  ArenaLayout run() {
    trySortedOrders();
    tryMixtures();
    improveBest();
    return std::move(best().layout);
  }

private:
  void trySortedOrders();
  void tryMixtures();
  void improveBest();

  const std::vector<Lifetime> &buffers;
  int64_t alignment, bound;
  Packer packer;
  std::vector<Trial> trials; ///< one per sorted order
  std::mt19937 random{1};

  double span(size_t i) const {
    return double(buffers[i].last - buffers[i].first + 1);
  }
  Trial &best() {
    return *std::min_element(trials.begin(), trials.end(),
                             [](const Trial &a, const Trial &b) {
                               return a.layout.bytes < b.layout.bytes;
                             });
  }
  bool isTight(const ArenaLayout &layout) const {
    return layout.bytes <= bound + bound / 200;
  }
  ArenaLayout place(const std::vector<size_t> &order);
  std::vector<double> fullest() const;
  void trySorted(const std::function<double(size_t)> &key);
  std::vector<size_t> changed(const Trial &trial);
  void improve(Trial &trial, int64_t rounds);
};

} // namespace

ArenaLayout OrderSearch::place(const std::vector<size_t> &order) {
  ArenaLayout lowest = packer.place(order, /*lowest=*/true);
  ArenaLayout tightest = packer.place(order, /*lowest=*/false);
  return lowest.bytes <= tightest.bytes ? lowest : tightest;
}

/// Tries the order of descending keys. On ties, the larger buffer is first.
void OrderSearch::trySorted(const std::function<double(size_t)> &key) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(-key(a), -buffers[a].bytes, a) <
           std::tuple(-key(b), -buffers[b].bytes, b);
  });
  ArenaLayout layout = place(order);
  trials.push_back({std::move(order), std::move(layout)});
}

/// Returns the maximum number of live bytes during the lifetime of each buffer.
std::vector<double> OrderSearch::fullest() const {
  std::map<int64_t, int64_t> live = liveBytes(buffers, /*alignment=*/1);
  std::vector<double> loads;
  for (const Lifetime &buffer : buffers) {
    int64_t most = 0;
    for (auto it = live.lower_bound(buffer.first);
         it != live.end() && it->first <= buffer.last; ++it)
      most = std::max(most, it->second);
    loads.push_back(double(most));
  }
  return loads;
}

void OrderSearch::trySortedOrders() {
  trySorted([&](size_t i) { return span(i); });
  trySorted([&](size_t i) { return double(buffers[i].bytes); });
  trySorted([&](size_t i) { return double(buffers[i].bytes) * span(i); });
  trySorted([&](size_t i) { return -double(buffers[i].first); });
  trySorted([&](size_t i) { return double(buffers[i].last); });
  // Buffers that are live where the arena is fullest have few possible offsets.
  std::vector<double> loads = fullest();
  trySorted([&](size_t i) { return loads[i]; });
  trySorted([&](size_t i) { return loads[i] * std::sqrt(span(i)); });
}

/// Tries orders by descending lifetime and size, with random weights.
void OrderSearch::tryMixtures() {
  for (int round = 0; round < 24 && !isTight(best().layout); ++round) {
    double weight = double(random() % 1000) / 500.0;
    double jitter = double(random() % 100) / 250.0;
    std::vector<double> score(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i)
      score[i] = std::pow(double(buffers[i].bytes) + 1, weight) * span(i) *
                 (1 + jitter * double(random() % 1000) / 1000.0);
    trySorted([&](size_t i) { return score[i]; });
  }
}

/// Moves some buffers forward in the order of `trial` and returns the new
/// order. Chooses at random among the buffers near the end of the arena: those
/// that end above a random offset between 75 % and 100 % of `bound`.
std::vector<size_t> OrderSearch::changed(const Trial &trial) {
  int64_t top = bound - int64_t(double(bound) * double(random() % 100) / 400);
  unsigned rarity = 2 + random() % 30;
  std::vector<size_t> order = trial.order;
  for (size_t place = 1; place < order.size(); ++place) {
    size_t i = order[place];
    int64_t end =
        trial.layout.offsets[i] + roundUp(buffers[i].bytes, alignment);
    if (end > top && random() % rarity == 0)
      std::rotate(order.begin() + int64_t(random() % place),
                  order.begin() + int64_t(place),
                  order.begin() + int64_t(place) + 1);
  }
  return order;
}

/// Changes the order of `trial` in small steps. Keeps a layout unless it is
/// larger, because several changes without gain may reduce the size together.
void OrderSearch::improve(Trial &trial, int64_t rounds) {
  for (; rounds > 0 && !isTight(trial.layout); --rounds) {
    std::vector<size_t> order = changed(trial);
    ArenaLayout layout = place(order);
    if (layout.bytes <= trial.layout.bytes)
      trial = {std::move(order), std::move(layout)};
  }
}

/// Improves several orders, because the best initial order may not give the
/// best final order. Limits the number of comparisons instead of the time, so
/// that the result does not depend on the machine.
void OrderSearch::improveBest() {
  std::sort(trials.begin(), trials.end(), [](const Trial &a, const Trial &b) {
    return std::tie(a.layout.bytes, a.order) <
           std::tie(b.layout.bytes, b.order);
  });
  constexpr size_t kStarts = 8;
  double pairs = double(buffers.size()) * double(buffers.size());
  double rounds = kComparisons / (pairs + 1) / kStarts;
  for (size_t i = 0; i < std::min(kStarts, trials.size()); ++i) {
    if (isTight(best().layout))
      return;
    improve(trials[i], int64_t(std::clamp(rounds, 2.0, kMostRounds)));
  }
}

/// Packs the buffers in `chosen` and sets all other offsets to 0.
static ArenaLayout packChosen(const std::vector<Lifetime> &buffers,
                              const std::vector<size_t> &chosen,
                              int64_t alignment) {
  std::vector<Lifetime> lives;
  for (size_t i : chosen)
    lives.push_back(buffers[i]);
  ArenaLayout found = OrderSearch(lives, alignment).run(), layout;
  layout.offsets.assign(buffers.size(), 0);
  layout.bytes = found.bytes;
  for (size_t k = 0; k < chosen.size(); ++k)
    layout.offsets[chosen[k]] = found.offsets[k];
  return layout;
}

ArenaLayout packArena(const std::vector<Lifetime> &buffers, int64_t alignment) {
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const Lifetime &buffer : buffers) {
    first = std::min(first, buffer.first);
    last = std::max(last, buffer.last);
  }
  // The search is quadratic, so it omits buffers that are always live. It also
  // omits small buffers, which fit into gaps at the end.
  int64_t bound = arenaLowerBound(buffers, alignment);
  std::vector<size_t> lasting, large, small;
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool lasts = buffers[i].first == first && buffers[i].last == last;
    bool isLarge = buffers[i].bytes > bound / kSmallShare;
    (lasts ? lasting : isLarge ? large : small).push_back(i);
  }
  ArenaLayout layout = packChosen(buffers, large, alignment);
  std::sort(small.begin(), small.end(), [&](size_t a, size_t b) {
    return std::tuple(-buffers[a].bytes, a) < std::tuple(-buffers[b].bytes, b);
  });
  Packer packer(buffers, alignment);
  for (size_t i : large)
    packer.fix(i, layout.offsets[i]);
  packer.add(small, /*lowest=*/false, layout);
  for (size_t i : lasting) {
    layout.offsets[i] = layout.bytes;
    layout.bytes += roundUp(buffers[i].bytes, alignment);
  }
  return layout;
}

} // namespace dpc::codegen
