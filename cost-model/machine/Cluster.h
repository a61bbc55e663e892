//===- Cluster.h - Devices, links and hosts as data -------------*- C++ -*-===//
//
// These structs hold the contents of cluster.json and of device files in SI
// units: bytes, seconds, FLOP/s. Bandwidths are per device and direction.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/GemmTable.h"
#include "cost-model/machine/Software.h"
#include "runtime/base/EnumNames.h"
#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::cost {

/// The compute types that a device file can give a peak for.
enum class DType { F64, F32, BF16, F16, FP8 };
inline constexpr int numDTypes = 5;

/// The kind of link decides which collective algorithms are possible.
enum class LinkKind { Switch, FullMesh, Ring, FatTree, SharedMemory };

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<cost::DType> = {
    "f64", "f32", "bf16", "f16", "fp8"};
template <>
inline constexpr std::array<std::string_view, 5> kNamesOf<cost::LinkKind> = {
    "switch", "full-mesh", "ring", "fat-tree", "shared-memory"};
} // namespace dpc

namespace dpc::cost {

/// Returns the name in --precision, such as "bf16".
std::string_view precisionOf(DType type);
/// Parses a name of device files or of --precision.
std::optional<DType> symbolizeDType(std::string_view name);
int64_t bytesPerElement(DType type);

/// The constants of the GEMM formula in ComputeCost.h.
struct GemmModel {
  double peakFraction = 1.0; ///< With full tiles and long k.
  int64_t tileM = 1;         ///< Rows of the largest output tile.
  int64_t tileN = 1;         ///< Columns of the largest output tile.
  double operandCost = 0.0;  ///< The cost of loading an operand, in FMAs.
  double rampSeconds = 0.0;  ///< Time to fill and drain the device, per GEMM.
  double halfK = 0.0;        ///< k at which an SM reaches half of its rate.
  int64_t alignBytes = 1;    ///< Rows with a smaller alignment are slow.
  double misalignedFraction = 1.0; ///< Unaligned / aligned rate.
  /// Measured rates of f32 GEMMs. Unless empty, they replace the formula.
  GemmTable measured;
  /// Measured rates of f32 GEMMs that run on all cores; may be empty. Only
  /// makeLocalCluster reads this table.
  GemmTable shared;
};

/// The rate of fused attention over `keys` keys of each query, with a causal
/// mask: `flops` x keys / (keys + halfLength). Flops are those of the scores
/// that the mask keeps.
struct AttentionRate {
  double flops = 0;      ///< FLOP/s with many keys; 0 = unknown.
  double halfLength = 0; ///< Keys for half of this rate.
};

struct Device {
  std::string name;
  /// Dense peak in FLOP/s by type; 0 if the device does not support the type.
  std::array<double, numDTypes> peakFlops{};
  double memoryBytes = 0;
  double memoryBytesPerSecond = 0; ///< From the datasheet.
  double memoryFraction = 1.0;     ///< Reached by streaming kernels.
  double memoryReservedBytes = 0;  ///< Context, driver, communicator buffers.
  int64_t multiprocessors = 1;     ///< SMs of a GPU, or cores of a CPU rank.
  /// The number of ranks that share a core. A rank runs this many times as fast
  /// while the other ranks wait. Only makeLocalCluster sets this field.
  double ranksPerCore = 1;
  double launchSeconds = 0; ///< The time of an empty kernel.
  double scalarFlops = 0;   ///< FLOP/s outside GEMMs; 0 = the f32 peak.
  /// The memory bandwidth of one core while the other cores are idle; 0 =
  /// unknown. Only makeLocalCluster reads this field.
  double coreBytesPerSecond = 0;
  double boardWatts = 0; ///< The power limit of the board; 0 = unknown.
  /// The compute capability of a CUDA GPU, times 10; 0 = unknown or no GPU.
  int64_t computeCapability = 0;
  /// The fractions of the peak that fused attention reaches; 0 = unknown.
  double attentionForward = 0, attentionBackward = 0;
  /// The rates of cuDNN's kernels (FlashAttention 3 has similar ones) in 16-bit
  /// types, with heads of 128.
  AttentionRate cudnnForward, cudnnBackward;
  /// Bandwidth and latency between two ranks through shared memory; 0 =
  /// unknown. Only makeLocalCluster reads these fields.
  double exchangeBytesPerSecond = 0;
  double exchangeLatencySeconds = 0;
  /// The time that the runtime on CPUs needs to copy an element of a GEMM whose
  /// type is narrower than f32: it converts operands and results. 0 = no such
  /// copies. Only makeLocalCluster sets this field.
  double narrowElementSeconds = 0;
  GemmModel gemm;

