//===- LinkMeasurements.cpp - Levels from measured collectives ------------===//

#include "cost-model/calibrate/LinkMeasurements.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

namespace dpc::cost {

using nlohmann::ordered_json;

static std::vector<std::string> wordsOf(const std::string &line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

static std::optional<double> numberOf(const std::string &word) {
  char *end = nullptr;
  double value = std::strtod(word.c_str(), &end);
  bool isWhole = end && *end == '\0' && end != word.c_str();
  return isWhole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

namespace {

class TableReader {
public:
  TableReader(LinkMeasurement &found) : found(found) {}

  Status read(const std::string &line);
  Status finish();

private:
  Status readComment(const std::vector<std::string> &words);
  Status readRow(const std::vector<std::string> &words);
  Error wrong(const std::string &text) const {
    return Error{found.file + ": " + text};
  }

  LinkMeasurement &found;
  struct Group {
    int64_t ranks = 0;
    std::set<std::string> hosts;
  };
  std::map<std::string, Group> groups;
  bool isKindKnown = false;
  size_t timeColumn = 0; ///< 0 until the table header is read.
};

} // namespace

Status TableReader::read(const std::string &line) {
  std::vector<std::string> words = wordsOf(line);
  if (words.empty())
    return Status();
  return words.front().starts_with('#') ? readComment(words) : readRow(words);
}

/// Reads "#  Rank  0 Group  0 Pid 42 on host device  0 ...", the name of the
/// collective, and the table header.
Status TableReader::readComment(const std::vector<std::string> &words) {
  auto at = [&](const char *word) {
    return static_cast<size_t>(std::ranges::find(words, word) - words.begin());
  };
  if (words.size() > 2 && words[1] == "Rank") {
    size_t on = at("on");
    if (on + 1 >= words.size())
      return wrong("a '# Rank' line names no host; expected '# Rank N ... on "
                   "HOST device D'");
    size_t name = at("Group");
    Group &group = groups[name + 1 < words.size() ? words[name + 1] : "0"];
    ++group.ranks;
    group.hosts.insert(words[on + 1]);
  } else if (words.size() > 4 && words[1] == "Collective") {
    const std::string &name = words.back();
    if (name == "all_reduce_perf")
      found.kind = Collective::AllReduce;
    else if (name == "all_gather_perf")
      found.kind = Collective::AllGather;
    else if (name == "reduce_scatter_perf")
      found.kind = Collective::ReduceScatter;
    else
      return wrong("measures '" + name +
                   "'; expected all_reduce_perf, all_gather_perf or "
                   "reduce_scatter_perf");
    isKindKnown = true;
  } else if (size_t time = at("time");
             words.size() > 2 && words[1] == "size" && time < words.size()) {
    timeColumn = time - 1; // '#' counts as a word.
  }
  return Status();
}

Status TableReader::readRow(const std::vector<std::string> &words) {
  // Only rows of the table begin with a number.
  std::optional<double> bytes = numberOf(words.front());
  if (!bytes || timeColumn == 0)
    return Status();
  std::optional<double> microseconds =
      timeColumn < words.size() ? numberOf(words[timeColumn]) : std::nullopt;
  if (!microseconds || *microseconds < 0 || *bytes < 0)
    return wrong("the row of size " + words.front() +
                 " has no time; expected microseconds in column " +
                 std::to_string(timeColumn + 1));
  constexpr double micro = 1e-6;
  if (*bytes > 0 && *microseconds > 0)
    found.samples.push_back({*bytes, *microseconds * micro});
  return Status();
}

Status TableReader::finish() {
  for (const auto &[name, group] : groups) {
    auto ofHosts = static_cast<int64_t>(group.hosts.size());
    if (found.ranks > 0 &&
        (found.ranks != group.ranks || found.hosts != ofHosts))
      return wrong("group " + name + " has " + std::to_string(group.ranks) +
                   " ranks on " + std::to_string(ofHosts) +
                   " hosts, but earlier groups have " +
                   std::to_string(found.ranks) + " on " +
                   std::to_string(found.hosts) + "; expected equal groups");
    found.ranks = group.ranks;
    found.hosts = ofHosts;
  }
  if (found.ranks < 2)
    return wrong("names " + std::to_string(found.ranks) +
                 " ranks; expected at least 2 lines '# Rank N ... on HOST'");
  if (!isKindKnown)
    return wrong("does not name the collective; expected a line '# Collective "
                 "test starting: all_reduce_perf' (nccl-tests 2.14 and newer)");
  std::ranges::sort(found.samples, {}, &LinkMeasurement::Sample::bytes);
  if (found.samples.size() < 2 ||
      found.samples.front().bytes == found.samples.back().bytes)
    return wrong("has " + std::to_string(found.samples.size()) +
                 " measurements; expected at least two sizes");
  return Status();
}

Expected<LinkMeasurement> parseLinkMeasurement(const std::string &text,
                                               const std::string &file) {
  LinkMeasurement found;
  found.file = file;
  TableReader reader(found);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (Status status = reader.read(line); !status)
      return Error{status.message()};
  if (Status status = reader.finish(); !status)
    return Error{status.message()};
  return found;
}

/// Returns the index of the level that joins the measured ranks, or nullopt.
static std::optional<size_t> levelOf(const Cluster &cluster,
                                     const LinkMeasurement &measured) {
  int64_t least = measured.ranks;
  if (measured.hosts > 1)
    least = std::max(least, cluster.devicesPerNode() + 1);
  for (size_t i = 0; i < cluster.levels.size(); ++i)
    if (cluster.levels[i].span >= least)
      return i;
  return std::nullopt;
}

static GroupPlacement placementOf(const Cluster &cluster, size_t level,
                                  const LinkMeasurement &measured) {
  GroupPlacement group;
  group.ranksPerLevel.assign(cluster.levels.size(), 1);
  int64_t inner = 1;
  if (level > 0)
    inner = measured.hosts > 1
                ? std::max<int64_t>(1, measured.ranks / measured.hosts)
                : std::min(cluster.levels[level - 1].span, measured.ranks);
  if (inner > 1)
    group.ranksPerLevel[0] = inner;
  group.ranksPerLevel[level] = (measured.ranks + inner - 1) / inner;
  return group;
}

/// Returns the argument between `low` and `high` for which `seconds` returns
/// `wanted`, or the nearer end. `falls` says whether the result of `seconds`
/// falls as its argument rises.
template <typename F>
static double bisect(double low, double high, double wanted, bool falls,
                     F seconds) {
  constexpr int kSteps = 80;
  for (int i = 0; i < kSteps; ++i) {
    double middle = std::sqrt(low * high);
    bool goUp = (seconds(middle) > wanted) == falls;
    (goUp ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

static void fitLevel(Cluster &cluster, size_t index,
                     const LinkMeasurement &measured) {
  Level &level = cluster.levels[index];
  GroupPlacement group = placementOf(cluster, index, measured);
  auto seconds = [&](double bytes) {
    return estimateCollective(cluster, measured.kind, bytes, group).seconds;
  };
  const auto &small = measured.samples.front(),
             &large = measured.samples.back();
  level.oversubscription = 1; // Included in the bandwidth.
  constexpr double kRounds = 8;
  level.latencySeconds = 1e-9;
  for (int round = 0; round < kRounds; ++round) {
    level.bytesPerSecond =
        bisect(1e3, 1e15, large.seconds, true, [&](double bandwidth) {
          level.bytesPerSecond = bandwidth;
          return seconds(large.bytes);
        });
    level.latencySeconds =
        bisect(1e-9, 1e3, small.seconds, false, [&](double latency) {
          level.latencySeconds = latency;
          return seconds(small.bytes);
        });
  }
}

Status applyLinkMeasurements(Cluster &cluster,
                             std::vector<LinkMeasurement> measurements) {
  std::ranges::sort(measurements, {}, [](const LinkMeasurement &measured) {
    return std::pair(measured.hosts, measured.ranks);
  });
  for (const LinkMeasurement &measured : measurements) {
    std::optional<size_t> level = levelOf(cluster, measured);
    if (!level)
      return Error{measured.file + ": the measurement has " +
                   std::to_string(measured.ranks) + " ranks on " +
                   std::to_string(measured.hosts) +
                   " hosts, but the levels of '" + cluster.name +
                   "' join at most " +
                   std::to_string(cluster.levels.back().span) + " devices, " +
                   std::to_string(cluster.devicesPerNode()) + " per node"};
    fitLevel(cluster, *level, measured);
  }
  return Status();
}

Expected<std::string> withMeasuredLevels(const std::string &text,
                                         const std::string &file,
                                         const Cluster &cluster) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("levels") ||
      json["levels"].size() != cluster.levels.size())
    return Error{file + ": is not the cluster.json of '" + cluster.name + "'"};
  constexpr double giga = 1e9, micro = 1e-6;
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    ordered_json &level = json["levels"][i];
    level["gigabytes_per_second"] = cluster.levels[i].bytesPerSecond / giga;
    level["latency_microseconds"] = cluster.levels[i].latencySeconds / micro;
    if (level.contains("oversubscription"))
      level["oversubscription"] = cluster.levels[i].oversubscription;
  }
  // The written file may be in another folder, so its paths become absolute.
  std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (ordered_json &group : json["groups"])
    if (ordered_json &device = group["device"];
        device.is_string() && device.get<std::string>().ends_with(".json"))
      device = (folder / device.get<std::string>()).string();
  return json.dump(2) + "\n";
}

/// "21.3 GB/s and 9.1 us"
static std::string rateOf(const Level &level) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.4g GB/s and %.4g us",
                level.bytesPerSecond / level.oversubscription / 1e9,
                level.latencySeconds * 1e6);
  return text.data();
}

std::string describeLevels(const Cluster &was, const Cluster &now) {
  std::string text = "calibrated:\n";
  for (size_t i = 0; i < now.levels.size(); ++i)
    if (std::string rate = rateOf(now.levels[i]),
        before = rateOf(was.levels[i]);
        rate != before)
      text +=
          "  " + now.levels[i].name + "  " + rate + ", was " + before + "\n";
  return text;
}

} // namespace dpc::cost
