//===- Cluster.h - Devices, links and hosts as data -------------*- C++ -*-===//
//
// cluster.json and the device files. Units of the JSON are in its field names;
// everything in these structs is in SI units: bytes, seconds, FLOP/s.
// Bandwidths are per device and direction.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_CLUSTER_H
#define DPC_COST_MODEL_MACHINE_CLUSTER_H

#include "cost-model/machine/GemmTable.h"
#include "cost-model/machine/Software.h"
#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::cost {

/// Compute types that a device file gives a peak for.
enum class DType { F64, F32, BF16, F16, FP8 };
inline constexpr int numDTypes = 5;

/// "f64", "f32", "bf16", "f16", "fp8".
std::string_view stringifyDType(DType type);
/// The type as --precision spells it: "fp32", "bf16", "fp16", "fp8".
std::string_view precisionOf(DType type);
/// Inverse of stringifyDType; also takes "fp32", "fp16", "fp64".
std::optional<DType> symbolizeDType(std::string_view name);
/// Bytes of one element.
int64_t bytesPerElement(DType type);

/// Why a GEMM stays below the peak; see ComputeCost.h.
struct GemmModel {
  double peakFraction = 1.0; ///< Reached with full tiles and long k.
  int64_t tileM = 1;         ///< Rows of the output tile of one SM or core.
  int64_t tileN = 1;         ///< Columns of that tile.
  double operandCost = 0.0;  ///< Multiply-adds that loading an operand costs.
  double rampSeconds = 0.0;  ///< Per GEMM, to fill and drain the device.
  double halfK = 0.0;        ///< k at which an SM reaches half of its rate.
  int64_t alignBytes = 1;    ///< k and n rows below this alignment are slow.
  double misalignedFraction = 1.0; ///< Rate at unaligned sizes / aligned.
  GemmTable measured; ///< f32 GEMMs; replaces the above unless empty.
  /// The same for one GEMM on all cores; empty where not given. Only
  /// makeLocalCluster reads it.
  GemmTable shared;
};

/// One accelerator (or CPU rank). Every number of a device file has a source.
struct Device {
  std::string name;
  /// Dense peak in FLOP/s; 0 where the device lacks the type.
  std::array<double, numDTypes> peakFlops{};
  double memoryBytes = 0;
  double memoryBytesPerSecond = 0; ///< Datasheet.
  double memoryFraction = 1.0;     ///< Reached by streaming kernels.
  double memoryReservedBytes = 0;  ///< Context, driver, communicator buffers.
  int64_t multiprocessors = 1;     ///< SMs, or cores of a rank.
  /// The number of ranks that share each core: while the others wait, a rank is
  /// this many times faster than the other numbers say. Only makeLocalCluster
  /// sets it.
  double ranksPerCore = 1;
  double launchSeconds = 0; ///< Smallest time of one kernel.
  double scalarFlops = 0;   ///< FLOP/s without GEMMs; 0 = the f32 peak.
  /// The bandwidth that one core alone reaches; 0 where not given. Only
  /// makeLocalCluster reads it.
  double coreBytesPerSecond = 0;
  double attentionForward = 0;  ///< Fraction of the peak that fused attention
  double attentionBackward = 0; ///< reaches; 0 where not given.
  /// Between two ranks of one machine through shared memory; 0 where not given.
  /// Only makeLocalCluster reads them: a cluster.json has levels.
  double exchangeBytesPerSecond = 0;
  double exchangeLatencySeconds = 0;
  GemmModel gemm;

  bool hasFusedAttention() const { return attentionForward > 0; }
  double peak(DType type) const { return peakFlops[static_cast<int>(type)]; }
  /// Scalar operations per second of elementwise kernels.
  double scalarRate() const {
    return scalarFlops > 0 ? scalarFlops : peak(DType::F32);
  }
  /// The bytes that a plan may use: all but the reserved ones.
  double usableBytes() const { return memoryBytes - memoryReservedBytes; }
};

/// A kind of link; it changes which collective algorithms apply.
enum class LinkKind { Switch, FullMesh, Ring, FatTree, SharedMemory };
std::string_view stringifyLinkKind(LinkKind kind);

/// The default for Level::achieved.
double defaultAchieved(LinkKind kind);

