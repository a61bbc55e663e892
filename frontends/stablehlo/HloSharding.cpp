//===- HloSharding.cpp - Parser for HLO shardings of XLA ------------------===//
#include "frontends/stablehlo/HloSharding.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace dpc::frontend::hlo {

static constexpr int64_t kMaxDevices = int64_t(1) << 20;
static constexpr size_t kMaxDims = 64;

static bool eat(llvm::StringRef &text, llvm::StringRef token) {
  text = text.ltrim();
  return text.consume_front(token);
}

/// Parses "2,1,4". Fails if a number is less than `least`.
static bool parseNumbers(llvm::StringRef &text, Shape &numbers, int64_t least) {
  do {
    int64_t number;
    text = text.ltrim();
    if (text.consumeInteger(10, number) || number < least ||
        number > kMaxDevices)
      return false;
    numbers.push_back(number);
  } while (eat(text, ","));
  return true;
}

/// Parses the sizes of a device grid, for example "[2,1,4]".
static bool parseGrid(llvm::StringRef &text, Shape &grid) {
  if (!eat(text, "[") || !parseNumbers(text, grid, 1) || !eat(text, "]") ||
      grid.size() > kMaxDims)
    return false;
  int64_t product = 1;
  return llvm::all_of(
      grid, [&](int64_t size) { return (product *= size) <= kMaxDevices; });
}

/// Returns the devices 0, 1, .. of `grid` in the order of the transposed grid.
static Shape transposed(const Shape &grid, const Shape &order) {
  int64_t count = numElements(grid);
  Shape strides(grid.size(), 1);
  for (size_t d = grid.size(); d-- > 1;)
    strides[d - 1] = strides[d] * grid[d];
  Shape devices(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t k = order.size(); k-- > 0;) {
      devices[i] += rest % grid[order[k]] * strides[order[k]];
      rest /= grid[order[k]];
    }
  }
  return devices;
}

/// Parses a device list: "0,1,2,3", "<=[4]" or "<=[2,2]T(1,0)".
static bool parseDevices(llvm::StringRef &text, HloSharding &sharding) {
  if (!eat(text, "<="))
    return parseNumbers(text, sharding.listed, 0);
  Shape &order = sharding.order;
  if (!parseGrid(text, sharding.grid))
    return false;
  if (eat(text, "T(")) {
    if (!parseNumbers(text, order, 0) || !eat(text, ")"))
      return false;
  } else {
    order.resize(sharding.grid.size());
    std::iota(order.begin(), order.end(), 0);
  }
  Shape sorted(order);
  llvm::sort(sorted);
  for (auto [i, d] : llvm::enumerate(sorted))
    if (d != static_cast<int64_t>(i))
      return false;
  return order.size() == sharding.grid.size();
}

/// Returns how many of the last tile dimensions hold replicas.
static std::optional<size_t> parseCopies(llvm::StringRef &text) {
  if (eat(text, "last_tile_dim_replicate"))
    return 1;
  if (!eat(text, "last_tile_dims={"))
    return 0;
  size_t count = 0;
  do {
    if (!eat(text, "replicated"))
      return std::nullopt; // manual and others
    ++count;
  } while (eat(text, ","));
  return eat(text, "}") ? std::optional(count) : std::nullopt;
}

/// Whether nothing follows except "metadata={..}" and the closing brace.
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
  Shape tiles;
  if (!eat(text, "devices=") || !parseGrid(text, tiles) ||
      !parseDevices(text, sharding))
    return std::nullopt;
  auto copies = parseCopies(text);
  if (!copies || *copies > tiles.size() || !atEnd(text) ||
      numElements(tiles) != sharding.deviceCount())
    return std::nullopt;
  sharding.tiles.assign(tiles.begin(), tiles.end() - *copies);
  return sharding;
}

int64_t HloSharding::listingSteps() const {
  return deviceCount() * static_cast<int64_t>(1 + order.size() + tiles.size());
}

int64_t HloSharding::deviceCount() const {
  return listed.empty() ? numElements(grid)
                        : static_cast<int64_t>(listed.size());
}

std::optional<std::vector<std::vector<int32_t>>> HloSharding::tileOf() const {
  int64_t count = deviceCount(), behind = count;
  std::vector<std::vector<int32_t>> lists(tiles.size());
  Shape devices = listed.empty() ? transposed(grid, order) : listed;
  std::vector<bool> seen(count);
  for (int64_t device : devices) {
    if (device >= count || seen[device])
      return std::nullopt;
    seen[device] = true;
  }
  for (auto [d, parts] : llvm::enumerate(tiles)) {
    behind /= parts;
    if (parts == 1)
      continue;
    lists[d].resize(count);
    for (auto [place, device] : llvm::enumerate(devices))
      lists[d][device] =
          static_cast<int32_t>(static_cast<int64_t>(place) / behind % parts);
  }
  return lists;
}

} // namespace dpc::frontend::hlo
