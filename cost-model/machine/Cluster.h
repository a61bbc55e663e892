//===- Cluster.h - Devices, links and hosts as data -------------*- C++ -*-===//
//
// These structs hold the contents of cluster.json and the device files. The
// JSON has its units in the field names; these structs use SI units: bytes,
// seconds, FLOP/s. Bandwidths are per device and direction.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_CLUSTER_H
#define DPC_COST_MODEL_MACHINE_CLUSTER_H

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

/// The compute types for which device files give a peak.
enum class DType { F64, F32, BF16, F16, FP8 };
inline constexpr int numDTypes = 5;

/// A kind of link; it decides which collective algorithms apply.
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

/// The name of the type in --precision: "fp32", "bf16", "fp16", "fp8".
std::string_view precisionOf(DType type);
/// The type with this name in device files or --precision.
std::optional<DType> symbolizeDType(std::string_view name);
/// Bytes of one element.
int64_t bytesPerElement(DType type);

/// The constants of the GEMM formula in ComputeCost.h.
struct GemmModel {
  double peakFraction = 1.0; ///< Reached with full tiles and long k.
  int64_t tileM = 1;         ///< Rows of the largest output tile.
  int64_t tileN = 1;         ///< Columns of that tile.
  double operandCost = 0.0;  ///< The cost of loading an operand, in FMAs.
  double rampSeconds = 0.0;  ///< Per GEMM: filling and draining the device.
  double halfK = 0.0;        ///< k at which an SM reaches half of its rate.
  int64_t alignBytes = 1;    ///< Rows without this alignment are slow.
  double misalignedFraction = 1.0; ///< Unaligned / aligned rate.
  /// Measured rates of f32 GEMMs. Unless empty, they replace the formula.
  GemmTable measured;
  /// The measured rates when one f32 GEMM runs on all cores; may be empty. Only
  /// makeLocalCluster reads this table.
  GemmTable shared;
};

/// An accelerator, or a CPU rank.
struct Device {
  std::string name;
  /// Dense peak in FLOP/s by type; 0 if the device does not support the type.
  std::array<double, numDTypes> peakFlops{};
  double memoryBytes = 0;
  double memoryBytesPerSecond = 0; ///< Datasheet.
  double memoryFraction = 1.0;     ///< Reached by streaming kernels.
  double memoryReservedBytes = 0;  ///< Context, driver, communicator buffers.
  int64_t multiprocessors = 1;     ///< SMs, or cores of a rank.
  /// The number of ranks that share a core. While the other ranks wait, a rank
  /// runs this many times as fast. Only makeLocalCluster sets this field.
  double ranksPerCore = 1;
  double launchSeconds = 0; ///< The smallest time of a kernel.
  double scalarFlops = 0;   ///< FLOP/s outside GEMMs; 0 = the f32 peak.
  /// The memory bandwidth of a core while the others are idle; 0 = unknown.
  /// Only makeLocalCluster reads this field.
  double coreBytesPerSecond = 0;
  /// The fractions of the peak that fused attention reaches; 0 = unknown.
  double attentionForward = 0, attentionBackward = 0;
  /// Bandwidth and latency between two ranks of one machine through shared
  /// memory; 0 = unknown. Only makeLocalCluster reads these fields, because a
  /// cluster.json has levels.
  double exchangeBytesPerSecond = 0;
  double exchangeLatencySeconds = 0;
  GemmModel gemm;

  bool hasFusedAttention() const { return attentionForward > 0; }
  double peak(DType type) const { return peakFlops[static_cast<int>(type)]; }
  /// Scalar operations per second of elementwise kernels.
  double scalarRate() const {
    return scalarFlops > 0 ? scalarFlops : peak(DType::F32);
  }
  /// The bytes that a plan may use.
  double usableBytes() const { return memoryBytes - memoryReservedBytes; }
};

/// The default for Level::achieved.
double defaultAchieved(LinkKind kind);

/// A level of the interconnect. Each unit of a level (a node, a rack, the
/// cluster) joins `span` devices.
struct Level {
  std::string name;
  int64_t span = 0;
  double bytesPerSecond = 0;
  double latencySeconds = 0;
  LinkKind kind = LinkKind::Switch;
  bool inNetworkReduction = false;
  double oversubscription = 1.0; ///< >= 1; divides the bandwidth.
  /// The fraction of the bandwidth that collectives reach with large messages.
  /// If a cluster.json does not give this fraction, defaultAchieved applies,
  /// because the bandwidth is then a datasheet value.
  double achieved = 1.0;
};

/// Nodes of one kind.
struct NodeGroup {
  int64_t nodes = 0;
  int64_t devicesPerNode = 0;
  Device device;

  int64_t numDevices() const { return nodes * devicesPerNode; }
};

/// The host of a node; 0 = unknown.
struct Host {
  double memoryBytes = 0;
  /// The memory of the devices is a part of the host's memory.
  bool holdsDevices = false;
  double pcieBytesPerSecond = 0;
  double nvmeBytesPerSecond = 0;
};

/// The machines for which programs are planned.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<Level> levels; ///< Innermost first; the last spans all devices.
  Host host;
  Software software; ///< The software that runs plans.

  /// Replaces the software, and scales the GEMM rates of all devices from the
  /// old software to `profile`.
  void setSoftware(const Software &profile);

  int64_t numDevices() const;
  /// The smallest number of devices per node of all groups.
  int64_t devicesPerNode() const;
  /// The device with the lowest peak of `type`, which bounds a step if all
  /// ranks do the same work; the first on ties.
  const Device &slowestDevice(DType type) const;
  /// The largest memory that a device has for a plan, in bytes.
  double mostUsableBytes() const;
};

/// Bytes per second between one device and its host's memory or disks. The
/// defaults are PCIe 4.0 x16 and one NVMe disk.
double hostLinkBytesPerSecond(const Cluster &cluster, bool disk);

/// Reads the JSON of a device file. Messages begin with `where`, the file and
/// JSON path. Every constant is {"value": number, "source": string}.
Expected<Device> parseDevice(const nlohmann::json &json,
                             const std::string &where);

/// Reads NAME.json in the folder of devices (DataFolder.h), which
/// DPC_DEVICE_DIR in the environment replaces.
Expected<Device> loadDevice(const std::string &name);

/// The JSON in the file that loadDevice(name) reads.
Expected<nlohmann::json> loadDeviceFile(const std::string &name);

/// The names of all device files, sorted.
std::vector<std::string> knownDevices();

/// Parses the text of a cluster.json. Messages name `file`, and paths of device
/// files are relative to it. Unknown fields are errors; otherwise a misspelled
/// field would silently get its default.
Expected<Cluster> parseCluster(const std::string &text,
                               const std::string &file);

/// `local:N` (see makeLocalCluster) or the name of a cluster.json.
/// If `calibratedDevice` is not empty, this device file replaces cpu-local for
/// `local:N`.
Expected<Cluster> loadCluster(const std::string &option,
                              const std::string &calibratedDevice = "");

/// N ranks that are threads of this machine, joined by shared memory. A
/// calibrated device describes the whole machine. Without a calibrated device,
/// cpu-local, which describes one core, is scaled to the cores and memory of
/// this machine.
///
/// With R ranks on C cores, each rank has t = max(1, C / R) threads for a GEMM
/// and one thread for every other kernel, as in the runtime.
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

#endif // DPC_COST_MODEL_MACHINE_CLUSTER_H
