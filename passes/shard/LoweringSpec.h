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
//   ep        expert    experts in ops on experts, elsewhere the batch; inside
//                       dp and dpi
//   cp        sequence  activations along the sequence
//   tp, or    tensor    weights and their activations, as the solver decides
//   tp0 ..
//   mb        time      the batch: coordinates are micro-batches, not ranks
//
// Data axes and the time axis always shard the batch. The batch is cut into
// micro-batches before `ep` shards it, so that expert ranks work on the same
// micro-batch. Experts.h finds experts in the program. Tensor and sequence axes
// are solved one after the other (StrategyGraph.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Placement.h"
#include "cost-model/machine/Software.h"
#include "cost-model/strategy/Strategy.h"
#include "ir/Sharding.h"

#include <string>

namespace dpc {

enum class AttentionForm {
  automatic, ///< `expanded`; in estimates, the software decides (Software.h).
  expanded,  ///< GEMMs and row kernels.
  fused, ///< One op if cuDNN supports it (passes/local/ExpandAttention.cpp).
  loops, ///< One op if the runtime's loops support it.
  whole, ///< One op, for estimates.
};

/// The input of lowering: a strategy, the decisions of its evaluation, and the
/// options shared by all strategies of a compilation.
struct LoweringSpec : cost::Strategy {
  /// Micro-batches per step. `microBatch` is 0 and follows from the program, so
  /// the count that a strategy derives from it would be wrong.
  int64_t numMicroBatches = 1;
  int64_t microBatches(int64_t) const = delete;
  /// The size of the axis dpi without hybrid ZeRO: the number of adjacent
  /// data-parallel ranks on one node. 1 if the mesh does not have this axis.
  int64_t dataInside = 1;

  /// The largest bucket of reduced gradients, in bytes.
  int64_t bucketBytes = 25 << 20;

  AttentionForm attention = AttentionForm::automatic;
  /// Report attention that cannot be fused as an error.
  bool attentionMustFuse = false;
  /// Fuse GEMMs with epilogues (dpc-fuse-epilogues), for GPUs.
  bool fusesEpilogues = false;
  /// Compute split experts on tiles of their rows (dpc-tile-experts). Plans for
  /// GPUs do not.
  bool tilesExperts = true;
  /// The checkpoints of full recompute, which depend on the software.
  cost::Checkpoints checkpoints = cost::Checkpoints::Planned;

  /// The compression of gradient reductions ("int8" or "topk:SHARE") and of
  /// ZeRO-3's parameter gathers ("int8"), or "".
  std::string compressGradients = {}, compressWeights = {};

  /// The first op of every virtual stage except the first, as an index of
  /// StagedOps (Stages.h). If empty, stages are balanced.
  std::vector<int64_t> stageStarts = {};

  /// Set for a program with few layers that represents a program `depth` times
  /// as deep, which has `omittedLayers` more layers, with `alive` live
  /// micro-batches (0: as in its schedule). Read by passes that compare a layer
  /// with the memory of the whole program.
  double depth = 1;
  int64_t omittedLayers = 0;
  int64_t alive = 0;
  /// The layers in each block of full recompute; 0: as many as need the least
  /// memory.
  int64_t blockLayers = 0;

  /// The link speed for which the solver decides, in bytes per second
  /// (passes/lower/LinkSpeeds.h); 0: the speed of the cluster.
  double linkSpeed = 0;
  /// On heterogeneous devices, the largest fraction of the work that fits the
  /// memory of each stage. If empty, there is no limit.
  std::vector<double> stageRoom = {};
  /// The number of stages of the pipeline that the program represents; 0: pp.
  int64_t placedStages = 0;

  int64_t stages() const { return pp * vpp; }

  bool operator==(const LoweringSpec &) const = default;
};

/// See the file comment.
enum class AxisRole { pipeline, data, expert, sequence, tensor, time };

struct MeshAxis {
  std::string name;
  int64_t size;
  AxisRole role;
};

/// Returns true if ZeRO shards over only a part of the data-parallel ranks.
bool isHybrid(const LoweringSpec &spec);

/// Returns true if tensor axes also shard experts.
bool isExpertTensor(const LoweringSpec &spec);

/// Returns the size of the axis `ep` without tensor axes that shard experts.
int64_t expertDataRanks(const LoweringSpec &spec);

/// Returns the mesh axes of a strategy, without axes of size 1.
std::vector<MeshAxis> axesOf(const LoweringSpec &spec);

/// axesOf as a mesh.
MeshAttr meshFor(mlir::MLIRContext *context, const LoweringSpec &spec);

/// Returns the product of all axes except time.
int64_t numRanks(const LoweringSpec &spec);

/// Returns the axes of ranks in their order on the devices (`placement`).
cost::RankOrder rankOrder(const LoweringSpec &spec);

/// Returns SHARE of "topk:SHARE", or nothing for other texts.
std::optional<double> topkShare(llvm::StringRef compression);

} // namespace dpc
