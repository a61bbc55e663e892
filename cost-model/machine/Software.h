//===- Software.h - What runs on the hardware, as data ----------*- C++ -*-===//
// A plan of this compiler and the frameworks of published runs use the same
// devices and links differently. A profile, software/NAME.json, describes the
// difference; "software" of a cluster.json names it. Without a name the profile
// is that of this compiler: "dpc-cuda" where all devices have rates of fused
// attention, else "dpc" (the defaults). A profile describes an era (kernels,
// host path, overlap), never one run.
//
//   attention   planned: the kernels of the plan. Otherwise it is one op:
//     unfused   two GEMMs in the forward pass, four in the backward pass, and
//               row kernels over the scores, which lie in memory in 16 bits.
//               Forward reads and writes them (4 bytes per score), or reads
//               half of them where causal; backward reads two and writes one
//               (6). Dropout adds 5 bytes in each direction (input, output,
//               mask)
//     fused     FLOPs at the device's attention rates times attentionRate,
//               without the masked half of causal scores
//     cudnn     the same where plans for GPUs have one instruction of cuDNN for
//               it; else as planned
//   products    productRate: the rate of the library's GEMMs over that of the
//               device file. Versions of libraries differ, and continuous GEMMs
//               run at lower clocks than GEMMs with pauses between them
//   traffic     bytes of activations that memory-bound kernels of the forward
//               and backward pass move, over those of the plan
//   narrow      activations, and sums of them and of gradients, are
//               communicated in the type of the GEMMs where the plan has f32
//   host        a kernel does not start before the host has issued it:
//                 issued(i) = issued(i-1) + hostKernelSeconds
//                 start(i)  = max(device free, operands ready, issued(i))
//               in the forward and backward pass; optimizers take all tensors
//               in one kernel. The host waits for messages between stages, so
//               its clock restarts with each phase of a pipeline
//   overlap     false: a collective and computation wait for each other. While
//               both run, a kernel takes 1 + overlapSlowdown times as long,
//               because collectives use multiprocessors and memory
//   checkpoints what full recomputation keeps (Checkpoints), for estimates of
//               time and of memory
//   memory      the buffers that a framework keeps, if `keepsMemory`;
//               SoftwareMemory.h adds them up. Bytes per parameter: 2 for the
//               16-bit copy, which ZeRO-3 splits; gradientBytes[16-bit type],
//               which ZeRO-2 splits; updateBytes, which ZeRO-1 splits: the fp32
//               master, both moments of AdamW and, for 16-bit gradients, their
//               fp32 copy. logitBytes: per element that a loss takes in f32,
//               for all its copies. Activations take activationSlack times
//               their bytes, because some free blocks of the allocator do not
//               fit. reservedBytes: context, libraries, communicators and
//               buckets
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_SOFTWARE_H
#define DPC_COST_MODEL_MACHINE_SOFTWARE_H

#include "runtime/base/EnumNames.h"
#include "runtime/base/NumberRange.h"
#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// The kernels of attention, see above.
enum class AttentionKernels { Planned, Unfused, Fused, Cudnn };

/// What full recomputation keeps.
enum class Checkpoints {
  Planned,    ///< The values between blocks with the least memory.
  Layers,     ///< The inputs of layers; recomputes only what is needed.
  WholeLayers ///< The inputs of layers; recomputes each layer to its end.
};

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 4>
    kNamesOf<cost::AttentionKernels> = {"planned", "unfused", "fused", "cudnn"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<cost::Checkpoints> = {
    "planned", "layers", "whole-layers"};
} // namespace dpc

