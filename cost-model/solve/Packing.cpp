//===- Packing.cpp - Offsets of buffers in one arena ----------------------===//
//
// First fit places items one by one at the lowest offset that is free during
// their live range. The order decides the size. The live ranges of training
// graphs nest (the first activation is freed last), and the longest first packs
// them like a stack; other graphs prefer the largest first. The solver tries
// all orders, then improves the best order: it moves random items that reach
// the top to an earlier place. A count of comparisons limits the work, not a
// clock, so that the result is the same on every machine.
//
//===----------------------------------------------------------------------===//

#include "cost-model/solve/PeakMemory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace dpc::cost {

namespace {

/// A buffer or a bundle.
struct Item {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

/// A placed item, in order of offsets.
struct Placed {
  int64_t begin;
  int64_t end;
  int64_t first;
  int64_t last;
};

struct Layout {
  std::vector<int64_t> offsets;
  int64_t bytes = INT64_MAX;
};

/// The comparisons after which no new order starts; about half a second.
constexpr int64_t comparisonBudget = 200'000'000;

/// An arena this close to its lower bound is not improved.
bool isTight(int64_t bytes, int64_t lowerBound) {
  return bytes - lowerBound <= lowerBound / 1000;
}

} // namespace

static int64_t alignUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Places items in `order`; gives up (bytes = INT64_MAX) at `limit` bytes.
static Layout placeInOrder(const std::vector<Item> &items,
                           const std::vector<uint32_t> &order, int64_t limit,
                           int64_t &comparisons) {
  Layout layout;
  layout.offsets.assign(items.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(items.size());
  int64_t top = 0;
  for (uint32_t id : order) {
    const Item &item = items[id];
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
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed &a, const Placed &b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
  }
  layout.bytes = top;
  return layout;
}

/// The orders to try, the best one for training graphs first.
static std::vector<std::vector<uint32_t>>
candidateOrders(const std::vector<Item> &items) {
  using Key = std::function<double(const Item &)>;
  auto life = [](const Item &item) { return double(item.last - item.first); };
  auto size = [](const Item &item) { return double(item.bytes); };
  auto begin = [](const Item &item) { return double(item.first); };
  auto area = [&](const Item &item) { return size(item) * (life(item) + 1); };
  auto end = [](const Item &item) { return double(item.last); };
  auto less = [](Key key) {
    return [key](const Item &item) { return -key(item); };
  };
  std::vector<std::pair<Key, Key>> keys = {{life, size}, {size, life},
                                           {area, size}, {less(begin), life},
                                           {end, life},  {less(begin), size}};
  std::vector<std::vector<uint32_t>> orders;
  for (const auto &[major, minor] : keys) {
    std::vector<std::pair<double, double>> values;
    values.reserve(items.size());
    for (const Item &item : items)
      values.emplace_back(-major(item), -minor(item));
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return values[a] < values[b];
    });
    orders.push_back(std::move(order));
  }
  return orders;
}

