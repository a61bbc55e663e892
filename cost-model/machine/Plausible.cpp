//===- Plausible.cpp - Numbers with the wrong unit ------------------------===//
#include "cost-model/machine/Plausible.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace dpc::cost {

namespace {

/// A unit that could have been meant instead of the key's.
struct OtherUnit {
  const char *name;
  double factor; ///< Its size in the key's unit.
};

/// What known hardware has, in the unit of the key.
struct Range {
  const char *key, *unit;
  double least, most;
  const char *known; ///< The source of `most`.
  std::vector<OtherUnit> others;
};

} // namespace

static const std::vector<OtherUnit> kRates = {
    {"gigabits", 1 / 8.0}, {"megabytes", 1e-3}, {"terabytes", 1e3}};
static const std::vector<OtherUnit> kTimes = {
    {"nanoseconds", 1e-3}, {"milliseconds", 1e3}, {"seconds", 1e6}};
static const std::vector<OtherUnit> kSizes = {
    {"mebibytes", 1 / 1024.0}, {"bytes", 0x1p-30}, {"tebibytes", 1024}};

/// The least rate between nodes is that of 8 devices that share 1 Gb/s.
static const Range kBetweenNodes = {
    "gigabytes_per_second",
    "GB/s",
    0.01,
    100,
    "NVIDIA ConnectX-8: an adapter of 800 Gb/s for each device",
    kRates};
static const Range kInsideNodes = {"gigabytes_per_second",
                                   "GB/s",
                                   0.5,
                                   1800,
                                   "one direction of NVLink 6, NVIDIA Rubin",
                                   kRates};
static const Range kLatency = {"latency_microseconds",
                               "us",
                               0.05,
                               1000,
                               "TCP between data centers of a region",
                               kTimes};
static const Range kGpuMemory = {"memory_gibibytes",
                                 "GiB",
                                 4,
                                 1024,
                                 "NVIDIA Rubin Ultra: 1 TB of HBM4E",
                                 kSizes};
static const Range kGpuMemoryRate = {
    "memory_gigabytes_per_second", "GB/s", 100, 32000,
    "NVIDIA Rubin Ultra: 32 TB/s", kRates};
static const Range kGpuPeak = {"peak_teraflops",
                               "TFLOP/s",
                               10,
                               20000,
                               "dense 16-bit types of announced GPUs",
                               {{"gigaflops", 1e-3}, {"petaflops", 1e3}}};
static const Range kLaunch = {"launch_microseconds",
                              "us",
                              0.1,
                              100,
                              "kernel launches on loaded hosts",
                              kTimes};
static const Range kHostMemory = {"memory_gibibytes",           "GiB", 1, 65536,
                                  "servers with eight sockets", kSizes};
static const Range kHostLink = {
    "pcie_gigabytes_per_second",           "GB/s", 1, 900,
    "NVLink-C2C of NVIDIA Grace and Vera", kRates};
static const Range kDisks = {
    "nvme_gigabytes_per_second",         "GB/s", 0.1, 500,
    "32 disks of PCIe 6.0 x4 in a node", kRates};

static std::string numberText(double value) {
  if (value >= 100)
    return std::to_string(std::llround(value));
  std::ostringstream text;
  text.precision(3);
  text << value;
  return text.str();
}

/// Adds a line if `value`, in the unit of the key, is outside of the range.
static void check(const Range &range, const std::string &where, double value,
                  std::vector<std::string> &lines) {
  if (value <= 0 || (value >= range.least && value <= range.most))
    return;
  bool isHigh = value > range.most;
  std::string unit = std::string(" ") + range.unit;
  std::string line = where + "." + range.key + "=" + numberText(value);
  if (isHigh)
    line += " is " + numberText(value / range.most) +
            " times the most that is known, " + numberText(range.most) + unit +
            " (" + range.known + ")";
  else
    line += " is 1/" + numberText(range.least / value) +
            " of the least that is usual, " + numberText(range.least) + unit;
  for (const OtherUnit &other : range.others) {
    double meant = value * other.factor;
    if (meant >= range.least && meant <= range.most) {
      line += ": did you mean " + numberText(value) + " " + other.name + " (" +
              numberText(meant) + unit + ")?";
      break;
    }
  }
  lines.push_back(line);
}

static std::string elementOf(const char *list, size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

static void checkDevice(const Device &device, const std::string &where,
                        std::vector<std::string> &lines) {
  constexpr double giga = 1e9, tera = 1e12, micro = 1e-6;
  double peak = std::max(device.peak(DType::F16), device.peak(DType::BF16));
  if (peak == 0) // CPUs differ too much
    return;
  check(kGpuMemory, where, device.memoryBytes * 0x1p-30, lines);
  check(kGpuMemoryRate, where, device.memoryBytesPerSecond / giga, lines);
  check(kGpuPeak, where, peak / tera, lines);
  check(kLaunch, where, device.launchSeconds / micro, lines);
}

std::vector<std::string> implausibleNumbers(const Cluster &cluster) {
  constexpr double giga = 1e9, micro = 1e-6;
  constexpr int64_t kLargestNvlinkDomain = 576;
  std::vector<std::string> lines;
  for (size_t i = 0; i < cluster.groups.size(); ++i)
    checkDevice(cluster.groups[i].device, elementOf("groups", i) + ".device",
                lines);
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const Level &level = cluster.levels[i];
    bool joinsNodes = level.span > cluster.devicesPerNode();
    bool isNetwork = joinsNodes && (level.kind == LinkKind::FatTree ||
                                    level.span > kLargestNvlinkDomain);
    check(isNetwork ? kBetweenNodes : kInsideNodes, elementOf("levels", i),
          level.bytesPerSecond / giga, lines);
    check(kLatency, elementOf("levels", i), level.latencySeconds / micro,
          lines);
  }
  check(kHostMemory, "host", cluster.host.memoryBytes * 0x1p-30, lines);
  check(kHostLink, "host", cluster.host.pcieBytesPerSecond / giga, lines);
  check(kDisks, "host", cluster.host.nvmeBytesPerSecond / giga, lines);
  return lines;
}

std::vector<std::string> partialDomains(const Cluster &cluster) {
  std::vector<std::string> lines;
  int64_t devices = cluster.numDevices();
  for (size_t i = 0; i + 1 < cluster.levels.size(); ++i) {
    int64_t span = cluster.levels[i].span;
    if (span <= cluster.devicesPerNode() || devices <= span ||
        devices % span == 0)
      continue;
    int64_t domains = (devices + span - 1) / span;
    std::string line = elementOf("levels", i) +
                       ".span=" + std::to_string(span) + ": " +
                       std::to_string(devices) + " devices fill " +
                       std::to_string(domains - 1) + " such domains and " +
                       std::to_string(devices % span) +
                       " devices of another, so groups of ranks cross domains";
    if (devices % domains == 0)
      line += "; if the job gets " + std::to_string(devices / domains) +
              " devices in each of " + std::to_string(domains) +
              " domains, write span=" + std::to_string(devices / domains);
    lines.push_back(line);
  }
  return lines;
}

} // namespace dpc::cost
