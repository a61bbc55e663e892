//===- StrategyParser.cpp - The --strategy option -------------------------===//

#include "cost-model/strategy/Strategy.h"

#include <algorithm>
#include <array>

namespace dpc::cost {

static const Strategy neutralKeys;

namespace {

/// Parses one text.
class Parser {
public:
  explicit Parser(int64_t ranks) : ranks(ranks) {}
  Expected<StrategyRequest> run(std::string_view text);
  Expected<StrategyRequest> runComplete(std::string_view text);

private:
  int64_t ranks;
  StrategyRequest request;

  Status parseKey(std::string_view key, std::string_view value);
  Status parseKeys(std::string_view text);
  Status takeRanks();
  Status fitToRanks();
  void fixTheRest();
};

} // namespace

Status Parser::parseKey(std::string_view name, std::string_view text) {
  std::string expected = "one of";
  std::optional<Status> status;
  auto read = [&](const KeyInfo &key, auto &out) {
    expected += " " + std::string(key.name);
    if (key.name != name)
      return;
    typename std::decay_t<decltype(out)>::value_type value{};
    status = parseValue(key, text, value);
    out = std::move(value);
  };
  visitKeys([&](const KeyInfo &key, auto field) { read(key, field(request)); });
  read(KeyInfo{.name = "ranks"}, request.ranks);
  if (status)
    return *status;
  return Error{"--strategy: unknown key '" + std::string(name) +
               "'; expected " + expected};
}

/// Returns dp, tp, pp and cp, in the order in which messages name them.
static std::array<std::pair<std::string_view, std::optional<int64_t>>, 4>
rankDegrees(const StrategyRequest &request) {
  return {{{"dp", request.dp},
           {"tp", request.tp ? std::optional(request.tp->ranks) : std::nullopt},
           {"pp", request.pp},
           {"cp", request.cp}}};
}

/// Sets the keys that are not in the text to neutral values.
void Parser::fixTheRest() {
  bool isInterleaved = request.schedule
                           ? *request.schedule == ScheduleKind::Interleaved
                           : request.vpp.value_or(1) > 1;
  if (!request.schedule)
    request.schedule =
        isInterleaved ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  // The text may have schedule=interleaved without a number of chunks.
  bool isOpen = isInterleaved && request.pp.value_or(1) > 1;
  visitKeys([&](const KeyInfo &key, auto field) {
    bool staysOpen = key.staysOpen || (key.name == "vpp" && isOpen);
    if (!field(request) && !staysOpen)
      field(request) = field(neutralKeys);
  });
  request.sp = *request.sp && *request.tp > 1;
}

Status Parser::takeRanks() {
  if (request.ranks.value_or(1) > ranks)
    return badValue("ranks", std::to_string(*request.ranks),
                    "a whole number from 1 to " + std::to_string(ranks) +
                        ", the devices of the cluster");
  ranks = request.ranks.value_or(ranks);
  return Status();
}

/// Fixes keys that the degrees imply, or says why the degrees are wrong.
Status Parser::fitToRanks() {
  int64_t product = 1, count = 0;
  bool isOpen = false; // The search may choose a degree other than cp.
  std::string named, needed;
  for (const auto &[name, value] : rankDegrees(request)) {
    if (!value) {
      isOpen |= name != "cp";
      continue;
    }
    ++count;
    product =
        *value > ranks ? ranks + 1 : std::min(product * *value, ranks + 1);
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
  const std::string all = "dp x tp x pp x cp = " + std::to_string(ranks);
  std::string ofCluster = request.ranks ? "" : " of the cluster";
  std::string idle;
  if (product < ranks && !request.ranks)
    idle = " (ranks=" + std::to_string(product) + " leaves devices idle)";
  if (needed.find('x') == std::string::npos)
    return Error{"--strategy: " + named + " does not divide the " +
                 std::to_string(ranks) + " ranks" + ofCluster + "; expected " +
                 all + idle};
  return Error{"--strategy: " + named + " needs " + needed +
               " ranks; expected " + all + ", the ranks" + ofCluster + idle};
}

Status Parser::parseKeys(std::string_view text) {
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
                 " ranks of the cluster; expected a divisor, because these "
                 "ranks share the experts"};
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

Expected<StrategyRequest> parseStrategy(std::string_view text, int64_t ranks) {
  return Parser(ranks).run(text);
}

Expected<Strategy> parseCompleteStrategy(std::string_view text) {
  Expected<StrategyRequest> request = Parser(INT64_MAX).runComplete(text);
  if (!request)
    return request.status();
  Strategy strategy;
  visitKeys([&](const KeyInfo &, auto field) {
    field(strategy) = field(*request).value_or(field(neutralKeys));
  });
  return strategy;
}

} // namespace dpc::cost
