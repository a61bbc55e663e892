//===- KeyValues.h - The values that strategy keys may have -----*- C++ -*-===//
//
// Defines the types of the strategy keys that are neither numbers nor booleans,
// and the text form of every value. Each type has one printer and one parser,
// which --strategy, report.json, command.json and messages share.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Software.h"
#include "cost-model/strategy/Schedule.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dpc::cost {

enum class CpKind {
  Ring,   ///< Queries stay in place; keys and values move around a ring.
  Ulysses ///< all_to_all exchanges sequence shards for shards of heads.
};

enum class Recompute {
  None,
  Selective, ///< Activations that are cheap to recompute: attention scores,
             ///< activation functions, norms.
  Full       ///< All activations of a layer except its input.
};

/// The tensors that are outside the device's memory between uses.
enum class Offload { None, Optimizer, Parameters, All };

enum class OffloadTarget { Host, Disk };

enum class TpOverlap {
  None,
  Chunked ///< In chunks, so that the GEMM and the collective overlap.
};

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<cost::CpKind> = {
    "ring", "ulysses"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<cost::Recompute> = {
    "none", "selective", "full"};
template <>
inline constexpr std::array<std::string_view, 4> kNamesOf<cost::Offload> = {
    "none", "optimizer", "parameters", "all"};
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<cost::OffloadTarget> =
    {"host", "disk"};
template <>
inline constexpr std::array<std::string_view, 2> kNamesOf<cost::TpOverlap> = {
    "none", "chunked"};
} // namespace dpc

namespace dpc::cost {

/// A tensor-parallel degree. It converts to its number of ranks.
struct TensorDegree {
  int64_t ranks = 1;
  /// The two or three factors of a grid of ranks: tp=2x4 is {2, 4}. Each factor
  /// is at least 2, and their product is `ranks`. Empty for a single axis.
  std::vector<int64_t> grid;

  TensorDegree() = default;
  explicit TensorDegree(int64_t ranks) : ranks(ranks) {}
  TensorDegree &operator=(int64_t count) {
    ranks = count;
    grid.clear();
    return *this;
  }
  operator int64_t() const { return ranks; }
  friend bool operator==(const TensorDegree &, const TensorDegree &) = default;
};

/// The order of mesh axes on the devices (Placement.h).
struct PlacementSpec {
  /// Innermost first; if empty, the cheapest order.
  std::vector<std::string> axes;
  /// Groups of nodes in the order of use; if empty, all groups.
  std::vector<int64_t> groups;

  bool isAuto() const { return axes.empty() && groups.empty(); }
  bool operator==(const PlacementSpec &) const = default;
};

/// How the batch is divided among the data-parallel ranks (BatchShares.h).
struct BatchShares {
  /// Whether the search may choose uneven shares, which are faster on some
  /// heterogeneous devices.
  bool isAuto = true;
  /// Ratios of the shares, in the order of the data-parallel ranks. Each of n
  /// ratios applies to dp / n adjacent ranks. If there are no ratios, shares
  /// are even, or the search chooses them if `isAuto`.
  std::vector<int64_t> ratios;

  static BatchShares even() { return {false, {}}; }
  bool isUneven() const;
  bool operator==(const BatchShares &) const = default;
};

/// Keys of a group change together on the path from a baseline to the winner
/// (Changes.h). The groups change in this order.
enum class KeyGroup {
  Degrees,
  Sequence,
  States,
  Schedule,
  MicroBatch,
  Recompute,
  Offload,
  Other, ///< Each key is its own group.
  BatchShares,
  Placement
};

/// The properties of a key. Generic code handles all keys by these properties.
struct KeyInfo {
  std::string_view name;
  std::string_view help = {};
  KeyGroup group = KeyGroup::Other;
  int64_t least = 1, most = INT64_MAX;
  /// The name of another key. If that key has its neutral value, this key has
  /// no effect. If empty, this key always has an effect, or several keys decide
  /// it.
  std::string_view needs = {};
  /// Whether the key affects the time or memory of a single layer, including
  /// the reduction of its gradients. If false, strategies that differ only in
  /// this key share the measurements of layers.
  bool isOfLayer = false;
  /// Whether the key is printed even if its value is neutral.
  bool isAlwaysPrinted = false;
  /// Whether the search chooses the value even if the user fixes all degrees.
  bool staysOpen = false;
  /// Only for keys with an enum type. If set, the search tries all values of
  /// the key, provided that the function returns true for the cluster's
  /// software. If null, the search tries the values that
  /// StrategyEnumeration.cpp lists.
  bool (*isTriedFor)(const Software &) = nullptr;
  /// Whether step functions have the value in the attribute `dpc.NAME`, which
  /// the cost model reads.
  bool isMarked = false;
};

/// Returns the text of a value in --strategy.
std::string printValue(int64_t value);
std::string printValue(bool value);
std::string printValue(const TensorDegree &value);
std::string printValue(const PlacementSpec &value);
std::string printValue(const BatchShares &value);
template <NamedEnum E> std::string printValue(E value) {
  return std::string(stringify(value));
}

/// Returns "--strategy: KEY=VALUE: bad value; expected EXPECTED".
Error badValue(std::string_view key, std::string_view value,
               const std::string &expected);

/// Parses a value. The error is one line that says which values are accepted.
Status parseValue(const KeyInfo &key, std::string_view text, int64_t &out);
Status parseValue(const KeyInfo &key, std::string_view text, bool &out);
Status parseValue(const KeyInfo &key, std::string_view text, TensorDegree &out);
Status parseValue(const KeyInfo &key, std::string_view text,
                  PlacementSpec &out);
Status parseValue(const KeyInfo &key, std::string_view text, BatchShares &out);
/// Returns a text such as "one of none selective full".
std::string listNames(const std::string_view *names, size_t count);
template <NamedEnum E>
Status parseValue(const KeyInfo &key, std::string_view text, E &out) {
  std::optional<E> value = symbolize<E>(text);
  if (!value)
    return badValue(key.name, text,
                    listNames(kNamesOf<E>.data(), kNamesOf<E>.size()));
  out = *value;
  return Status();
}

template <typename T>
Expected<T> parseValue(std::string_view key, std::string_view text) {
  T value;
  if (Status status = parseValue(KeyInfo{.name = key}, text, value); !status)
    return status;
  return value;
}

/// Returns the accepted values for --help: "N", "none|selective|full".
template <typename T> std::string describeValues(const KeyInfo &key) {
  if constexpr (NamedEnum<T>) {
    std::string text;
    for (std::string_view name : kNamesOf<T>)
      text += (text.empty() ? "" : "|") + std::string(name);
    return text;
  } else if constexpr (std::is_same_v<T, bool>) {
    return "true|false";
  } else if constexpr (std::is_same_v<T, TensorDegree>) {
    return "N, or a grid such as 2x2";
  } else if constexpr (std::is_same_v<T, PlacementSpec>) {
    return "auto, or axes, innermost first: tp.dp.pp";
  } else if constexpr (std::is_same_v<T, BatchShares>) {
    return "auto, even, or ratios: 3:1";
  } else {
    return key.most == INT64_MAX
               ? "N"
               : std::to_string(key.least) + ".." + std::to_string(key.most);
  }
}

} // namespace dpc::cost
