//===- Software.h - What runs on the hardware, as data ----------*- C++ -*-===//
//
// A profile, software/NAME.json, describes how a framework runs a strategy on
// the same devices and links as this compiler. The profile is for an era
// (kernels, host path, overlap), never for a single run. The field "software"
// of a cluster.json names a profile. The default is the profile of this
// compiler: "dpc-cuda" if all devices have rates of fused attention, else "dpc"
// (the defaults of Software).
//
//   attention   planned: the kernels of the plan run. Otherwise, attention is
//               one op:
//     unfused   two GEMMs in the forward pass, four in the backward pass, and
//               row kernels over the scores, which are stored in 16 bits.
//               The forward pass reads and writes the scores (4 bytes per
//               score), or half of them if causal; the backward pass reads them
//               twice and writes them once (6 bytes). Dropout adds 5 bytes in
//               each pass (input, output, mask)
//     fused     the FLOPs, without the masked half of causal scores, at the
//               device's attention rates times attentionRate
//     cudnn     fused if plans for GPUs have a cuDNN instruction for it, else
//               planned
//     fused-cudnn
//               as fused, at the device's rates for cuDNN's kernels of its
//               generation (or FlashAttention 3) if it states them
//   gemmRate the rate of the library's GEMMs relative to the device file.
//               Versions of libraries differ, and GEMMs without pauses between
//               them run at lower clocks
//   traffic     the bytes of activations that memory-bound kernels of both
//               passes move, relative to the plan
//   fp8_cast_bytes, fp8_cached_weights
//               the bytes that the conversion of an element to fp8 moves, for
//               each GEMM that reads it, at the bandwidth of streaming kernels.
//               With cached weights, parameters are converted in the first
//               micro-batch, and every other operand takes one launch instead
//               of two
//   fp8_experts if true, the GEMMs of experts run in fp8 where those of linear
//               layers do
//   narrow      activations, and sums of activations and gradients, are
//               communicated in the type of the GEMMs where the plan has f32
//   host        a kernel starts after the host has issued it:
//                 issued(i) = issued(i-1) + hostKernelSeconds
//                 start(i)  = max(device free, operands ready, issued(i))
//               in the forward and backward passes; the optimizer is one kernel
//               for all tensors. The host waits for messages between stages, so
//               its clock restarts with each phase of a pipeline
//   overlap     if false, collectives and computation wait for each other. If
//               true, a kernel that runs concurrently with a collective takes 1
//               + overlapSlowdown times as long, because the collective uses
//               multiprocessors and memory bandwidth
//   queue_per_group
//               if true, collectives over different axes do not wait for one
//               another, because each communicator has a stream. They do not
//               share the bandwidth of a link in the estimate. If false, one
//               queue has all collectives
//   tensor_chunks
//               with tp_overlap=chunked, a tensor-parallel collective of t
//               seconds and the adjacent GEMM of g seconds run as a pipeline of
//               c chunks in max(g, t) + min(g, t) / c seconds instead of g + t
//   checkpoints the values that full recompute keeps (Checkpoints), for
//               estimates of time and memory
//   memory      the buffers of the framework (SoftwareMemory.h), if
//               keepsMemory. A parameter has 2 bytes for the 16-bit copy, which
//               ZeRO-3 shards; gradientBytes, which ZeRO-2 shards; and
//               updateBytesF16 or updateBytesBF16, which ZeRO-1 shards: the
//               fp32 master, both moments of AdamW and, for 16-bit gradients,
//               their fp32 copy.
//               logitBytes: the bytes of all copies of a logit, for a loss
//               computed in f32. Activations take activationSlack times their
//               bytes, because some free blocks of the allocator do not fit.
//               reservedBytes: context, libraries, communicators and buckets
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/EnumNames.h"
#include "runtime/base/NumberRange.h"
#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// See the file comment.
enum class AttentionKernels { Planned, Unfused, Fused, Cudnn, FusedCudnn };

/// The values that full recompute keeps.
enum class Checkpoints {
  Planned,    ///< Values between blocks, where they are smallest.
  Layers,     ///< Inputs of layers; only needed ops are recomputed.
  WholeLayers ///< Inputs of layers; whole layers are recomputed.
};

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 5>
    kNamesOf<cost::AttentionKernels> = {"planned", "unfused", "fused", "cudnn",
                                        "fused-cudnn"};
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<cost::Checkpoints> = {
    "planned", "layers", "whole-layers"};
} // namespace dpc