namespace dpc::cost {

/// A profile. The defaults describe a plan of this compiler.
struct Software {
  std::string name = "dpc";
  AttentionKernels attention = AttentionKernels::Planned;
  bool attentionDropout = false; ///< For unfused attention.
  double attentionRate = 1.0;    ///< Relative to the device, when fused.
  double productRate = 1.0;      ///< Of GEMMs, relative to the device.
  double traffic = 1.0;
  /// The bytes per element that the accumulation of gradients over
  /// micro-batches moves in addition to the GEMM's result; 0 = as in the plan.
  double accumulationBytes = 0;
  bool narrowActivations = false;
  double hostKernelSeconds = 0;
  double hostStepSeconds = 0;        ///< Per step, while nothing else runs.
  double collectiveStartSeconds = 0; ///< Per collective: launch and events.
  /// The fraction of the achieved bandwidth that collectives of data-parallel
  /// ranks (gradients and states) reach.
  double dataBandwidth = 1.0;
  bool overlap = true;
  double overlapSlowdown = 0;
  /// Tensor-parallel ranks send equal parts of a message between stages, and
  /// the receivers gather them.
  bool scatteredMessages = false;
  /// Pipeline stages have equal numbers of layers if possible, with embeddings
  /// and head in addition; else embeddings and head count as a layer each;
  /// where that is not possible either, stages take equal times.
  bool equalStages = false;
  /// See `memory` above; without it the buffers of the plan count.
  bool keepsMemory = false;
  Checkpoints checkpoints = Checkpoints::Planned;
  double logitBytes = 4;
  double gradientBytesF16 = 2, gradientBytesBF16 = 6;
  double updateBytesF16 = 16, updateBytesBF16 = 12;
  double activationSlack = 1;
  double reservedBytes = 0;
};

/// An entry of a profile's file: its name there, the accepted numbers, and the
/// SI units in one of its units.
struct SoftwareEntry {
  std::string_view name;
  NumberRange range = nonNegative;
  double scale = 1;
  /// Read only where the profile keeps memory (`keepsMemory`).
  bool isOfMemory = false;
};

/// Calls `visit(entry, member)` for each entry of a profile's file.
template <typename Visit> void visitEntries(Visit &&visit) {
  using S = Software;
  using E = SoftwareEntry;
  constexpr double micro = 1e-6, milli = 1e-3, gibi = 1024.0 * 1024.0 * 1024.0;
  visit(E{"attention"}, &S::attention);
  visit(E{"attention_dropout"}, &S::attentionDropout);
  visit(E{"attention_rate", fraction}, &S::attentionRate);
  visit(E{"product_rate", fraction}, &S::productRate);
  visit(E{"traffic", atLeastOne}, &S::traffic);
  visit(E{"accumulation_bytes"}, &S::accumulationBytes);
  visit(E{"narrow_activations"}, &S::narrowActivations);
  visit(E{"host_kernel_microseconds", nonNegative, micro},
        &S::hostKernelSeconds);
  visit(E{"host_step_milliseconds", nonNegative, milli}, &S::hostStepSeconds);
  visit(E{"collective_start_microseconds", nonNegative, micro},
        &S::collectiveStartSeconds);
  visit(E{"data_bandwidth", fraction}, &S::dataBandwidth);
  visit(E{"overlap"}, &S::overlap);
  visit(E{"overlap_slowdown"}, &S::overlapSlowdown);
  visit(E{"scattered_messages"}, &S::scatteredMessages);
  visit(E{"equal_stages"}, &S::equalStages);
  visit(E{"checkpoints"}, &S::checkpoints);
  visit(E{"gradient_bytes_f16", nonNegative, 1, true}, &S::gradientBytesF16);
  visit(E{"gradient_bytes_bf16", nonNegative, 1, true}, &S::gradientBytesBF16);
  visit(E{"update_bytes_f16", nonNegative, 1, true}, &S::updateBytesF16);
  visit(E{"update_bytes_bf16", nonNegative, 1, true}, &S::updateBytesBF16);
  visit(E{"logit_bytes", nonNegative, 1, true}, &S::logitBytes);
  visit(E{"activation_slack", atLeastOne, 1, true}, &S::activationSlack);
  visit(E{"reserved_gibibytes", nonNegative, gibi, true}, &S::reservedBytes);
}

/// Reads a profile's JSON; `where` starts messages. Every entry is {"value",
/// "source"}; absent entries have their defaults.
Expected<Software> parseSoftware(const nlohmann::json &json,
                                 const std::string &where);

/// Reads `software/NAME.json` of the folder this library was built with, or of
/// DPC_SOFTWARE_DIR in the environment. "dpc" needs no file. Lists the known
/// names on failure.
Expected<Software> loadSoftware(const std::string &name);

/// "dpc" and the names of the files, sorted.
std::vector<std::string> knownSoftware();

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_SOFTWARE_H
