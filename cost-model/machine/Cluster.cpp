//===- Cluster.cpp - cluster.json -----------------------------------------===//

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/DataFolder.h"
#include "runtime/base/ReadFile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include <unistd.h>

namespace dpc::cost {

using nlohmann::json;

static constexpr double giga = 1e9;
static constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
static constexpr double micro = 1e-6;
static constexpr int64_t maxDevices = 1 << 22;

int64_t Cluster::numNodes() const {
  int64_t nodes = 0;
  for (const NodeGroup &group : groups)
    nodes += group.nodes;
  return nodes;
}

int64_t Cluster::numDevices() const {
  int64_t count = 0;
  for (const NodeGroup &group : groups)
    count += group.numDevices();
  return count;
}

int64_t Cluster::devicesPerNode() const {
  assert(!groups.empty() && "a cluster has a group");
  return std::ranges::min_element(groups, {}, &NodeGroup::devicesPerNode)
      ->devicesPerNode;
}

const Device &Cluster::slowestDevice(DType type) const {
  assert(!groups.empty() && "a cluster has a group");
  auto peak = [&](const NodeGroup &group) { return group.device.peak(type); };
  return std::ranges::min_element(groups, {}, peak)->device;
}

double Cluster::mostUsableBytes() const {
  double most = 0;
  for (const NodeGroup &group : groups)
    most = std::max(most, group.device.usableBytes());
  return most;
}

static Expected<Device> parseDeviceText(const std::string &text,
                                        const std::string &file) {
  Expected<json> root = parseJson(text, file);
  return root ? parseDevice(*root, file)
              : Expected<Device>(Error{root.message()});
}

static Expected<Device> loadDeviceBeside(const std::string &name,
                                         const std::filesystem::path &folder,
                                         const std::string &where) {
  std::string path = (folder / name).string();
  Expected<std::string> text =
      readTextFile(path, "a device file, or the name of a known device");
  return text ? parseDeviceText(*text, path)
              : Expected<Device>(Error{where + ": " + text.message()});
}

/// Paths of device files are relative to `folder`.
static void readGroup(const json &entry, const std::string &where,
                      const std::filesystem::path &folder, NodeGroup &group,
                      JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  fields.integer("nodes", group.nodes, 1, 1 << 20);
  fields.integer("devices_per_node", group.devicesPerNode, 1, 1 << 12);
  const char *expected = "a device name, a device file (FILE.json) or a device "
                         "object";
  const json *device = fields.required("device", expected);
  fields.finish();
  if (!device || errors)
    return;
  if (device->is_object()) {
    Expected<Device> parsed = parseDevice(*device, fields.path("device"));
    if (parsed)
      group.device = *parsed;
    else
      errors = JsonErrors::of(parsed.message());
    return;
  }
  if (!device->is_string()) {
    errors.report(fields.path("device"), "value " + showJson(*device),
                  expected);
    return;
  }
  auto name = device->get<std::string>();
  bool isFile = name.ends_with(".json");
  Expected<Device> loaded =
      isFile ? loadDeviceBeside(name, folder, fields.path("device"))
             : loadDevice(name);
  if (loaded)
    group.device = *loaded;
  else
    errors = JsonErrors::of((isFile ? "" : fields.path("device") + ": ") +
                            loaded.message());
}

static void readSpan(const json *entry, const std::string &where,
                     const Cluster &cluster, int64_t &span,
                     JsonErrors &errors) {
  if (!entry)
    return;
  if (*entry == "node")
    span = cluster.devicesPerNode();
  else if (*entry == "cluster")
    span = cluster.numDevices();
  else if (entry->is_number_integer() && *entry >= 1 && *entry <= maxDevices)
    span = entry->get<int64_t>();
  else
    errors.report(where, "value " + showJson(*entry),
                  "\"node\", \"cluster\" or a number of devices >= 1");
}

void Cluster::setSoftware(const Software &profile) {
  for (NodeGroup &group : groups)
    group.device.gemm.peakFraction *= profile.gemmRate / software.gemmRate;
  software = profile;
}

/// On the links of a node, all_reduce reaches 122 of 150 GB/s (V100), 232 of
/// 300 (A100) and 370 of 450 (H100) (NVIDIA, GTC 2024 S62129). On networks, one
/// adapter alone reaches 24 of 25 GB/s (same source), but only half of its
/// bandwidth if all devices of a node send in training (fits to runs of vTrain
/// and BigScience). With 64 MiB, 4 nodes of H100s reach 217 of 400 GB/s, and
/// 512 nodes reach 112.
double defaultAchieved(LinkKind kind) {
  switch (kind) {
  case LinkKind::Switch:
  case LinkKind::FullMesh:
  case LinkKind::Ring:
    return 0.8;
  case LinkKind::FatTree:
    return 0.5;
  case LinkKind::SharedMemory:
    return 1.0;
  }
  return 1.0;
}

static void readLevel(const json &entry, const std::string &where,
                      const Cluster &cluster, Level &level,
                      JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  std::string kind;
  fields.string("name", level.name);
  const json *span = fields.required(
      "span", "\"node\", \"cluster\" or a number of devices >= 1");
  readSpan(span, fields.path("span"), cluster, level.span, errors);
  fields.number("gigabytes_per_second", level.bytesPerSecond, positive, giga);
  fields.number("latency_microseconds", level.latencySeconds, nonNegative,
                micro);
  fields.string("kind", kind);
  if (!errors)
    readName(kind, fields.path("kind"), level.kind, errors);
  fields.optionalBoolean("in_network_reduction", level.inNetworkReduction);
  fields.optionalNumber("oversubscription", level.oversubscription, atLeastOne);
  level.achieved = defaultAchieved(level.kind);
  fields.optionalNumber("achieved_fraction", level.achieved, fraction);
  fields.finish();
}

/// Requires different names, rising spans, and a last level of all devices.
static void checkLevels(const Cluster &cluster, const std::string &file,
                        JsonErrors &errors) {
  std::set<std::string> names;
  for (size_t i = 0; i < cluster.levels.size(); ++i)
    if (!names.insert(cluster.levels[i].name).second)
      errors.report(file + ": levels[" + std::to_string(i) + "].name",
                    "'" + cluster.levels[i].name + "' a second time",
                    "different names");
  for (size_t i = 1; i < cluster.levels.size(); ++i)
    if (cluster.levels[i].span < cluster.levels[i - 1].span)
      errors.report(
          file + ": levels[" + std::to_string(i) + "].span",
          "joins " + std::to_string(cluster.levels[i].span) + " devices",
          "at least the " + std::to_string(cluster.levels[i - 1].span) +
              " devices of the level before (innermost first)");
  if (!errors && cluster.levels.back().span < cluster.numDevices())
    errors.report(file + ": levels[" +
                      std::to_string(cluster.levels.size() - 1) + "].span",
                  "the last level joins " +
                      std::to_string(cluster.levels.back().span) + " devices",
                  "\"cluster\" (all " + std::to_string(cluster.numDevices()) +
                      ")");
}

static void readHost(const json *entry, const std::string &where, Host &host,
                     JsonErrors &errors) {
  if (!entry)
    return;
  JsonFields fields(*entry, where, errors);
  fields.optionalNumber("memory_gibibytes", host.memoryBytes, nonNegative,
                        gibi);
  fields.optionalNumber("pcie_gigabytes_per_second", host.pcieBytesPerSecond,
                        nonNegative, giga);
  fields.optionalNumber("nvme_gigabytes_per_second", host.nvmeBytesPerSecond,
                        nonNegative, giga);
  fields.finish();
}

static void readGroups(const json *groups, const std::string &where,
                       const std::filesystem::path &folder, Cluster &cluster,
                       JsonErrors &errors) {
  if (!groups)
    return;
  for (size_t i = 0; i < groups->size() && !errors; ++i)
    readGroup((*groups)[i], where + "[" + std::to_string(i) + "]", folder,
              cluster.groups.emplace_back(), errors);
  if (!errors && cluster.numDevices() > maxDevices)
    errors.report(where, std::to_string(cluster.numDevices()) + " devices",
                  "at most " + std::to_string(maxDevices));
}

static Expected<Software> ownSoftware(const Cluster &cluster) {
  bool isCuda = std::ranges::all_of(cluster.groups, [](const NodeGroup &group) {
    return group.device.hasFusedAttention();
  });
  return isCuda ? loadSoftware("dpc-cuda") : Software();
}

/// Names the device and the rate that it lacks for `software`, or returns "".
static std::string missingRate(const Cluster &cluster,
                               const Software &software) {
  if (software.attention == AttentionKernels::Planned ||
      software.attention == AttentionKernels::Unfused)
    return "";
  for (size_t i = 0; i < cluster.groups.size(); ++i)
    if (!cluster.groups[i].device.hasFusedAttention())
      return "groups[" + std::to_string(i) + "].device: '" +
             cluster.groups[i].device.name +
             "' has no rates for the fused attention of software '" +
             software.name +
             "'; expected attention_forward_fraction and "
             "attention_backward_fraction";
  return "";
}

static void readSoftware(const json *entry, const std::string &where,
                         Software &software, JsonErrors &errors) {
  if (!entry->is_string() && !entry->is_object()) {
    errors.report(where, "value " + showJson(*entry),
                  "a software profile's name or the profile");
    return;
  }
  Expected<Software> read = entry->is_object()
                                ? parseSoftware(*entry, where)
                                : loadSoftware(entry->get<std::string>());
  if (read)
    software = *read;
  else
    errors = JsonErrors::of(entry->is_object() ? read.message()
                                               : where + ": " + read.message());
}

Expected<Cluster> parseCluster(const std::string &text,
                               const std::string &file) {
  Expected<json> root = parseJson(text, file);
  if (!root)
    return Error{root.message()};
  JsonErrors errors;
  Cluster cluster;
  cluster.name = std::filesystem::path(file).stem().string();
  int64_t version = 0;
  JsonFields fields(*root, file, errors);
  fields.integer("version", version, 1, 1);
  if (fields.has("name"))
    fields.string("name", cluster.name);
  else
    fields.optional("name");
  const json *groups = fields.array("groups", "an array of node groups");
  const json *levels = fields.array("levels", "an array of levels");
  readHost(fields.optional("host"), fields.path("host"), cluster.host, errors);
  const json *software = fields.optional("software");
  fields.finish();
  if (!errors)
    readGroups(groups, fields.path("groups"),
               std::filesystem::path(file).parent_path(), cluster, errors);
  for (size_t i = 0; !errors && i < levels->size(); ++i)
    readLevel((*levels)[i],
              fields.path("levels") + "[" + std::to_string(i) + "]", cluster,
              cluster.levels.emplace_back(), errors);
  if (!errors)
    checkLevels(cluster, file, errors);
  Software runs;
  if (!errors && software)
    readSoftware(software, fields.path("software"), runs, errors);
  if (errors)
    return Error{errors.status().message()};
  if (!software) {
    Expected<Software> own = ownSoftware(cluster);
    if (!own)
      return Error{own.message()};
    runs = *own;
  }
  if (std::string why = missingRate(cluster, runs); !why.empty())
    return Error{file + ": " + why};
  cluster.setSoftware(runs);
  return cluster;
}

static double physicalBytes() {
  double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  double bytes = pages * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return bytes > 0 ? bytes : 8 * gibi;
}

/// Scales `device`, which describes the whole machine, to one of `ranks` ranks.
static void takeShare(Device &device, int64_t ranks) {
  int64_t cores = device.multiprocessors;
  int64_t threads = std::max<int64_t>(1, cores / ranks);
  double core = 1.0 / static_cast<double>(std::max(cores, ranks));
  double share = static_cast<double>(threads) * core;
  double together = threads == 1 ? 0
                                 : std::log(static_cast<double>(threads)) /
                                       std::log(static_cast<double>(cores));
  for (double &peak : device.peakFlops)
    peak *= share;
  GemmTable &products = device.gemm.measured;
  const GemmTable &shared = device.gemm.shared;
  for (int i = 0; i < numTranspositions; ++i)
    for (size_t at = 0; at < products.rates[i].size(); ++at) {
      double &rate = products.rates[i][at];
      double efficiency = shared.empty() ? 1 : shared.rates[i][at] / rate;
      rate *= share * std::pow(efficiency, together);
    }
  device.scalarFlops *= core;
  double part = 1.0 / static_cast<double>(ranks);
  device.memoryBytesPerSecond *= part;
  if (device.coreBytesPerSecond > 0)
    device.memoryBytesPerSecond =
        std::min(device.memoryBytesPerSecond, device.coreBytesPerSecond);
  device.memoryBytes *= part;
  device.memoryReservedBytes *= part;
  device.multiprocessors = threads;
  device.ranksPerCore =
      std::max(1.0, static_cast<double>(ranks) / static_cast<double>(cores));
}

static Expected<Device> machineDevice(const std::string &calibratedDevice) {
  if (!calibratedDevice.empty()) {
    Expected<std::string> text =
        readTextFile(calibratedDevice, "a device file");
    return text ? parseDeviceText(*text, calibratedDevice)
                : Expected<Device>(Error{text.message()});
  }
  Expected<Device> device = loadDevice("cpu-local");
  if (!device)
    return device;
  int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  device->coreBytesPerSecond = device->memoryBytesPerSecond;
  for (double &peak : device->peakFlops)
    peak *= static_cast<double>(cores);
  device->memoryBytesPerSecond *= static_cast<double>(cores);
  device->multiprocessors = cores;
  device->memoryBytes =
      std::max(physicalBytes(), 2 * device->memoryReservedBytes);
  return device;
}

/// Measured with one rank per core: steps in bf16 and in fp32, whose GEMMs have
/// 15 million elements. On processors with bf16 instructions it is 1.7 ns.
constexpr double kNarrowElementSeconds = 2e-9;

/// The bandwidth of one NVMe disk (PCIe 4.0 x4) during long writes, and the
/// bandwidth of PCIe 4.0 x16 without its protocol overhead.
constexpr double kDiskBytesPerSecond = 3e9, kHostLinkBytesPerSecond = 25e9;

double hostLinkBytesPerSecond(const Cluster &cluster, bool disk) {
  double given =
      disk ? cluster.host.nvmeBytesPerSecond : cluster.host.pcieBytesPerSecond;
  if (given > 0)
    return given;
  return disk ? kDiskBytesPerSecond : kHostLinkBytesPerSecond;
}

Expected<Cluster> makeLocalCluster(int64_t ranks,
                                   const std::string &calibratedDevice) {
  if (ranks < 1 || ranks > 4096)
    return Error{"local:" + std::to_string(ranks) +
                 ": bad number of ranks; expected 1 to 4096"};
  Expected<Device> device = machineDevice(calibratedDevice);
  if (!device)
    return Error{device.message()};
  double share = 1.0 / static_cast<double>(ranks);
  int64_t cores = device->multiprocessors;
  takeShare(*device, ranks);
  device->narrowElementSeconds =
      kNarrowElementSeconds *
      std::max(1.0, static_cast<double>(ranks) / static_cast<double>(cores));
  Level level;
  level.name = "shared-memory";
  level.span = ranks;
  level.kind = LinkKind::SharedMemory;
  level.latencySeconds = device->exchangeLatencySeconds;
  level.bytesPerSecond = device->exchangeBytesPerSecond > 0
                             ? device->exchangeBytesPerSecond
                             : device->memoryBytesPerSecond / 2;
  // If there are more ranks than cores, copies wait for a core.
  if (ranks > cores)
    level.bytesPerSecond *= static_cast<double>(cores) * share;
  Cluster cluster;
  cluster.name = "local:" + std::to_string(ranks);
  cluster.groups.push_back(NodeGroup{1, ranks, *device});
  cluster.levels.push_back(level);
  cluster.host.memoryBytes = device->memoryBytes * static_cast<double>(ranks);
  cluster.host.holdsDevices = true;
  // Offload copies stay in RAM, so they are as fast as copies between ranks.
  cluster.host.pcieBytesPerSecond = level.bytesPerSecond;
  cluster.host.nvmeBytesPerSecond = kDiskBytesPerSecond * share;
  return cluster;
}

Expected<Cluster> loadCluster(const std::string &option,
                              const std::string &calibratedDevice) {
  constexpr std::string_view prefix = "local:";
  if (option.starts_with(prefix)) {
    int64_t ranks = 0;
    const char *end = option.data() + option.size();
    auto [rest, error] =
        std::from_chars(option.data() + prefix.size(), end, ranks);
    if (error != std::errc() || rest != end)
      return Error{"--cluster=" + option +
                   ": bad number of ranks; expected local:N with N from 1 to "
                   "4096"};
    return makeLocalCluster(ranks, calibratedDevice);
  }
  Expected<std::string> text =
      readTextFile(option, "a cluster.json, or local:N");
  if (!text)
    return Error{text.message()};
  return parseCluster(*text, option);
}

} // namespace dpc::cost
