//===- HloSharding.cpp - The shardings of XLA's HLO -----------------------===//
#include "frontends/stablehlo/HloSharding.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace dpc::frontend::hlo {

/// A list as long is made for every dimension that is split.
static constexpr int64_t kMostDevices = int64_t(1) << 20;

static bool eat(llvm::StringRef &text, llvm::StringRef token) {
  text = text.ltrim();
  return text.consume_front(token);
}

/// "2,1,4": numbers of at least `least`.
static bool parseNumbers(llvm::StringRef &text, Shape &numbers, int64_t least) {
  do {
    int64_t number;
    text = text.ltrim();
    if (text.consumeInteger(10, number) || number < least ||
        number > kMostDevices)
      return false;
    numbers.push_back(number);
  } while (eat(text, ","));
  return true;
}

/// "[2,1,4]", sizes of a grid of devices.
static bool parseGrid(llvm::StringRef &text, Shape &grid) {
  if (!eat(text, "[") || !parseNumbers(text, grid, 1) || !eat(text, "]"))
    return false;
  int64_t product = 1;
  return llvm::all_of(
      grid, [&](int64_t size) { return (product *= size) <= kMostDevices; });
}

/// The devices 0, 1, .. of a grid in the order of the transposed grid.
static std::vector<int64_t> transposed(const Shape &grid, const Shape &order) {
  int64_t count = numElements(grid);
  Shape strides(grid.size(), 1);
  for (size_t d = grid.size(); d-- > 1;)
    strides[d - 1] = strides[d] * grid[d];
  std::vector<int64_t> devices(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t k = order.size(); k-- > 0;) {
      devices[i] += rest % grid[order[k]] * strides[order[k]];
      rest /= grid[order[k]];
    }
  }
  return devices;
}

/// "0,1,2,3" or "<=[4]" or "<=[2,2]T(1,0)".
static bool parseDevices(llvm::StringRef &text, std::vector<int64_t> &devices) {
  if (!eat(text, "<=")) {
    Shape listed;
    if (!parseNumbers(text, listed, 0))
      return false;
    devices.assign(listed.begin(), listed.end());
    return true;
  }
  Shape grid, order;
  if (!parseGrid(text, grid))
    return false;
  if (eat(text, "T(")) {
    if (!parseNumbers(text, order, 0) || !eat(text, ")"))
      return false;
  } else {
    order.resize(grid.size());
    std::iota(order.begin(), order.end(), 0);
  }
  Shape sorted(order);
  llvm::sort(sorted);
  for (auto [i, d] : llvm::enumerate(sorted))
    if (d != static_cast<int64_t>(i))
      return false;
  if (order.size() != grid.size())
    return false;
  devices = transposed(grid, order);
  return true;
}

/// How many of the last lists of tiles hold copies.
static std::optional<size_t> parseCopies(llvm::StringRef &text) {
  if (eat(text, "last_tile_dim_replicate"))
    return 1;
  if (!eat(text, "last_tile_dims={"))
    return 0;
  size_t count = 0;
  do {
    if (!eat(text, "replicated"))
      return std::nullopt; // manual, ..
    ++count;
  } while (eat(text, ","));
  return eat(text, "}") ? std::optional(count) : std::nullopt;
}

/// "metadata={..}" may follow whatever it is.
static bool atEnd(llvm::StringRef text) {
  return eat(text, "metadata=") ? text.ends_with("}")
                                : eat(text, "}") && text.trim().empty();
}

std::optional<HloSharding> parseHloSharding(llvm::StringRef text) {
  HloSharding sharding;
  if (!eat(text, "{"))
    return std::nullopt;
  if (eat(text, "replicated"))
    return atEnd(text) ? std::optional(sharding) : std::nullopt;
  if (eat(text, "unknown") || eat(text, "maximal")) {
    sharding.isOpen = true;
    return sharding;
  }
  Shape grid;
  std::vector<int64_t> devices;
  if (!eat(text, "devices=") || !parseGrid(text, grid) ||
      !parseDevices(text, devices))
    return std::nullopt;
  auto copies = parseCopies(text);
  if (!copies || *copies > grid.size() || !atEnd(text) ||
      numElements(grid) != static_cast<int64_t>(devices.size()))
    return std::nullopt;
  sharding.tiles.assign(grid.begin(), grid.end() - *copies);
  sharding.tileOf.resize(sharding.tiles.size());
  int64_t behind = numElements(grid);
  for (auto [d, tiles] : llvm::enumerate(sharding.tiles)) {
    behind /= tiles;
    if (tiles == 1)
      continue;
    sharding.tileOf[d].assign(devices.size(), -1);
    for (auto [place, device] : llvm::enumerate(devices)) {
      if (device >= static_cast<int64_t>(devices.size()) ||
          sharding.tileOf[d][device] >= 0)
        return std::nullopt; // no device twice
      sharding.tileOf[d][device] = static_cast<int64_t>(place) / behind % tiles;
    }
  }
  return sharding;
}

} // namespace dpc::frontend::hlo
