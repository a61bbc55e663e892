//===- StrategyParser.cpp - The --strategy option -------------------------===//

#include "cost-model/strategy/Strategy.h"

#include <algorithm>
#include <array>

namespace dpc::cost {

using Names = std::vector<std::string_view>;

static const Strategy neutralKeys;

const Names &availableKeys() {
  static const Names keys = {
      "dp",           "tp",          "tp=grid",   "sp",          "pp",
      "vpp",          "schedule",    "cp",        "cp_kind",     "zero",
      "hybrid_shard", "micro_batch", "recompute", "ep",          "offload",
      "offload_to",   "ranks",       "placement", "batch_shares"};
  return keys;
}

namespace {

/// Reads one text against the keys that are available.
class Parser {
public:
  Parser(int64_t ranks, const Names &available)
      : ranks(ranks), available(available) {}
  Expected<StrategyRequest> run(std::string_view text);
  /// All keys of the text, the others neutral.
  Expected<StrategyRequest> runComplete(std::string_view text);

private:
  int64_t ranks;
  const Names &available;
  StrategyRequest request;

  Status parseKey(std::string_view key, std::string_view value);
  template <typename T>
  Status checkAvailable(const KeyInfo &key, const T &value) const;
  Status parseKeys(std::string_view text);
  Status takeRanks();
  Status fitToRanks();
  void fixTheRest();
};

} // namespace

bool isKeyAvailable(std::string_view key, std::string_view value,
                    const Names &available) {
  return std::any_of(
      available.begin(), available.end(), [&](std::string_view entry) {
        size_t equal = entry.find('=');
        return entry.substr(0, equal) == key &&
               (value.empty() || equal == std::string_view::npos ||
                entry.substr(equal + 1) == value);
      });
}

/// "a, b and c".
static std::string joinNames(const Names &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0                  ? ""
             : i + 1 == names.size() ? " and "
                                     : ", ") +
            std::string(names[i]);
  return text;
}

/// Tells values that are wrong everywhere from those that this build lacks.
template <typename T>
Status Parser::checkAvailable(const KeyInfo &key, const T &value) const {
  if constexpr (std::is_same_v<T, TensorDegree>)
    if (!value.grid.empty() && std::find(available.begin(), available.end(),
                                         "tp=grid") == available.end())
      return Error{"--strategy: tp=" + printValue(value) +
                   " is not available in this build: expected one whole "
                   "number, such as tp=4"};
  if (isKeyAvailable(key.name, printValue(value), available))
    return Status();
  T neutral{};
  visitKeys([&](const KeyInfo &other, auto field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field(neutralKeys))>, T>)
      if (other.name == key.name)
        neutral = field(neutralKeys);
  });
  if (value == neutral)
    return Status();
  std::string expected = std::string(key.name) + "=" + printValue(neutral);
  Names others;
  for (std::string_view entry : available)
    if (size_t equal = entry.find('='); equal == std::string_view::npos)
      others.push_back(entry);
    else if (entry.substr(0, equal) == key.name)
      expected += " or " + std::string(entry);
  return Error{"--strategy: " + std::string(key.name) + "=" +
               printValue(value) +
               " is not available in this build: expected " + expected + "; " +
               joinNames(others) + " can be set"};
}

Status Parser::parseKey(std::string_view name, std::string_view text) {
  std::string expected = "one of";
  std::optional<Status> status;
  auto read = [&](const KeyInfo &key, auto &out) {
    expected += " " + std::string(key.name);
    if (key.name != name)
      return;
    typename std::decay_t<decltype(out)>::value_type value{};
    status = parseValue(key, text, value);
    if (*status)
      status = checkAvailable(key, value);
    out = std::move(value);
  };
  visitKeys([&](const KeyInfo &key, auto field) { read(key, field(request)); });
  read(KeyInfo{"ranks", {}}, request.ranks);
  if (status)
    return *status;
  return Error{"--strategy: unknown key '" + std::string(name) +
               "'; expected " + expected};
}

/// The degrees that make ranks, in the order of messages.
static std::array<std::pair<std::string_view, std::optional<int64_t>>, 4>
rankDegrees(const StrategyRequest &request) {
  return {{{"dp", request.dp},
           {"tp", request.tp ? std::optional(request.tp->ranks) : std::nullopt},
           {"pp", request.pp},
           {"cp", request.cp}}};
}

