//===- StrategyParser.cpp - The --strategy option -------------------------===//

#include "cost-model/strategy/BatchShares.h"
#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/Strategy.h"

#include <algorithm>
#include <charconv>

namespace dpc::cost {

using Names = std::vector<std::string_view>;

const Names &availableKeys() {
  static const Names keys = {
      "dp",           "tp",          "tp=grid",   "sp",          "pp",
      "vpp",          "schedule",    "cp",        "cp_kind",     "zero",
      "hybrid_shard", "micro_batch", "recompute", "ep",          "offload",
      "offload_to",   "ranks",       "placement", "batch_shares"};
  return keys;
}

namespace {

/// A key, where its value goes, and what it may be.
struct Key {
  std::string_view name;
  std::string_view neutral;
  /// Whole numbers: where they go and what they lie between.
  std::optional<int64_t> StrategyRequest::*number = nullptr;
  int64_t least = 1, most = INT64_MAX;
  /// Words: where they go and which there are.
  std::optional<std::string> StrategyRequest::*word = nullptr;
  Names words = {};
};

/// Reads one text against the keys that are available.
class Parser {
public:
  Parser(int64_t ranks, const Names &available)
      : ranks(ranks), available(available) {}
  Expected<StrategyRequest> run(std::string_view text);

private:
  int64_t ranks;
  const Names &available;
  StrategyRequest request;