namespace dpc::cost {

/// The defaults describe a plan of this compiler.
struct Software {
  std::string name = "dpc";
  AttentionKernels attention = AttentionKernels::Planned;
  bool attentionDropout = false; ///< Only for unfused attention.
  double attentionRate = 1.0;    ///< Relative to the device's rates.
  double gemmRate = 1.0;         ///< Relative to the device's rate.
  double traffic = 1.0;
  /// The bytes per element that gradient accumulation over micro-batches moves
  /// in addition to the result of the GEMM; 0 = as in the plan.
  double accumulationBytes = 0;
  double fp8CastBytes = 5;
  bool fp8CachedWeights = false;
  bool fp8Experts = false;
  bool narrowActivations = false;
  double hostKernelSeconds = 0;
  double hostStepSeconds = 0; ///< Per step; never overlaps with the device.
  double collectiveStartSeconds = 0; ///< Launch and events, per collective.
  /// The fraction of the achieved bandwidth that collectives over data-parallel
  /// ranks (of gradients and states) reach.
  double dataBandwidth = 1.0;
  bool overlap = true;
  double overlapSlowdown = 0;
  bool queuePerGroup = false;
  double tensorChunks = 1; ///< 1: tp_overlap is not available.
  /// If true, tensor-parallel ranks send equal parts of a message between
  /// stages, and the receivers gather the parts.
  bool scatteredMessages = false;
  /// If true, pipeline stages have equal numbers of layers. Embeddings and head
  /// count as one layer each only if the layers alone cannot be divided
  /// equally. If false, stages take equal times.
  bool equalStages = false;
  /// Whether the buffers of the framework count (`memory` in the file comment)
  /// instead of the buffers of the plan.
  bool keepsMemory = false;
  Checkpoints checkpoints = Checkpoints::Planned;
  /// With sequence parallelism, whether the input of a layer is gathered again
  /// in the backward pass, instead of kept since the forward pass.
  bool regathersInputs = false;
  double logitBytes = 4;
  double gradientBytesF16 = 2, gradientBytesBF16 = 6;
  double updateBytesF16 = 16, updateBytesBF16 = 12;
  double activationSlack = 1;
  double reservedBytes = 0;
};

/// An entry of a profile's file: its name, its range, and the factor that
/// converts its unit to SI units.
struct SoftwareEntry {
  std::string_view name;
  NumberRange range = nonNegative;
  double scale = 1;
  /// The entry is allowed only if `keepsMemory` is true.
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
  visit(E{"product_rate", fraction}, &S::gemmRate);
  visit(E{"traffic", atLeastOne}, &S::traffic);
  visit(E{"accumulation_bytes"}, &S::accumulationBytes);
  visit(E{"fp8_cast_bytes"}, &S::fp8CastBytes);
  visit(E{"fp8_cached_weights"}, &S::fp8CachedWeights);
  visit(E{"fp8_experts"}, &S::fp8Experts);
  visit(E{"narrow_activations"}, &S::narrowActivations);
  visit(E{"host_kernel_microseconds", nonNegative, micro},
        &S::hostKernelSeconds);
  visit(E{"host_step_milliseconds", nonNegative, milli}, &S::hostStepSeconds);
  visit(E{"collective_start_microseconds", nonNegative, micro},
        &S::collectiveStartSeconds);
  visit(E{"data_bandwidth", fraction}, &S::dataBandwidth);
  visit(E{"overlap"}, &S::overlap);
  visit(E{"overlap_slowdown"}, &S::overlapSlowdown);
  visit(E{"queue_per_group"}, &S::queuePerGroup);
  visit(E{"tensor_chunks", atLeastOne}, &S::tensorChunks);
  visit(E{"scattered_messages"}, &S::scatteredMessages);
  visit(E{"equal_stages"}, &S::equalStages);
  visit(E{"checkpoints"}, &S::checkpoints);
  visit(E{"gradient_bytes_f16", nonNegative, 1, true}, &S::gradientBytesF16);
  visit(E{"gradient_bytes_bf16", nonNegative, 1, true}, &S::gradientBytesBF16);
  visit(E{"update_bytes_f16", nonNegative, 1, true}, &S::updateBytesF16);
  visit(E{"update_bytes_bf16", nonNegative, 1, true}, &S::updateBytesBF16);
  visit(E{"logit_bytes", nonNegative, 1, true}, &S::logitBytes);
  visit(E{"regathers_inputs", nonNegative, 1, true}, &S::regathersInputs);
  visit(E{"activation_slack", atLeastOne, 1, true}, &S::activationSlack);
  visit(E{"reserved_gibibytes", nonNegative, gibi, true}, &S::reservedBytes);
}

/// Reads the JSON of a profile. Errors begin with `where`. Every entry is
/// {"value", "source"}; missing entries have their defaults.
Expected<Software> parseSoftware(const nlohmann::json &json,
                                 const std::string &where);

/// Reads NAME.json in the folder of profiles. The environment variable
/// DPC_SOFTWARE_DIR replaces this folder (DataFolder.h). "dpc" has no file.
Expected<Software> loadSoftware(const std::string &name);

/// Returns "dpc" and the names of the files, sorted.
std::vector<std::string> knownSoftware();

} // namespace dpc::cost