/// Sets what is not named to what a complete strategy has.
void Parser::fixTheRest() {
  bool isInterleaved = request.schedule
                           ? *request.schedule == ScheduleKind::Interleaved
                           : request.vpp.value_or(1) > 1;
  if (!request.schedule)
    request.schedule =
        isInterleaved ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  // Interleaving is asked for, but not how much of it.
  bool isOpen = isInterleaved && request.pp.value_or(1) > 1;
  visitKeys([&](const KeyInfo &key, auto field) {
    bool staysOpen = (key.name == "vpp" && isOpen) || key.name == "cp_kind" ||
                     key.name == "micro_batch" || key.name == "placement" ||
                     key.name == "batch_shares";
    if (!field(request) && !staysOpen)
      field(request) = field(neutralKeys);
  });
  request.sp = *request.sp && *request.tp > 1;
}

/// Fewer ranks than the cluster has, where the user says so.
Status Parser::takeRanks() {
  if (request.ranks.value_or(1) > ranks)
    return badValue("ranks", std::to_string(*request.ranks),
                    "a whole number from 1 to " + std::to_string(ranks) +
                        ", the devices of the cluster");
  ranks = request.ranks.value_or(ranks);
  return Status();
}

/// Fixes what the named degrees imply, or says why they cannot work.
Status Parser::fitToRanks() {
  int64_t product = 1, count = 0;
  bool isOpen = false; // The search may set one that is not named.
  std::string named, needed, all;
  for (const auto &[name, value] : rankDegrees(request)) {
    bool isKnown = isKeyAvailable(name, "", available);
    if (isKnown)
      all += (all.empty() ? "" : " x ") + std::string(name);
    if (!value) {
      isOpen |= isKnown && name != "cp";
      continue;
    }
    ++count;
    product =
        *value > ranks ? ranks + 1 : std::min(product * *value, ranks + 1);
    if (*value == 1 && !isKnown)
      continue;
    named += (named.empty() ? "" : ",") + std::string(name) + "=" +
             std::to_string(*value);
    needed += (needed.empty() ? "" : " x ") + std::to_string(*value);
  }
  if (count == 0 && ranks > 1)
    return Status();
  if (product == ranks) {
    fixTheRest();
    return Status();
  }
  if (product < ranks && ranks % product == 0 && isOpen)
    return Status();
  std::string count2 = std::to_string(ranks);
  std::string ofCluster = request.ranks ? "" : " of the cluster";
  std::string idle;
  if (product < ranks && !request.ranks &&
      isKeyAvailable("ranks", "", available))
    idle = " (ranks=" + std::to_string(product) + " leaves devices idle)";
  if (needed.find('x') == std::string::npos)
    return Error{"--strategy: " + named + " does not divide the " + count2 +
                 " ranks" + ofCluster + "; expected " + all + " = " + count2 +
                 idle};
  return Error{"--strategy: " + named + " needs " + needed +
               " ranks; expected " + all + " = " + count2 + ", the ranks" +
               ofCluster + idle};
}

/// KEY=VALUE,... into the request.
Status Parser::parseKeys(std::string_view text) {
  Names seen;
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
    DPC_TRY(parseKey(key, part.substr(equal + 1)));
    if (comma == std::string_view::npos)
      return Status();
    text.remove_prefix(comma + 1);
  }
}

Expected<StrategyRequest> Parser::run(std::string_view text) {
  if (text == "auto") {
    if (ranks == 1) {
      request.dp = request.pp = request.cp = 1;
      request.tp = TensorDegree();
    }
    request.sp = ranks == 1 ? std::optional<bool>(false) : std::nullopt;
    return request;
  }
  DPC_TRY(parseKeys(text));
  DPC_TRY(takeRanks());
  DPC_TRY(fitToRanks());
  if (request.ep && ranks % *request.ep != 0)
    return Error{"--strategy: ep=" + std::to_string(*request.ep) +
                 " does not divide the " + std::to_string(ranks) +
                 " ranks of the cluster; expected a divisor: experts are "
                 "spread over them"};
  DPC_TRY(checkCombination(request));
  return request;
}

Expected<StrategyRequest> Parser::runComplete(std::string_view text) {
  if (!text.empty() && text != "auto")
    DPC_TRY(parseKeys(text));
  fixTheRest();
  DPC_TRY(checkCombination(request));
  return request;
}

Expected<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks,
                                        const Names &available) {
  return Parser(ranks, available).run(text);
}

Expected<Strategy> parseCompleteStrategy(std::string_view text) {
  Expected<StrategyRequest> request =
      Parser(INT64_MAX, availableKeys()).runComplete(text);
  if (!request)
    return request.status();
  Strategy strategy;
  visitKeys([&](const KeyInfo &, auto field) {
    field(strategy) = field(*request).value_or(field(neutralKeys));
  });
  return strategy;
}

} // namespace dpc::cost
