//===- LoweringSpec.h - A strategy as lowering takes it ---------*- C++ -*-===//
//
// The ranks of a strategy form a mesh. Its axes, outermost first, without axes
// of size 1:
//
//   name      role      shards
//   pp        pipeline  no tensor: coordinates are pipeline stages
//   dp        data      the batch
//   dpi       data      the batch, inside dp: the ranks of a hybrid ZeRO shard,
//                       or of one node
//   ep        expert    experts in their ops, elsewhere the batch; inside dp
//   and
//                       dpi
//   cp        sequence  activations along the sequence
//   tp, or    tensor    weights and their activations, as the solver decides
//   tp0 ..
//   mb        time      the batch: coordinates are micro-batches, not ranks
//
// Data axes and time shard the batch everywhere, without a decision. The
// batch is cut into micro-batches before `ep` shards it, so that expert ranks
// work on the same micro-batch. Experts.h finds experts in the program. Tensor
// and sequence axes are solved for one after the other (StrategyGraph.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_LOWERINGSPEC_H
#define DPC_PASSES_SHARD_LOWERINGSPEC_H

#include "cost-model/machine/Placement.h"
#include "cost-model/machine/Software.h"
#include "cost-model/strategy/Strategy.h"
#include "ir/Sharding.h"

#include <string>

namespace dpc {

/// The form of attention in the local program.
enum class AttentionForm {
  automatic, ///< Kernels; in estimates that of the software (Software.h).
  expanded,  ///< GEMMs and row kernels.
  fused, ///< One op if cuDNN supports it (passes/local/ExpandAttention.cpp).
  loops, ///< One op if the runtime's loops support it.
  whole, ///< One op, for estimates.
};

/// The input of lowering: a strategy, the decisions of its evaluation, and the
/// options that all strategies of a compilation share.
struct LoweringSpec : cost::Strategy {
  /// Micro-batches of a step. `microBatch` is 0: sizes follow from the program.
  int64_t numMicroBatches = 1;
  /// The size of the axis dpi without hybrid ZeRO: adjacent data-parallel ranks
  /// on one node; 1: no axis.
  int64_t dataInside = 1;

  /// The largest bucket of reduced gradients, in bytes.
  int64_t bucketBytes = 25 << 20;

  AttentionForm attention = AttentionForm::automatic;
  /// Whether attention that cannot be fused is an error.
  bool attentionMustFuse = false;
  /// Whether GEMMs are fused with epilogues (dpc-fuse-epilogues), for GPUs.
  bool fusesEpilogues = false;
  /// The checkpoints of full recomputation, by software.
  cost::Checkpoints checkpoints = cost::Checkpoints::Planned;

  /// The compression of gradient reductions ("int8" or "topk:SHARE") and of
  /// ZeRO-3's parameter gathers ("int8"); empty: none.
  std::string compressGradients = {}, compressWeights = {};

  /// The first op of every virtual stage except the first, as an index of ops
  /// with a home (Stages.h); empty: balanced stages.
  std::vector<int64_t> stageStarts = {};

  /// A program with few layers represents one that is `depth` times as deep and
  /// keeps `alive` micro-batches (0: those of its schedule). Passes that weigh
  /// a layer against the whole memory use both.
  double depth = 1;
  int64_t alive = 0;

  /// The link speed, in bytes per second, for which the solver decides
  /// (passes/lower/LinkSpeeds.h); 0: that of the cluster.
  double linkSpeed = 0;
  /// On heterogeneous devices, the largest fraction of the work that fits the
  /// memory of each stage; empty: no limit.
  std::vector<double> stageRoom = {};
  /// The stages of the pipeline that the program represents; 0: pp.
  int64_t placedStages = 0;

  /// The number of virtual stages.
  int64_t stages() const { return pp * vpp; }

  bool operator==(const LoweringSpec &) const = default;
};

/// The role of an axis; see the file comment.
enum class AxisRole { pipeline, data, expert, sequence, tensor, time };

/// One axis of a strategy's mesh.
struct MeshAxis {
  std::string name;
  int64_t size;
  AxisRole role;
};

/// Whether ZeRO shards over a part of the data-parallel ranks.
bool isHybrid(const LoweringSpec &spec);

/// Whether experts are sharded over tensor axes, too.
bool isExpertTensor(const LoweringSpec &spec);

/// The size of the axis `ep`: the data-parallel ranks among expert ranks.
int64_t expertDataRanks(const LoweringSpec &spec);

/// The mesh axes of a strategy, without axes of size 1.
std::vector<MeshAxis> axesOf(const LoweringSpec &spec);

/// The same as a mesh.
MeshAttr meshFor(mlir::MLIRContext *context, const LoweringSpec &spec);

/// The number of ranks: the product of all axes but time.
int64_t numRanks(const LoweringSpec &spec);

/// The axes of ranks in their order on the devices (`placement`).
cost::RankOrder rankOrder(const LoweringSpec &spec);

/// SHARE of "topk:SHARE"; nothing for another text.
std::optional<double> topkShare(llvm::StringRef compression);

} // namespace dpc

#endif // DPC_PASSES_SHARD_LOWERINGSPEC_H
