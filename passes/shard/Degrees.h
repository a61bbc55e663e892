//===- Degrees.h - The mesh axes of one strategy -----------------*- C++
//-*-===//
//
// The ranks of a strategy form a mesh. Its axes, outermost first; those of size
// 1 are left out:
//
//   name      role      what it splits
//   pp        pipeline  no tensor: coordinates are the stages of a pipeline
//   dp        data      the batch
//   dpi       data      the batch, inside dp: the ranks that share states, or a
//                       machine
//   ep        expert    experts in ops that work on them, else the batch,
//   inside
//                       dp and dpi
//   cp        sequence  activations along the sequence
//   tp, or    tensor    weights and what goes with them, as costs least
//   tp0 ..
//   mb        time      the batch; coordinates are micro-batches, not ranks
//
// Data axes and time need no choice: they split the batch wherever it occurs.
// Micro-batches are cut before `ep` is, so that its ranks work on one
// micro-batch together. What experts are is found in the program (Experts.h).
// Tensor and sequence axes are *solved* for, one after the other
// (StrategyGraph.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_DEGREES_H
#define DPC_PASSES_SHARD_DEGREES_H

#include "cost-model/machine/Placement.h"
#include "cost-model/machine/Software.h"
#include "cost-model/strategy/Strategy.h"
#include "ir/Sharding.h"

#include <string>

namespace dpc {

/// What becomes of attention in the local program.
enum class AttentionForm {
  automatic, ///< Kernels; in estimates what the software has (Software.h).
  expanded,  ///< Products and row kernels.
  fused,     ///< One op where cuDNN takes it (passes/local/FusedAttention.h).
  loops,     ///< One op where the runtime's loops do.
  whole,     ///< Always one op, for estimates.
};

/// What lowering is asked for: a strategy, what was decided for it, and what is
/// the same for all strategies of a compilation.
struct LoweringSpec : cost::Strategy {
  /// Micro-batches of a step; `microBatch` is 0, for sizes follow from the
  /// program.
  int64_t numMicroBatches = 1;
  /// So many neighbors along the dp ranks are in one node: the axis dpi where
  /// ZeRO does not ask for one; 1 = it does not matter.
  int64_t dataInside = 1;

  /// Gradients are reduced in buckets of at most this many bytes.
  int64_t bucketBytes = 25 << 20;

  /// What becomes of attention in the local program.
  AttentionForm attention = AttentionForm::automatic;
  /// Attention that cannot be fused is an error.
  bool attentionMustFuse = false;
  /// GEMMs are fused with their epilogues (dpc-fuse-epilogues), for GPUs.
  bool fusesEpilogues = false;
  /// Where full recomputation begins, and where it ends, by software.
  cost::Checkpoints checkpoints = cost::Checkpoints::Planned;

  /// How reductions of gradients, and gathers of ZeRO-3's parameters, are
  /// compressed: "int8", for gradients also "topk:SHARE", or empty for not at
  /// all.
  std::string compressGradients = {}, compressWeights = {};

  /// The first op of every virtual stage but the first, counted over ops with a
  /// home (Stages.h); empty = balanced.
  std::vector<int64_t> stageStarts = {};

  /// The program stands for one that is so many times as deep, with `alive`
  /// micro-batches at once (0 = as its schedule has them): passes that weigh a
  /// layer against all of them know.
  double depth = 1;
  int64_t alive = 0;

  /// What is decided by added seconds is decided for links of so many bytes per
  /// second (passes/lower/LinkSpeeds.h); 0 = those of the cluster.
  double linkSpeed = 0;
  /// Where devices are unlike: the most of the work, of 1, that a stage has
  /// memory for; empty = any.
  std::vector<double> stageRoom = {};
  /// Stages of the pipeline that the program stands for; 0 = pp.
  int64_t placedStages = 0;

  /// Virtual stages that the program is cut into.
  int64_t stages() const { return pp * vpp; }

  bool operator==(const LoweringSpec &) const = default;
};

/// What an axis is for; see the file comment.
enum class AxisRole { pipeline, data, expert, sequence, tensor, time };

/// One axis of a strategy's mesh.
struct MeshAxis {
  std::string name;
  int64_t size;
  AxisRole role;
};

/// True when ZeRO splits over some of the data-parallel ranks only.
bool isHybrid(const LoweringSpec &degrees);

/// True when tensor axes are among those that split experts.
bool isExpertTensor(const LoweringSpec &degrees);

/// The size of the axis `ep`: the data-parallel ranks that share experts.
int64_t expertDataRanks(const LoweringSpec &degrees);

/// The axes of a strategy that are larger than 1, in mesh order.
std::vector<MeshAxis> axesOf(const LoweringSpec &degrees);

/// The same as a mesh.
MeshAttr meshFor(mlir::MLIRContext *context, const LoweringSpec &degrees);

/// Ranks of a strategy: the product of all axes but time.
int64_t numRanks(const LoweringSpec &degrees);

/// The axes of ranks as `placement` has them on the devices.
cost::RankOrder rankOrder(const LoweringSpec &degrees);

/// The share of numbers in "topk:SHARE", or nullopt for another text.
std::optional<double> topkShare(llvm::StringRef compression);

} // namespace dpc

#endif // DPC_PASSES_SHARD_DEGREES_H
