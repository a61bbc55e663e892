//===- StrategyParser.cpp - The --strategy option -------------------------===//

#include "cost-model/Strategy.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace dpc::cost {

namespace {

/// A key that plans of this build cannot express yet at other values.
struct PlannedKey {
  std::string_view name;
  std::string_view neutral;
  /// Other values the key may have; empty = a whole number >= 1.
  std::vector<std::string_view> values;
};

} // namespace

static const std::vector<PlannedKey> &plannedKeys() {
  static const std::vector<PlannedKey> keys = {
      {"pp", "1", {}},
      {"vpp", "1", {}},
      {"cp", "1", {}},
      {"cp_kind", "ring", {"ring", "ulysses"}},
      {"ep", "1", {}},
      {"hybrid_shard", "1", {}},
      {"schedule", "1f1b", {"gpipe", "1f1b", "interleaved", "zb-h1"}},
      {"recompute", "none", {"none", "selective", "full"}},
      {"offload", "none", {"none", "optimizer", "parameters", "all"}}};
  return keys;
}

static std::optional<int64_t> parseInteger(std::string_view text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

static Error badValue(std::string_view key, std::string_view value,
                      const std::string &expected) {
  return Error{"--strategy: " + std::string(key) + "=" + std::string(value) +
               ": bad value; expected " + expected};
}

/// What a key that is not available accepts, for messages.
static std::string describeValues(const PlannedKey &key) {
  if (key.values.empty())
    return "a whole number >= 1";
  std::string text = "one of";
  for (std::string_view value : key.values)
    text += " " + std::string(value);
  return text;
}

/// Accepts the neutral value only, but tells bad from not available.
static Status parsePlanned(const PlannedKey &key, std::string_view value) {
  std::optional<int64_t> number = parseInteger(value);
  bool isValid = key.values.empty()
                     ? number && *number >= 1
                     : std::find(key.values.begin(), key.values.end(), value) !=
                           key.values.end();
  if (!isValid)
    return badValue(key.name, value, describeValues(key));
  // "01" means the neutral "1".
  if (value == key.neutral ||
      (number && std::to_string(*number) == key.neutral))
    return Status();
  return Error{"--strategy: " + std::string(key.name) + "=" +
               std::string(value) +
               " is not available in this build: expected " +
               std::string(key.name) + "=" + std::string(key.neutral) +
               "; dp, tp, sp, zero and micro_batch can be set"};
}

static Status parseDegree(std::string_view key, std::string_view value,
                          std::optional<int64_t> &out) {
  std::optional<int64_t> number = parseInteger(value);
  if (number && *number >= 1) {
    out = number;
    return Status();
  }
  bool isGrid =
      key == "tp" && !value.empty() &&
      value.find_first_not_of("0123456789x") == std::string_view::npos;
  if (isGrid && value.find('x') != std::string_view::npos)
    return Error{"--strategy: tp=" + std::string(value) +
                 " is not available in this build: expected one whole number, "
                 "such as tp=4"};
  return badValue(key, value, "a whole number >= 1");
}

static Status parseKey(std::string_view key, std::string_view value,
                       StrategyRequest &request) {
  if (key == "dp")
    return parseDegree(key, value, request.dp);
  if (key == "tp")
    return parseDegree(key, value, request.tp);
  if (key == "micro_batch")
    return parseDegree(key, value, request.microBatch);
  if (key == "zero") {
    request.zero = parseInteger(value);
    return request.zero && *request.zero >= 0 && *request.zero <= 3
               ? Status()
               : Status(badValue(key, value, "a whole number from 0 to 3"));
  }
  if (key == "sp") {
    if (value != "true" && value != "false")
      return badValue(key, value, "true or false");
    request.sp = value == "true";
    return Status();
  }
  std::string expected = "one of dp tp sp zero micro_batch";
  for (const PlannedKey &planned : plannedKeys()) {
    if (planned.name == key)
      return parsePlanned(planned, value);
    expected += " " + std::string(planned.name);
  }
  return Error{"--strategy: unknown key '" + std::string(key) + "'; expected " +
               expected};
}

/// Fixes what the named degrees imply, or says why they cannot work.
static Status fitToRanks(StrategyRequest &request, int64_t ranks) {
  if (!request.dp && !request.tp)
    return Status();
  int64_t dp = request.dp.value_or(1), tp = request.tp.value_or(1);
  std::string named = request.dp ? "dp=" + std::to_string(dp) : "";
  if (request.tp)
    named += (named.empty() ? "tp=" : ",tp=") + std::to_string(tp);
  bool isProduct = dp <= ranks && tp <= ranks && dp * tp == ranks;
  if (isProduct) {
    request.dp = dp;
    request.tp = tp;
    request.sp = request.sp.value_or(false) && tp > 1;
    request.zero = request.zero.value_or(0);
    return Status();
  }
  if (request.dp && request.tp)
    return Error{"--strategy: " + named + " needs " + std::to_string(dp) +
                 " x " + std::to_string(tp) + " ranks; expected dp x tp = " +
                 std::to_string(ranks) + ", the ranks of the cluster"};
  int64_t degree = request.dp ? dp : tp;
  if (ranks % degree != 0)
    return Error{
        "--strategy: " + named + " does not divide the " +
        std::to_string(ranks) +
        " ranks of the cluster; expected dp x tp = " + std::to_string(ranks)};
  return Status();
}

Result<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks) {
  StrategyRequest request;
  if (text == "auto") {
    if (ranks == 1)
      request.dp = request.tp = 1;
    request.sp = ranks == 1 ? std::optional<bool>(false) : std::nullopt;
    return request;
  }
  std::vector<std::string_view> seen;
  while (true) {
    size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    size_t equal = part.find('=');
    if (equal == std::string_view::npos || equal == 0)
      return Error{"--strategy: '" + std::string(part) +
                   "'; expected auto or KEY=VALUE,... such as dp=2,tp=4"};
    std::string_view key = part.substr(0, equal);
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return Error{"--strategy: key '" + std::string(key) +
                   "' is given twice; expected once"};
    seen.push_back(key);
    if (Status status = parseKey(key, part.substr(equal + 1), request); !status)
      return Error{status.error()};
    if (comma == std::string_view::npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (Status status = fitToRanks(request, ranks); !status)
    return Error{status.error()};
  return request;
}

} // namespace dpc::cost