/// One level of the interconnect, innermost first. A level joins `span`
/// devices: all of a node, all of the cluster, or a number of devices (a rack).
struct Level {
  std::string name;
  int64_t span = 0; ///< Devices one unit of this level joins.
  double bytesPerSecond = 0;
  double latencySeconds = 0;
  LinkKind kind = LinkKind::Switch;
  bool inNetworkReduction = false;
  double oversubscription = 1.0; ///< >= 1; divides the bandwidth.
  /// The fraction of the bandwidth that collectives reach with large messages.
  /// Where a cluster.json does not give it, its bandwidth is that of the
  /// datasheet, and defaultAchieved applies.
  double achieved = 1.0;
};

/// Nodes of one kind.
struct NodeGroup {
  int64_t nodes = 0;
  int64_t devicesPerNode = 0;
  Device device;
};

/// The machine that devices of a node share. Zero where not given.
struct Host {
  double memoryBytes = 0;
  /// The devices' memory is a part of the host's: offloaded bytes stay in it.
  bool holdsDevices = false;
  double pcieBytesPerSecond = 0;
  double nvmeBytesPerSecond = 0;
};

/// The machines that a program is planned for.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<Level> levels; ///< Innermost first; the last spans all devices.
  Host host;
  Software software; ///< The software that runs plans.

  /// Replaces the software. The GEMMs of all devices take the rate of `profile`
  /// instead of that of the software before.
  void setSoftware(const Software &profile);

  /// The devices of all groups.
  int64_t numDevices() const;
  /// The devices of a node; the smallest number of all groups.
  int64_t devicesPerNode() const;
  /// The device that bounds a step when all ranks do the same work: the one
  /// with the lowest peak of `type`; ties go to the first group.
  const Device &slowestDevice(DType type) const;
  /// The least and the most bytes that a device has for a plan.
  double usableBytes() const;
  double mostUsableBytes() const;
};

/// Bytes per second between one device and its host's memory or disks. The
/// defaults are PCIe 4.0 x16 and one NVMe disk.
double hostLinkBytesPerSecond(const Cluster &cluster, bool disk);

/// Reads a device file's JSON. `where` (file and JSON path) starts messages.
/// Every constant is {"value": number, "source": "where it is from"}.
Expected<Device> parseDevice(const nlohmann::json &json,
                             const std::string &where);

/// Reads `DIR/NAME.json`. DIR is the environment's DPC_DEVICE_DIR if set, else
/// the folder this library was built with. Lists the known names on failure.
Expected<Device> loadDevice(const std::string &name);

/// The JSON of the same file.
Expected<nlohmann::json> loadDeviceFile(const std::string &name);

/// Names of the device files that loadDevice finds, sorted.
std::vector<std::string> knownDevices();

/// Parses the text of a cluster.json. Messages name `file`, and device files
/// are looked up beside it. Unknown fields are errors, so that a misspelled
/// field is never replaced by a default.
Expected<Cluster> parseCluster(const std::string &text,
                               const std::string &file);

/// `local:N` (see makeLocalCluster) or the name of a cluster.json.
/// `calibratedDevice`, when not empty, is a device file used instead of
/// cpu-local for `local:N`.
Expected<Cluster> loadCluster(const std::string &option,
                              const std::string &calibratedDevice = "");

/// N ranks that are threads of this machine, joined by shared memory. Without a
/// calibrated device, cpu-local (which describes one core) is scaled to this
/// machine's cores and memory; a calibrated device describes a whole machine.
///
/// A rank of R on C cores has t = max(1, C / R) threads for a GEMM and one
/// thread for every other kernel, as in the runtime.
///   GEMMs      t / max(C, R) of the rate of C simultaneous GEMMs, times
///              e^(log t / log C). e is the fraction of that rate that one GEMM
///              on all C threads reaches, if measured, else 1. Between one and
///              C threads the efficiency is a power of t.
///   memory     the R-th part of the bandwidth, at most that of one core
///   others     1 / max(C, R) of the scalar rate of all cores, if measured, or
///              of the peak
/// Each rank has the R-th part of the memory. Where R > C, ranks share cores: a
/// pipeline stage that waits leaves its core to others.
Expected<Cluster> makeLocalCluster(int64_t ranks,
                                   const std::string &calibratedDevice = "");

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_CLUSTER_H
