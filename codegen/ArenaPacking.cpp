//===- ArenaPacking.cpp - Offsets of buffers in one arena -----------------===//
#include "codegen/ArenaPacking.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

namespace dpc::codegen {

/// Comparisons that improving a layout may cost: about a tenth of a second.
static constexpr double kComparisons = 1e8;

static int64_t roundUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

int64_t arenaLowerBound(const std::vector<Lifetime> &buffers,
                        int64_t alignment) {
  std::map<int64_t, int64_t> changes;
  for (const Lifetime &buffer : buffers) {
    int64_t bytes = roundUp(buffer.bytes, alignment);
    changes[buffer.first] += bytes;
    changes[buffer.last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [step, change] : changes) {
    live += change;
    most = std::max(most, live);
  }
  return most;
}

namespace {

/// Places buffers one by one.
class Packer {
public:
  Packer(const std::vector<Lifetime> &buffers, int64_t alignment)
      : buffers(buffers), alignment(alignment) {}

  /// Places in `order` at the tightest gap that fits, or, with `lowest`, at
  /// the lowest.
  ArenaLayout place(const std::vector<size_t> &order, bool lowest);

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

ArenaLayout Packer::place(const std::vector<size_t> &order, bool lowest) {
  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), 0);
  placed.clear();
  for (size_t i : order) {
    int64_t size = roundUp(buffers[i].bytes, alignment);
    if (size == 0)
      continue;
    int64_t offset = findOffset(buffers[i], size, lowest);
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + size);
    Placed entry{offset, offset + size, i};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed &a, const Placed &b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
  }
  return layout;
}

namespace {

/// Tries orders of placing and keeps the best layout.
class OrderSearch {
public:
  OrderSearch(const std::vector<Lifetime> &buffers, int64_t alignment)
      : buffers(buffers), alignment(alignment),
        bound(arenaLowerBound(buffers, alignment)), packer(buffers, alignment) {
    best.bytes = -1;
  }

  void trySortedOrders();
  void tryMixtures();
  void tryMoves();
  ArenaLayout take() {
    best.bytes = std::max<int64_t>(best.bytes, 0);
    return std::move(best);
  }

private:
  const std::vector<Lifetime> &buffers;
  int64_t alignment, bound;
  Packer packer;
  ArenaLayout best;
  std::vector<size_t> bestOrder;
  std::mt19937 random{1};

  double span(size_t i) const {
    return double(buffers[i].last - buffers[i].first + 1);
  }
  bool isTight() const { return best.bytes <= bound + bound / 200; }
  void tryOrder(const std::vector<size_t> &order);
  void trySorted(const std::function<double(size_t)> &key);
};

} // namespace

void OrderSearch::tryOrder(const std::vector<size_t> &order) {
  for (bool lowest : {true, false}) {
    if (best.bytes == bound)
      return;
    ArenaLayout layout = packer.place(order, lowest);
    if (best.bytes < 0 || layout.bytes < best.bytes) {
      best = std::move(layout);
      bestOrder = order;
    }
  }
}

/// By falling key, the larger buffer first among equals.
void OrderSearch::trySorted(const std::function<double(size_t)> &key) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(-key(a), -buffers[a].bytes, a) <
           std::tuple(-key(b), -buffers[b].bytes, b);
  });
  tryOrder(order);
}

void OrderSearch::trySortedOrders() {
  trySorted([&](size_t i) { return span(i); });
  trySorted([&](size_t i) { return double(buffers[i].bytes); });
  trySorted([&](size_t i) { return double(buffers[i].bytes) * span(i); });
  trySorted([&](size_t i) { return -double(buffers[i].first); });
  trySorted([&](size_t i) { return double(buffers[i].last); });
}

/// Long-lived and large first, in several mixtures.
void OrderSearch::tryMixtures() {
  for (int round = 0; round < 24 && !isTight(); ++round) {
    double weight = double(random() % 1000) / 500.0;
    double jitter = double(random() % 100) / 250.0;
    std::vector<double> score(buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i)
      score[i] = std::pow(double(buffers[i].bytes) + 1, weight) * span(i) *
                 (1 + jitter * double(random() % 1000) / 1000.0);
    trySorted([&](size_t i) { return score[i]; });
  }
}

/// Changes the best order a little, again and again: what sticks out over the
/// bound, or lies below that, moves to an earlier place. The work is bounded by
/// comparisons, so that the result does not depend on the machine.
void OrderSearch::tryMoves() {
  double pairs = double(buffers.size()) * double(buffers.size());
  auto rounds = int64_t(std::clamp(kComparisons / (pairs + 1), 8.0, 2000.0));
  for (int64_t round = 0; round < rounds && !isTight(); ++round) {
    int64_t top = bound - int64_t(double(bound) * double(random() % 100) / 400);
    std::vector<size_t> moved = bestOrder;
    for (size_t place = 1; place < moved.size(); ++place) {
      size_t i = moved[place];
      bool sticksOut =
          best.offsets[i] + roundUp(buffers[i].bytes, alignment) > top;
      if (sticksOut && random() % 4 == 0)
        std::rotate(moved.begin() + int64_t(random() % place),
                    moved.begin() + int64_t(place),
                    moved.begin() + int64_t(place) + 1);
    }
    tryOrder(moved);
  }
}

ArenaLayout packArena(const std::vector<Lifetime> &buffers, int64_t alignment) {
  OrderSearch search(buffers, alignment);
  search.trySortedOrders();
  search.tryMixtures();
  search.tryMoves();
  return search.take();
}

} // namespace dpc::codegen
