//===- KeyValues.h - The values that strategy keys may have -----*- C++ -*-===//
//
// Defines the types of keys whose values are neither numbers nor booleans, and
// the text form of all values. Each type has one printer and one parser, which
// --strategy, report.json, the plan's command and messages share.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_STRATEGY_KEYVALUES_H
#define DPC_COST_MODEL_STRATEGY_KEYVALUES_H

#include "cost-model/machine/Software.h"
#include "cost-model/strategy/Schedule.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dpc::cost {

/// The kind of context parallelism.
enum class CpKind {
  Ring,   ///< Queries stay in place; keys and values move around a ring.
  Ulysses ///< all_to_all exchanges sequence shards for shards of heads.
};

/// Which activations the backward pass recomputes.
enum class Recompute {
  None,
  Selective, ///< The ones that are cheap to recompute: attention scores,
             ///< activation functions, norms.
  Full       ///< All activations of a layer except its input.
};

/// The tensors that stay outside the device's memory between uses.
enum class Offload { None, Optimizer, Parameters, All };

/// The memory that holds offloaded tensors.
enum class OffloadTarget { Host, Disk };

/// How a tensor-parallel collective and the GEMM next to it run.
enum class TpOverlap {
  None,
  Chunked ///< The GEMM and the collective run in chunks, so that they overlap.
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

/// A tensor-parallel degree; it converts to its number of ranks.
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
  std::vector<std::string>
      axes; ///< Innermost first; empty: the cheapest order.
  std::vector<int64_t>
      groups; ///< Groups of nodes, in the order of use; empty: all.

  bool isAuto() const { return axes.empty() && groups.empty(); }
  bool operator==(const PlacementSpec &) const = default;
};

/// How the batch is divided among the data-parallel ranks (BatchShares.h).
struct BatchShares {
  /// The search chooses uneven shares if the devices differ and uneven shares
  /// are faster.
  bool isAuto = true;
  /// Ratios of the shares, in the order of the data-parallel ranks. With n
  /// ratios, each one applies to dp / n adjacent ranks. If empty, shares are
  /// even, or the search chooses them if `isAuto`.
  std::vector<int64_t> ratios;

  /// All ranks have equal shares.
  static BatchShares even() { return {false, {}}; }
  /// Whether the ratios differ.
  bool isUneven() const;
  bool operator==(const BatchShares &) const = default;
};

/// Keys that change together. The report shows the effect of changing one group
/// after another, in this order. Neighbours.cpp counts a step for each group
/// that differs, except that degrees, schedules and micro-batches have
/// distances.
enum class KeyGroup {
  Degrees,
  Sequence,
  States,
  Schedule,
  MicroBatch,
  Recompute,
  Offload,
  Other, ///< Each key is a group of its own.
  BatchShares,
  Placement
};

/// The properties of a key. All code that handles keys generically reads their
/// properties here: messages, --help, the search, the folding of layers,
/// reports, exports.
struct KeyInfo {
  std::string_view name;
  std::string_view help = {};
  KeyGroup group = KeyGroup::Other;
  /// The range of an integer key.
  int64_t least = 1, most = INT64_MAX;
  /// The name of another key: this key has an effect only if the value of that
  /// key is not neutral. If empty, this key always has an effect.
  std::string_view needs = {};
  /// The key affects the time or memory of a single layer.
  bool isOfLayer = false;
  /// The key is printed even if its value is neutral.
  bool isAlwaysPrinted = false;
  /// The search chooses the value of the key even if the user fixes all
  /// degrees.
  bool staysOpen = false;
  /// For keys whose values are an enum: if set, the search tries all values on
  /// clusters for whose software the function returns true. If null, it tries
  /// the values that StrategyEnumeration.cpp lists.
  bool (*isTriedFor)(const Software &) = nullptr;
  /// Step functions carry the value in the attribute `dpc.NAME`, which the cost
  /// model reads.
  bool isMarked = false;
};

/// The text that --strategy takes for a value.
std::string printValue(int64_t value);
std::string printValue(bool value);
std::string printValue(const TensorDegree &value);
std::string printValue(const PlacementSpec &value);
std::string printValue(const BatchShares &value);
template <NamedEnum E> std::string printValue(E value) {
  return std::string(stringify(value));
}

/// "--strategy: KEY=VALUE: bad value; expected EXPECTED".
Error badValue(std::string_view key, std::string_view value,
               const std::string &expected);

/// Parses a value. The error is one line that says which values are accepted.
Status parseValue(const KeyInfo &key, std::string_view text, int64_t &out);
Status parseValue(const KeyInfo &key, std::string_view text, bool &out);
Status parseValue(const KeyInfo &key, std::string_view text, TensorDegree &out);
Status parseValue(const KeyInfo &key, std::string_view text,
                  PlacementSpec &out);
Status parseValue(const KeyInfo &key, std::string_view text, BatchShares &out);
/// "one of none selective full".
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

/// Parses a value of `key`.
template <typename T>
Expected<T> parseValue(std::string_view key, std::string_view text) {
  T value;
  if (Status status = parseValue(KeyInfo{.name = key}, text, value); !status)
    return status;
  return value;
}

/// The accepted values of a type for --help: "N", "none|selective|full".
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

#endif // DPC_COST_MODEL_STRATEGY_KEYVALUES_H
