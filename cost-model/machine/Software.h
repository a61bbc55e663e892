//===- Software.h - What runs on the hardware, as data ----------*- C++ -*-===//
//
// The same device and links are used differently by a compiled plan and by the
// frameworks whose runs are published. What differs is in a profile,
// software/NAME.json, named by "software" of a cluster.json; none named = the
// plan as this compiler makes it: "dpc-cuda" where all devices have rates of
// fused attention, else "dpc", the defaults. A profile is one of an era
// (kernels, host path, overlap), never of a run.
//
//   attention   planned: the kernels of the plan. Else attention stays one op:
//     unfused   two products by forward, four by backward, and between them
//               row kernels over the scores, which lie in memory, in 16 bits:
//               forward reads and writes them (4 bytes a score), or half of
//               the reads where causal; backward reads two and writes one (6).
//               With dropout each direction moves 5 more (in, out, mask byte)
//     fused     FLOPs at the device's attention rates times attentionRate; the
//               masked half of causal scores is left out
//     cudnn     the same where plans for GPUs have it as one instruction, of
//               cuDNN; else as planned
//   products    the library's share of the device's peak fraction: versions of
//               libraries differ, and work of nothing but products runs at
//               lower clocks than work with pauses between them
//   traffic     bytes of activations that memory-bound kernels of forward and
//               backward move, over those of the plan, which fuses more
//   narrow      activations, and sums of them and of gradients, travel in the
//               type that products take, where the plan keeps f32
//   host        a kernel does not start before the host has issued it:
//                 issued(i) = issued(i-1) + hostKernelSeconds
//                 start(i)  = max(device free, operands there, issued(i))
//               in forward and backward: optimizers take all tensors at once.
//               The host waits for messages between stages, so its clock starts
//               again with each phase of a pipeline
//   overlap     false: a collective and computation wait for each other.
//               While both run, a kernel takes 1 + overlapSlowdown times as
//               long: collectives occupy multiprocessors and memory
//   checkpoints what full recomputation keeps (Checkpoints), in estimates of
//               time and of memory
//   memory      what frameworks keep of a step, where a profile says so
//               (`keepsMemory`); SoftwareMemory.h adds it up. Bytes per
//               parameter: 2 for the 16-bit copy, which ZeRO-3 splits;
//               gradientBytes[16-bit type], which ZeRO-2 splits; updateBytes:
//               fp32 master and both moments of AdamW, and where gradients are
//               16 bits their fp32 copy for the update, which ZeRO-1 splits.
//               logitBytes: of a number that a loss takes in f32, in all the
//               forms in which it is there. Activations take activationSlack
//               times their bytes: blocks of an allocator that are free but do
//               not fit. reservedBytes: what context, libraries, communicators
//               and buckets take
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_SOFTWARE_H
#define DPC_COST_MODEL_MACHINE_SOFTWARE_H

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// How attention is computed.
enum class AttentionKernels { Planned, Unfused, Fused, Cudnn };

/// What full recomputation keeps and makes again.
enum class Checkpoints {
  Planned, ///< Blocks end where that takes the least memory.
  Layers,  ///< What comes into each layer is kept, what is needed made again.
  WholeLayers ///< The same, but a layer runs to its end again.
};

/// A profile; the defaults are those of a plan of this compiler.
struct Software {
  std::string name = "dpc";
  AttentionKernels attention = AttentionKernels::Planned;
  bool attentionDropout = false; ///< Of unfused attention.
  double attentionRate = 1.0;    ///< Of fused attention, of the device's rate.
  double productRate = 1.0;      ///< Of the device's rate of products.
  double traffic = 1.0;
  /// Moved per element of a gradient that is added to those of the
  /// micro-batches before, besides what the product writes; 0 = as the plan has
  /// it.
  double accumulationBytes = 0;
  bool narrowActivations = false;
  double hostKernelSeconds = 0;
  double hostStepSeconds = 0;        ///< Per step, nothing else runs meanwhile.
  double collectiveStartSeconds = 0; ///< Per collective: launch and events.
  /// Of what links achieve, collectives of data-parallel ranks (gradients and
  /// states) reach this share.
  double dataBandwidth = 1.0;
  bool overlap = true;
  double overlapSlowdown = 0;
  /// Ranks along the tensor axis send equal shares of a message between
  /// stages, and the receivers gather them.
  bool scatteredMessages = false;
  /// Stages of a pipeline have equally many layers, where that works out, and
  /// the first and the last hold embeddings and head besides; or these count as
  /// a layer each, where that does; else stages are of equal time.
  bool equalStages = false;
  /// See `memory` above; without it a plan's memory is that of its buffers.
  bool keepsMemory = false;
  Checkpoints checkpoints = Checkpoints::Planned;
  double logitBytes = 4;
  double gradientBytesF16 = 2, gradientBytesBF16 = 6;
  double updateBytesF16 = 16, updateBytesBF16 = 12;
  double activationSlack = 1;
  double reservedBytes = 0;
};

/// Reads a profile's JSON; `where` starts messages. Every entry is {"value",
/// "source"}; what is absent keeps its default.
Expected<Software> parseSoftware(const nlohmann::json &json,
                               const std::string &where);

/// Reads `software/NAME.json` of the folder this library was built with, or of
/// DPC_SOFTWARE_DIR in the environment. "dpc" is always there. Lists the known
/// names on failure.
Expected<Software> loadSoftware(const std::string &name);

/// "dpc" and the names of the files, sorted.
std::vector<std::string> knownSoftware();

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_SOFTWARE_H