  Status parseKey(std::string_view key, std::string_view value);
  Status parseValue(const Key &key, std::string_view value);
  Status parseTp(std::string_view value);
  Status checkAvailable(const Key &key, std::string_view value) const;
  Status takeRanks();
  Status fitToRanks();
  void fixTheRest();
};

} // namespace

static const std::vector<Key> &allKeys() {
  using R = StrategyRequest;
  static const std::vector<Key> keys = {
      {"dp", "1", &R::dp},
      {"tp", "1", &R::tp},
      {"sp", "false"},
      {"zero", "0", &R::zero, 0, 3},
      {"micro_batch", "1", &R::microBatch},
      {"pp", "1", &R::pp},
      {"vpp", "1", &R::vpp},
      {"cp", "1", &R::cp},
      {"cp_kind", "ring", {}, 0, 0, &R::cpKind, {"ring", "ulysses"}},
      {"ep", "1", &R::ep},
      {"hybrid_shard", "1", &R::hybridShard},
      {"schedule",
       "1f1b",
       {},
       0,
       0,
       &R::schedule,
       {"gpipe", "1f1b", "interleaved", "zb-h1"}},
      {"recompute",
       "none",
       {},
       0,
       0,
       &R::recompute,
       {"none", "selective", "full"}},
      {"offload",
       "none",
       {},
       0,
       0,
       &R::offload,
       {"none", "optimizer", "parameters", "all"}},
      {"offload_to", "host", {}, 0, 0, &R::offloadTo, {"host", "disk"}},
      {"ranks", "", &R::ranks},
      {"placement", "auto"},
      {"batch_shares", "auto"}};
  return keys;
}

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

/// What a key accepts, for messages.
static std::string describeValues(const Key &key) {
  if (key.number)
    return key.most == INT64_MAX
               ? "a whole number >= " + std::to_string(key.least)
               : "a whole number from " + std::to_string(key.least) + " to " +
                     std::to_string(key.most);
  if (key.words.empty())
    return "true or false";
  std::string text = "one of";
  for (std::string_view word : key.words)
    text += " " + std::string(word);
  return text;
}

/// Tells values that are wrong everywhere from those of later builds.
Status Parser::checkAvailable(const Key &key, std::string_view value) const {
  if (value == key.neutral || isKeyAvailable(key.name, value, available))
    return Status();
  std::string expected = std::string(key.name) + "=" + std::string(key.neutral);
  Names others;
  for (std::string_view entry : available)
    if (size_t equal = entry.find('='); equal == std::string_view::npos)
      others.push_back(entry);
    else if (entry.substr(0, equal) == key.name)
      expected += " or " + std::string(entry);
  return Error{"--strategy: " + std::string(key.name) + "=" +
               std::string(value) +
               " is not available in this build: expected " + expected + "; " +
               joinNames(others) + " can be set"};
}

/// tp=8, or a grid such as tp=2x4. Factors of 1 do not change the grid.
Status Parser::parseTp(std::string_view value) {
  std::vector<int64_t> factors;
  int64_t product = 1;
  for (std::string_view rest = value;;) {
    size_t end = rest.find('x');
    std::optional<int64_t> factor = parseInteger(rest.substr(0, end));
    if (!factor || *factor < 1 || *factor > INT64_MAX / product)
      return badValue("tp", value, "a whole number >= 1, or a grid as 2x2");
    product *= *factor;
    if (*factor > 1)
      factors.push_back(*factor);
    if (end == std::string_view::npos)
      break;
    rest.remove_prefix(end + 1);
  }
  if (factors.size() > 3)
    return badValue("tp", value, "at most three factors larger than 1");
  request.tp = product;
  request.tpGrid = factors.size() > 1 ? factors : std::vector<int64_t>();
  bool hasGrids = std::find(available.begin(), available.end(), "tp=grid") !=
                  available.end();
  if (!request.tpGrid.empty() && !hasGrids)
    return Error{"--strategy: tp=" + std::string(value) +
                 " is not available in this build: expected one whole number, "
                 "such as tp=4"};
  return Status();
}

Status Parser::parseValue(const Key &key, std::string_view value) {
  if (key.name == "tp")
    return parseTp(value);
  if (key.number) {
    std::optional<int64_t> number = parseInteger(value);
    if (!number || *number < key.least || *number > key.most)
      return badValue(key.name, value, describeValues(key));
    request.*key.number = number;
    return checkAvailable(key, std::to_string(*number)); // "01" means "1".
  }
  if (key.name == "sp") {
    if (value != "true" && value != "false")
      return badValue(key.name, value, describeValues(key));
    request.sp = value == "true";
    return checkAvailable(key, value);
  }
  if (key.name == "placement") {
    Expected<PlacementSpec> placement = parsePlacement(value);
    if (!placement)
      return Error{placement.message()};
    request.placement = std::string(value);
    return checkAvailable(key, value);
  }
  if (key.name == "batch_shares") {
    if (auto shares = parseBatchShares(value); !shares)
      return Error{shares.message()};
    request.batchShares = std::string(value);
    return checkAvailable(key, value);
  }
  if (std::find(key.words.begin(), key.words.end(), value) == key.words.end())
    return badValue(key.name, value, describeValues(key));
  request.*key.word = std::string(value);
  return checkAvailable(key, value);
}

Status Parser::parseKey(std::string_view name, std::string_view value) {
  std::string expected = "one of";
  for (const Key &key : allKeys()) {
    if (key.name == name)
      return parseValue(key, value);
    expected += " " + std::string(key.name);
  }
  return Error{"--strategy: unknown key '" + std::string(name) +
               "'; expected " + expected};
}

/// The degrees that make ranks, in the order of messages.
static const std::vector<
    std::pair<std::string_view, std::optional<int64_t> StrategyRequest::*>> &
rankDegrees() {
  using R = StrategyRequest;
  static const std::vector<
      std::pair<std::string_view, std::optional<int64_t> R::*>>
      degrees = {
          {"dp", &R::dp}, {"tp", &R::tp}, {"pp", &R::pp}, {"cp", &R::cp}};
  return degrees;
}

/// Sets what is not named to what a complete strategy has.
void Parser::fixTheRest() {
  for (const auto &[name, degree] : rankDegrees())
    request.*degree = (request.*degree).value_or(1);
  request.sp = request.sp.value_or(false) && *request.tp > 1;
  request.zero = request.zero.value_or(0);
  request.ep = request.ep.value_or(1);
  request.hybridShard = request.hybridShard.value_or(1);
  request.recompute = request.recompute.value_or("none");
  request.offload = request.offload.value_or("none");
  request.offloadTo = request.offloadTo.value_or("host");
  if (!request.schedule)
    request.schedule = request.vpp.value_or(1) > 1 ? "interleaved" : "1f1b";
  // Interleaving is asked for, but not how much of it.
  bool isOpen = *request.schedule == "interleaved" && *request.pp > 1;
  if (!request.vpp && !isOpen)
    request.vpp = 1;
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
  for (const auto &[name, degree] : rankDegrees()) {
    const std::optional<int64_t> &value = request.*degree;
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

Expected<StrategyRequest> Parser::run(std::string_view text) {
  if (text == "auto") {
    if (ranks == 1)
      request.dp = request.tp = request.pp = request.cp = 1;
    request.sp = ranks == 1 ? std::optional<bool>(false) : std::nullopt;
    return request;
  }
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
    if (Status status = parseKey(key, part.substr(equal + 1)); !status)
      return Error{status.message()};
    if (comma == std::string_view::npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (Status status = takeRanks(); !status)
    return Error{status.message()};
  if (Status status = fitToRanks(); !status)
    return Error{status.message()};
  if (request.ep && ranks % *request.ep != 0)
    return Error{"--strategy: ep=" + std::to_string(*request.ep) +
                 " does not divide the " + std::to_string(ranks) +
                 " ranks of the cluster; expected a divisor: experts are "
                 "spread over them"};
  if (Status status = checkCombination(request); !status)
    return Error{status.message()};
  return request;
}

Expected<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks,
                                      const Names &available) {
  return Parser(ranks, available).run(text);
}

} // namespace dpc::cost
