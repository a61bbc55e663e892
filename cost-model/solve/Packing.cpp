//===- Packing.cpp - Offsets of buffers in one arena ----------------------===//
//
// First fit places buffers one by one at the lowest offset that is free during
// their live range. The order decides the size of the arena. The live ranges of
// training graphs nest (the first activation is freed last), so an order by
// falling live range packs them like a stack. Other graphs need the order by
// falling size. The solver tries several orders, then improves the best one: it
// moves random buffers at the top of the arena to an earlier place in the
// order. A count of comparisons limits the work, not a clock, so that the
// result is the same on every machine.
//
//===----------------------------------------------------------------------===//

#include "cost-model/solve/PeakMemory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace dpc::cost {

namespace {

struct Placed {
  int64_t begin, end;
  int64_t first, last;
};

struct Layout {
  std::vector<int64_t> offsets;
  int64_t bytes = INT64_MAX;
};

/// After this many comparisons (about half a second), no new order is tried.
constexpr int64_t comparisonBudget = 200'000'000;

/// True if an arena is too close to its lower bound to be worth improving.
bool isTight(int64_t bytes, int64_t lowerBound) {
  return bytes - lowerBound <= lowerBound / 1000;
}

} // namespace

/// Returns bytes = INT64_MAX if the arena reaches `limit` bytes.
static Layout placeInOrder(const std::vector<Buffer> &items,
                           const std::vector<uint32_t> &order, int64_t limit,
                           int64_t &comparisons) {
  Layout layout;
  layout.offsets.assign(items.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(items.size());
  int64_t top = 0;
  for (uint32_t id : order) {
    const Buffer &item = items[id];
    int64_t offset = 0;
    size_t i = 0;
    for (; i < placed.size(); ++i) {
      const Placed &other = placed[i];
      if (other.first > item.last || other.last < item.first)
        continue;
      if (other.begin - offset >= item.bytes)
        break;
      offset = std::max(offset, other.end);
    }
    comparisons += static_cast<int64_t>(i);
    layout.offsets[id] = offset;
    top = std::max(top, offset + item.bytes);
    if (top >= limit)
      return layout;
    Placed entry{offset, offset + item.bytes, item.first, item.last};
    placed.insert(
        std::ranges::upper_bound(placed, entry.begin, {}, &Placed::begin),
        entry);
  }
  layout.bytes = top;
  return layout;
}

/// Returns the orders to try, the best one for training graphs first.
static std::vector<std::vector<uint32_t>>
candidateOrders(const std::vector<Buffer> &items) {
  using Key = std::function<double(const Buffer &)>;
  auto life = [](const Buffer &item) { return double(item.last - item.first); };
  auto size = [](const Buffer &item) { return double(item.bytes); };
  auto begin = [](const Buffer &item) { return double(item.first); };
  auto area = [&](const Buffer &item) { return size(item) * (life(item) + 1); };
  auto end = [](const Buffer &item) { return double(item.last); };
  auto less = [](Key key) {
    return [key](const Buffer &item) { return -key(item); };
  };
  std::vector<std::pair<Key, Key>> keys = {{life, size}, {size, life},
                                           {area, size}, {less(begin), life},
                                           {end, life},  {less(begin), size}};
  std::vector<std::vector<uint32_t>> orders;
  for (const auto &[major, minor] : keys) {
    std::vector<std::pair<double, double>> values;
    values.reserve(items.size());
    for (const Buffer &item : items)
      values.emplace_back(-major(item), -minor(item));
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](uint32_t id) { return values[id]; });
    orders.push_back(std::move(order));
  }
  return orders;
}

/// Moves buffers that end above the lower bound to an earlier place, one at a
/// time. Also keeps layouts of equal size, which may lead to smaller layouts.
static void improveOrder(const std::vector<Buffer> &items,
                         std::vector<uint32_t> order, int64_t lowerBound,
                         Layout &best, int64_t &comparisons) {
  constexpr int64_t mostRounds = 2000, improvementBudget = 8'000'000;
  int64_t limit = std::min(comparisonBudget, comparisons + improvementBudget);
  std::mt19937 random(1);
  for (int64_t round = 0; round < mostRounds && comparisons < limit &&
                          !isTight(best.bytes, lowerBound);
       ++round) {
    // In some rounds, buffers that end slightly below the bound move as well.
    int64_t top = lowerBound - lowerBound / 100 * (round % 20);
    std::vector<size_t> high;
    for (size_t i = 1; i < order.size(); ++i)
      if (best.offsets[order[i]] + items[order[i]].bytes > top)
        high.push_back(i);
    if (high.empty())
      continue;
    size_t position = high[random() % high.size()];
    std::vector<uint32_t> trial = order;
    std::rotate(trial.begin() + random() % position, trial.begin() + position,
                trial.begin() + position + 1);
    Layout layout = placeInOrder(items, trial, best.bytes + 1, comparisons);
    if (layout.bytes <= best.bytes) {
      best = std::move(layout);
      order = std::move(trial);
    }
  }
}

static Layout packItems(const std::vector<Buffer> &items) {
  int64_t lowerBound = peakMemory(items).bytes;
  int64_t comparisons = 0;
  Layout best;
  std::vector<uint32_t> bestOrder;
  for (std::vector<uint32_t> &order : candidateOrders(items)) {
    bool isFirst = best.offsets.empty();
    if (!isFirst && isTight(best.bytes, lowerBound))
      return best;
    if (comparisons > comparisonBudget)
      break;
    Layout layout = placeInOrder(items, order, best.bytes, comparisons);
    if (isFirst || layout.bytes < best.bytes) {
      best = std::move(layout);
      bestOrder = std::move(order);
    }
  }
  improveOrder(items, std::move(bestOrder), lowerBound, best, comparisons);
  return best;
}

Packing packBuffers(const std::vector<Buffer> &buffers) {
  std::vector<Buffer> items;
  std::vector<size_t> numbers;
  for (size_t id = 0; id < buffers.size(); ++id) {
    const Buffer &buffer = buffers[id];
    assert(buffer.bytes >= 0 && buffer.last >= buffer.first &&
           "a buffer has a size and a lifetime");
    if (buffer.bytes == 0)
      continue;
    items.push_back(buffer);
    items.back().bytes =
        (buffer.bytes + arenaAlignment - 1) / arenaAlignment * arenaAlignment;
    numbers.push_back(id);
  }
  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  if (items.empty())
    return packing;
  Layout layout = packItems(items);
  packing.bytes = layout.bytes;
  for (size_t i = 0; i < items.size(); ++i)
    packing.offsets[numbers[i]] = layout.offsets[i];
  return packing;
}

} // namespace dpc::cost