/// Moves items that reach beyond the bound to an earlier place, one at a time.
/// Takes layouts of equal size too, because they may lead to smaller ones.
static void improveOrder(const std::vector<Item> &items,
                         std::vector<uint32_t> order, int64_t lowerBound,
                         Layout &best, int64_t &comparisons) {
  constexpr int64_t mostRounds = 2000, improvementBudget = 8'000'000;
  int64_t limit = std::min(comparisonBudget, comparisons + improvementBudget);
  std::mt19937 random(1);
  for (int64_t round = 0; round < mostRounds && comparisons < limit &&
                          !isTight(best.bytes, lowerBound);
       ++round) {
    // Sometimes an item that only comes close to the bound.
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

/// The largest sum of live items.
static int64_t lowerBoundOf(const std::vector<Item> &items) {
  std::map<int64_t, int64_t> change;
  for (const Item &item : items) {
    change[item.first] += item.bytes;
    change[item.last + 1] -= item.bytes;
  }
  int64_t live = 0, peak = 0;
  for (const auto &[step, bytes] : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

static Layout packItems(const std::vector<Item> &items) {
  int64_t lowerBound = lowerBoundOf(items);
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

static Status checkInput(const std::vector<Buffer> &buffers,
                         const std::vector<Bundle> &bundles) {
  for (size_t id = 0; id < buffers.size(); ++id)
    if (buffers[id].bytes < 0 || buffers[id].last < buffers[id].first)
      return Error{"buffer " + std::to_string(id) + ": " +
                   std::to_string(buffers[id].bytes) + " bytes in steps " +
                   std::to_string(buffers[id].first) + " to " +
                   std::to_string(buffers[id].last) +
                   "; expected bytes >= 0 and first <= last"};
  std::vector<bool> used(buffers.size(), false);
  for (size_t b = 0; b < bundles.size(); ++b)
    for (uint32_t id : bundles[b]) {
      if (id >= buffers.size() || used[id])
        return Error{"bundle " + std::to_string(b) + ": buffer " +
                     std::to_string(id) + "; expected an id below " +
                     std::to_string(buffers.size()) + " in one bundle only"};
      used[id] = true;
    }
  return Status();
}

Expected<Packing> packBuffers(const std::vector<Buffer> &buffers,
                              const std::vector<Bundle> &bundles,
                              int64_t alignment) {
  assert(alignment >= 1 && "alignment in bytes");
  if (Status status = checkInput(buffers, bundles); !status)
    return Error{status.message()};
  std::vector<bool> bundled(buffers.size(), false);
  std::vector<Bundle> groups = bundles;
  for (const Bundle &bundle : bundles)
    for (uint32_t id : bundle)
      bundled[id] = true;
  for (uint32_t id = 0; id < buffers.size(); ++id)
    if (!bundled[id])
      groups.push_back({id});
  std::vector<Item> items;
  std::vector<uint32_t> groupOf;
  for (uint32_t g = 0; g < groups.size(); ++g) {
    Item item{0, INT64_MAX, INT64_MIN};
    for (uint32_t id : groups[g]) {
      item.bytes += alignUp(buffers[id].bytes, alignment);
      item.first = std::min(item.first, buffers[id].first);
      item.last = std::max(item.last, buffers[id].last);
    }
    if (item.bytes == 0)
      continue;
    items.push_back(item);
    groupOf.push_back(g);
  }
  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  if (items.empty())
    return packing;
  Layout layout = packItems(items);
  packing.bytes = layout.bytes;
  for (size_t i = 0; i < items.size(); ++i) {
    int64_t offset = layout.offsets[i];
    for (uint32_t id : groups[groupOf[i]]) {
      packing.offsets[id] = offset;
      offset += alignUp(buffers[id].bytes, alignment);
    }
  }
  return packing;
}

/// Alignment, bounds and bundles.
static Status verifyOffsets(const std::vector<Buffer> &buffers,
                            const std::vector<Bundle> &bundles,
                            const Packing &packing, int64_t alignment) {
  if (packing.offsets.size() != buffers.size())
    return Error{std::to_string(packing.offsets.size()) +
                 " offsets; expected one per buffer, " +
                 std::to_string(buffers.size())};
  for (size_t id = 0; id < buffers.size(); ++id) {
    int64_t offset = packing.offsets[id];
    if (offset < 0 || offset % alignment != 0 ||
        offset + buffers[id].bytes > packing.bytes)
      return Error{"buffer " + std::to_string(id) + ": offset " +
                   std::to_string(offset) + " of " +
                   std::to_string(buffers[id].bytes) +
                   " bytes; expected a multiple of " +
                   std::to_string(alignment) + " within the " +
                   std::to_string(packing.bytes) + " bytes of the arena"};
  }
  for (const Bundle &bundle : bundles)
    for (size_t i = 1; i < bundle.size(); ++i) {
      int64_t expected = packing.offsets[bundle[i - 1]] +
                         alignUp(buffers[bundle[i - 1]].bytes, alignment);
      if (packing.offsets[bundle[i]] != expected)
        return Error{"buffer " + std::to_string(bundle[i]) + ": offset " +
                     std::to_string(packing.offsets[bundle[i]]) +
                     "; expected " + std::to_string(expected) +
                     ", right behind buffer " + std::to_string(bundle[i - 1])};
    }
  return Status();
}

Status verifyPacking(const std::vector<Buffer> &buffers,
                     const std::vector<Bundle> &bundles, const Packing &packing,
                     int64_t alignment) {
  if (Status status = checkInput(buffers, bundles); !status)
    return status;
  if (Status status = verifyOffsets(buffers, bundles, packing, alignment);
      !status)
    return status;
  // A sweep over time: no live buffer may reach the next one by offset.
  std::vector<uint32_t> byFirst, byLast;
  for (uint32_t id = 0; id < buffers.size(); ++id)
    if (buffers[id].bytes > 0)
      byFirst.push_back(id);
  byLast = byFirst;
  std::stable_sort(byFirst.begin(), byFirst.end(), [&](uint32_t a, uint32_t b) {
    return buffers[a].first < buffers[b].first;
  });
  std::stable_sort(byLast.begin(), byLast.end(), [&](uint32_t a, uint32_t b) {
    return buffers[a].last < buffers[b].last;
  });
  auto overlap = [](uint32_t a, uint32_t b) {
    if (a > b)
      std::swap(a, b);
    return Error{"buffers " + std::to_string(a) + " and " + std::to_string(b) +
                 " are live at the same time and overlap"};
  };
  std::map<int64_t, uint32_t> live;
  size_t freed = 0;
  for (uint32_t id : byFirst) {
    for (; buffers[byLast[freed]].last < buffers[id].first; ++freed)
      live.erase(packing.offsets[byLast[freed]]);
    int64_t begin = packing.offsets[id], end = begin + buffers[id].bytes;
    auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < end)
      return overlap(id, next->second);
    if (next != live.begin()) {
      uint32_t before = std::prev(next)->second;
      if (packing.offsets[before] + buffers[before].bytes > begin)
        return overlap(before, id);
    }
    live.emplace(begin, id);
  }
  return Status();
}

} // namespace dpc::cost