  bool hasFusedAttention() const { return attentionForward > 0; }
  double peak(DType type) const { return peakFlops[static_cast<int>(type)]; }
  /// Returns the scalar operations per second of elementwise kernels.
  double scalarRate() const {
    return scalarFlops > 0 ? scalarFlops : peak(DType::F32);
  }
  /// Returns the bytes that a plan may use.
  double usableBytes() const { return memoryBytes - memoryReservedBytes; }
};

/// Returns the default of Level::achieved.
double defaultAchieved(LinkKind kind);

/// A level of the interconnect. Each unit of the level (a node, a rack, the
/// cluster) joins `span` devices.
struct Level {
  std::string name;
  int64_t span = 0;
  double bytesPerSecond = 0;
  double latencySeconds = 0;
  LinkKind kind = LinkKind::Switch;
  bool inNetworkReduction = false;
  double oversubscription = 1.0; ///< At least 1; divides the bandwidth.
  /// The fraction of the bandwidth that collectives of large messages reach.
  /// The default for a cluster.json is defaultAchieved, because its bandwidths
  /// are datasheet values.
  double achieved = 1.0;
};

struct NodeGroup {
  int64_t nodes = 0;
  int64_t devicesPerNode = 0;
  Device device;

  int64_t numDevices() const { return nodes * devicesPerNode; }
};

/// The host of a node; 0 = unknown.
struct Host {
  double memoryBytes = 0;
  /// Whether the devices' memory is a part of the host's memory.
  bool holdsDevices = false;
  double pcieBytesPerSecond = 0;
  double nvmeBytesPerSecond = 0;
};

struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<Level> levels; ///< Innermost first; the last spans all devices.
  Host host;
  Software software;

  /// Replaces the software, and scales the GEMM rates of all devices from the
  /// old profile to `profile`.
  void setSoftware(const Software &profile);

  int64_t numDevices() const;
  int64_t numNodes() const;
  /// Returns how many devices the smallest node has.
  int64_t devicesPerNode() const;
  /// Returns the device with the lowest peak of `type`, the first on ties. If
  /// all ranks do the same work, this device determines the time of a step.
  const Device &slowestDevice(DType type) const;
  /// Returns the largest Device::usableBytes of all devices.
  double mostUsableBytes() const;
};

/// Returns the bytes per second between one device and its host's memory or
/// disks. The defaults are PCIe 4.0 x16 and one NVMe disk.
double hostLinkBytesPerSecond(const Cluster &cluster, bool disk);

/// Reads the JSON of a device file. Errors begin with `where`, the file and
/// JSON path. Every constant is {"value": number, "source": string}.
Expected<Device> parseDevice(const nlohmann::json &json,
                             const std::string &where);

/// Reads NAME.json in the folder of devices. The environment variable
/// DPC_DEVICE_DIR replaces this folder (DataFolder.h).
Expected<Device> loadDevice(const std::string &name);

Expected<nlohmann::json> loadDeviceFile(const std::string &name);

std::vector<std::string> knownDevices();

/// Parses the text of a cluster.json. Errors name `file`. Paths of device files
/// are relative to `file`. Unknown fields are errors, because a misspelled
/// field would silently get its default.
Expected<Cluster> parseCluster(const std::string &text,
                               const std::string &file);

/// Loads `local:N` (see makeLocalCluster) or the cluster.json that `option`
/// names. For `local:N`, the device file `calibratedDevice` replaces cpu-local,
/// unless the name is empty.
Expected<Cluster> loadCluster(const std::string &option,
                              const std::string &calibratedDevice = "");

/// Returns the cluster of `local:N` with N = `ranks`. The ranks are threads of
/// this machine that communicate through shared memory. A calibrated device
/// describes the whole machine. Without a calibrated device, cpu-local, which
/// describes one core, is scaled to the cores and memory of this machine.
///
/// With R = `ranks` ranks on C cores, each rank has t = max(1, C / R) threads
/// for a GEMM and one thread for every other kernel, as in the runtime.
///   GEMMs      the rate of C simultaneous GEMMs times t / max(C, R) times
///              e^(log t / log C). e is the measured rate of one GEMM on all C
///              threads relative to the rate of C simultaneous GEMMs, or 1 if
///              it is not measured. So the efficiency is a power of t.
///   memory     1 / R of the bandwidth, at most the bandwidth of one core
///   others     1 / max(C, R) of the scalar rate of all cores if it is
///              measured, else of the peak
/// Each rank has 1 / R of the memory. If R > C, ranks share cores: while a
/// pipeline stage waits, other ranks use its core.
Expected<Cluster> makeLocalCluster(int64_t ranks,
                                   const std::string &calibratedDevice = "");

} // namespace dpc::cost
