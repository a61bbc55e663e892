//===- Network.cpp - Clusters from their published descriptions -----------===//
#include "tools/replay/Network.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

namespace dpc::validate {

namespace {

struct NetworkKind {
  const char *word;
  double latencySeconds;
};
/// The latencies of InfiniBand and Omni-Path are those of examples/clusters.
/// RoCE has more switch stages. Cloud instances use TCP or SRD (20 us and more
/// between nodes in nccl-tests).
constexpr NetworkKind kNetworks[] = {
    {"Omni-Path", 8e-6},    {"IB", 8e-6},   {"RoCE", 10e-6},
    {"p3.16xlarge", 30e-6}, {"EFA", 20e-6}, {"TCP", 30e-6}};
constexpr double kLatency = 8e-6;

/// The NVLink of a device: bytes per second and direction, from data sheets.
struct NodeLink {
  const char *device;
  double gigabytesPerSecond;
  cost::LinkKind kind;
  bool reduces; ///< NVLink SHARP (from Hopper on): the switch reduces
  int64_t span; ///< GPUs per NVLink domain if larger than a node, else 0
  /// The network card of each GPU where every system has the same: gigabits per
  /// second.
  double networkGigabits = 0;
};
constexpr NodeLink kNodeLinks[] = {
    {"v100", 150, cost::LinkKind::FullMesh, false, 0},
    {"a100", 300, cost::LinkKind::Switch, false, 0},
    {"a800", 200, cost::LinkKind::Switch, false, 0},
    {"h100", 450, cost::LinkKind::Switch, true, 0},
    {"h200", 450, cost::LinkKind::Switch, true, 0},
    {"b200", 900, cost::LinkKind::Switch, true, 0},
    {"b300", 900, cost::LinkKind::Switch, true, 0},
    {"gb200", 900, cost::LinkKind::Switch, true, 72, 400},
    {"gb300", 900, cost::LinkKind::Switch, true, 72, 800},
};
constexpr NodeLink kPcie = {"", 25, cost::LinkKind::Switch, false, 0};

const NodeLink &linkOf(const cost::Device &device) {
  for (const NodeLink &link : kNodeLinks)
    if (device.name.starts_with(std::string(link.device) + "-"))
      return link;
  return kPcie;
}

} // namespace

Expected<cost::Level> parseNetwork(const std::string &text,
                                   int64_t gpusPerNode) {
  static const std::regex form(
      R"((?:(\d+)\s*x\s*)?(\d+(?:\.\d+)?)\s*([GT])(b|B)(?:/s|ps|it/s)?\b.*?\bper\s+(GPU|(?:(\d+)-GPU\s+)?(?:node|tray))\b)");
  std::smatch match;
  if (!std::regex_search(text, match, form))
    return Error{"network '" + text +
                 "' is not understood; accepted: [COUNTx]RATE(Gb|Tb)[/s] "
                 "... per [N-GPU ]node, tray or GPU"};
  auto number = [&](int group) {
    return match[group].matched ? std::stod(match[group].str()) : 1.0;
  };
  double bytes = number(1) * number(2) * (match[3] == "T" ? 1e12 : 1e9) /
                 (match[4] == "b" ? 8 : 1);
  double gpus = match[6].matched    ? number(6)
                : match[5] == "GPU" ? 1.0
                                    : static_cast<double>(gpusPerNode);
  if (bytes <= 0 || gpus <= 0)
    return Error{"network '" + text + "' has a size of 0"};
  cost::Level level;
  level.name = "network";
  level.bytesPerSecond = bytes / gpus;
  level.latencySeconds = kLatency;
  level.kind = cost::LinkKind::FatTree;
  for (const NetworkKind &kind : kNetworks)
    if (text.find(kind.word) != std::string::npos) {
      level.latencySeconds = kind.latencySeconds;
      break;
    }
  return level;
}

/// Returns the relative difference between a device's memory and `gigabytes`,
/// read as GB or as GiB, whichever gives the smaller difference.
static double memoryDistance(const cost::Device &device, double gigabytes) {
  double least = 1e9;
  for (double unit : {1e9, double(1 << 30)})
    least =
        std::min(least, std::abs(device.memoryBytes / unit / gigabytes - 1.0));
  return least;
}

Expected<cost::Device> findDevice(const std::string &gpu) {
  static const std::regex name(R"(^\s*([A-Za-z]+\d+))");
  static const std::regex memory(R"(\b(\d+)\s*GB\b)");
  constexpr double tolerance = 0.1;
  std::smatch match;
  std::string family;
  double gigabytes = 0;
  if (std::regex_search(gpu, match, name))
    family = match[1].str();
  if (std::regex_search(gpu, match, memory))
    gigabytes = std::stod(match[1].str());
  std::transform(family.begin(), family.end(), family.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::optional<cost::Device> best;
  for (const std::string &name : cost::knownDevices()) {
    if (family.empty() || !name.starts_with(family + "-"))
      continue;
    Expected<cost::Device> device = cost::loadDevice(name);
    if (!device ||
        (gigabytes > 0 && memoryDistance(*device, gigabytes) > tolerance))
      continue;
    auto rank = [&](const cost::Device &d) {
      return std::pair(gigabytes > 0 ? -memoryDistance(d, gigabytes)
                                     : d.memoryBytesPerSecond,
                       d.memoryBytes);
    };
    if (!best || rank(*device) > rank(*best))
      best = std::move(*device);
  }
  if (!best)
    return Error{"no device file for GPU '" + gpu + "'"};
  return std::move(*best);
}

cost::Level nodeLevel(const cost::Device &device) {
  const NodeLink &link = linkOf(device);
  cost::Level level;
  level.name = "nvlink";
  level.bytesPerSecond = link.gigabytesPerSecond * 1e9;
  level.latencySeconds = 3e-6;
  level.kind = link.kind;
  level.inNetworkReduction = link.reduces;
  level.achieved = cost::defaultAchieved(level.kind);
  return level;
}

/// Returns how many GPUs of a job one NVLink domain has. A domain of `span`
/// GPUs consists of trays of `tray` GPUs. Schedulers give each rack of a job
/// the same number of trays: all if they fit in one rack, else the largest
/// number that divides them (Slurm's --segment, as in scripts/performance of
/// Megatron-Bridge).
static int64_t domainOf(int64_t gpus, int64_t tray, int64_t span) {
  int64_t trays = gpus / tray, most = std::max<int64_t>(1, span / tray);
  int64_t segment = std::min(trays, most);
  while (trays % segment != 0)
    --segment;
  return segment * tray;
}

Expected<cost::Cluster> clusterOf(const std::string &gpu, int64_t gpus,
                                  int64_t gpusPerNode,
                                  const std::string &network) {
  Expected<cost::Device> device = findDevice(gpu);
  if (!device)
    return Error{device.message()};
  if (gpus < 1 || gpusPerNode < 1)
    return Error{"the numbers of GPUs must be positive"};
  int64_t perNode =
      domainOf(gpus, std::min(gpus, gpusPerNode), linkOf(*device).span);
  if (gpus % perNode != 0)
    return Error{std::to_string(gpus) + " GPUs do not fill nodes of " +
                 std::to_string(perNode)};
  cost::Cluster cluster;
  cluster.name = std::to_string(gpus) + " x " + device->name;
  cluster.groups = {{gpus / perNode, perNode, *device}};
  cluster.levels = {nodeLevel(*device)};
  cluster.levels.front().span = perNode;
  if (gpus == perNode)
    return cluster;
  if (network.empty())
    return Error{"the network between nodes is not stated"};
  Expected<cost::Level> level = parseNetwork(network, gpusPerNode);
  static const std::regex rate(R"(\d\s*[GT][bB])");
  if (double gigabits = linkOf(*device).networkGigabits;
      gigabits > 0 && !std::regex_search(network, rate))
    level = parseNetwork(std::to_string(gigabits) + "Gb IB per GPU", 1);
  if (!level)
    return Error{level.message()};
  level->span = gpus;
  cluster.levels.push_back(*level);
  return cluster;
}

} // namespace dpc::validate
