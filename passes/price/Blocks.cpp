//===- Blocks.cpp - Segments of strategies with equal keys ----------------===//
#include "passes/price/Blocks.h"

#include "ir/TensorUtils.h"
#include "passes/lower/Levels.h"
#include "passes/price/SmallProgram.h"
#include "passes/price/SoftwareBuffers.h"
#include "passes/price/StepQueues.h"
#include "passes/shard/Passes.h"

#include <cmath>

using namespace mlir;
using namespace dpc;

static int64_t samplesOf(int64_t dp, int64_t microBatches,
                         int64_t globalBatch) {
  return ceilDiv(ceilDiv(globalBatch, dp), microBatches);
}

namespace {

struct DataRanks {
  /// The fewest data-parallel ranks with which the mesh has all its axes.
  int64_t few;
  /// Whether segments depend on the number of data-parallel ranks: the loop of
  /// micro-batches has collectives over them (ZeRO-2, ZeRO-3, or a single
  /// micro-batch), or their number determines where experts are placed.
  bool matters;
};

} // namespace

/// Returns true if the schedule has separate phases for gradients of weights.
static bool splitsWeight(const LoweringSpec &spec) {
  return spec.pp > 1 && splitsBackward(spec.schedule);
}

static DataRanks dataRanksOf(const LoweringSpec &spec, int64_t globalBatch) {
  int64_t samples = samplesOf(spec.dp, spec.numMicroBatches, globalBatch);
  // With a single data-parallel rank there are no reductions.
  int64_t few =
      spec.dp == 1 ? 1 : 2 * (isHybrid(spec) ? spec.hybridShard : spec.ep);
  return {few, spec.zero >= 2 || spec.numMicroBatches == 1 ||
                   isExpertTensor(spec) ||
                   ceilDiv(globalBatch, few * samples) < 2};
}

template <typename T>
static void appendBytes(std::string &text, const T &value) {
  if constexpr (std::is_same_v<T, cost::TensorDegree>) {
    appendBytes(text, value.ranks);
    for (int64_t factor : value.grid)
      appendBytes(text, factor);
  } else if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
    text.append(reinterpret_cast<const char *>(&value), sizeof(T));
  } else {
    text += printValue(value);
  }
}

std::string dpc::blockKeyOf(const LoweringSpec &spec, int64_t globalBatch) {
  std::string text;
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    if (key.isOfLayer && hasEffect(key, spec))
      appendBytes(text, field(static_cast<const cost::Strategy &>(spec)));
    text += ',';
  });
  appendBytes(text, isHybrid(spec) ? spec.hybridShard : 0);
  appendBytes(text, samplesOf(spec.dp, spec.numMicroBatches, globalBatch));
  appendBytes(text, dataRanksOf(spec, globalBatch).matters ? spec.dp : 0);
  for (bool is : {splitsWeight(spec), spec.numMicroBatches > 1, spec.dp > 1})
    appendBytes(text, is);
  return text;
}

/// Returns the strategy to measure for all strategies with the key of `like`.
static LoweringSpec specToMeasure(const LoweringSpec &like, int64_t globalBatch,
                                  int64_t layers, int64_t segments) {
  LoweringSpec spec = like;
  if (!splitsWeight(like))
    spec.schedule = cost::ScheduleKind::OneFOneB;
  spec.pp = segments;
  spec.vpp = 1;
  int64_t samples = samplesOf(like.dp, like.numMicroBatches, globalBatch);
  DataRanks ranks = dataRanksOf(like, globalBatch);
  if (!ranks.matters) {
    spec.dp = ranks.few;
    spec.numMicroBatches = ceilDiv(globalBatch, spec.dp * samples);
  }
  // A stage keeps activations for its live micro-batches times its layers,
  // which is about the number of layers of the model. Segments have blocks of
  // one layer. Where longer blocks need less memory, composed evaluations of
  // full recompute state too much.
  spec.blockLayers = 1;
  spec.alive = 1;
  spec.omittedLayers = layers - 2;
  spec.depth = static_cast<double>(layers) / 2;
  return spec;
}

/// Returns the position at which the fewest bytes cross, as a number of ops
/// after the begin of a layer.
static int64_t cheapestPlace(const LayerPlacement &placement) {
  const LayerRun &run = placement.run;
  int64_t best = run.before > 0 ? 0 : 1;
  auto crossing = [&](int64_t place) {
    return placement.ops.crossingBytes[run.before + place - 1];
  };
  for (int64_t place = best + 1; place < run.period; ++place)
    if (crossing(place) < crossing(best))
      best = place;
  return best;
}

/// Returns which fraction of the collective's results is sent to other stages.
static double sentShare(Operation *op) {
  double sent = 0, all = 0;
  for (Value result : op->getResults()) {
    double bytes = sizeInBytes(tensorType(result));
    all += bytes;
    if (llvm::any_of(result.getUsers(), llvm::IsaPred<SendOp>))
      sent += bytes;
  }
  return all > 0 ? sent / all : 0;
}

static OncePerStep sumUpOnce(func::FuncOp step, const cost::Cluster &cluster) {
  OncePerStep once;
  StepQueues queues(step, cluster);
  for (Operation &op : step.getBody().front().without_terminator()) {
    Phase phase = phaseOf(&op);
    if (isInLoop(phase) || isa<SendOp, RecvOp>(op) || isTransfer(&op))
      continue;
    bool isSetup = phase == Phase::setup;
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if (!collective) {
      (isSetup ? once.setupSeconds : once.updateSeconds) +=
          queues.secondsOf(&op);
      continue;
    }
    CollectivePricing::Traffic traffic = queues.pricing.trafficOf(&op);
    (isSetup ? once.setup : once.update)
        .push_back({traffic.kind, traffic.bytes, namesOf(collective.getAxes()),
                    traffic.bytes * sentShare(&op)});
  }
  return once;
}

static cost::MemoryBreakdown shardsOf(func::FuncOp step) {
  cost::MemoryBreakdown shards;
  for (BlockArgument arg : step.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto role = step.getArgAttrOfType<StringAttr>(i, attr::kRole);
    auto global = step.getArgAttrOfType<TypeAttr>(i, attr::kGlobal);
    if (!role || !global || role.getValue() == role::kInput ||
        step.getArgAttr(i, attr::kSpace))
      continue;
    auto spec = ShardingSpec::get(cast<RankedTensorType>(global.getValue()));
    std::optional<int64_t> axis =
        spec ? spec->mesh.findAxis("dp") : std::nullopt;
    if (!axis || !spec->splitsAxis(*axis))
      continue;
    auto category = role.getValue() == role::kState
                        ? cost::MemoryCategory::Optimizer
                        : cost::MemoryCategory::Parameters;
    shards[category] += sizeInBytes(tensorType(arg));
  }
  return shards;
}

/// Counts parameters that other stages also store, with their f32 gradients.
static cost::MemoryBreakdown copiesIn(func::FuncOp step) {
  constexpr double kGradientBytes = 4;
  cost::MemoryBreakdown copies;
  for (BlockArgument arg : step.getArguments()) {
    if (!step.getArgAttr(arg.getArgNumber(), attr::kCopy))
      continue;
    RankedTensorType type = tensorType(arg);
    copies[cost::MemoryCategory::Parameters] += sizeInBytes(type);
    copies[cost::MemoryCategory::Gradients] +=
        kGradientBytes * static_cast<double>(type.getNumElements());
  }
  return copies;
}

FailureOr<Blocks> Blocks::measure(ProgramFamily &family,
                                  SharedLowering &lowering,
                                  const LayerPlacement &placement,
                                  const LoweringSpec &like,
                                  int64_t globalBatch) {
  const cost::Cluster &cluster = lowering.cluster;
  Blocks blocks(cluster, placement);
  const LayerRun &run = placement.run;
  int64_t place = cheapestPlace(placement), begin = run.before + place;
  blocks.layers = run.layers - (place > 0 ? 1 : 0);
  // The sums of gradients depend on little else than the key of `like`.
  std::vector<double> before{0}; // the seconds before each op
  for (double seconds : placement.ops.secondsFor(like))
    before.push_back(before.back() + seconds);
  auto weigh = [&](int64_t from, int64_t to) {
    return before[to] - before[from];
  };
  for (int64_t cut : placement.cuts)
    blocks.cuts.push_back(before[cut]);
  int64_t end = begin + blocks.layers * run.period;
  blocks.weights = {weigh(0, begin),
                    std::max(1e-12, weigh(begin, begin + run.period)),
                    weigh(end, placement.ops.size())};
  blocks.measured = specToMeasure(like, globalBatch, blocks.layers, kSegments);
  blocks.measured.dataInside = dataRanksInside(cluster, blocks.measured);
  LoweringSpec spec = blocks.measured;
  spec.stageStarts = {begin, begin + run.period, begin + 3 * run.period};
  int64_t layers = 3 + (place > 0 ? 1 : 0) - placement.moreLayers;
  MemoryOwner owner = memoryOwner(cluster, spec);
  auto look = [&](ArrayRef<func::FuncOp> steps) {
    for (func::FuncOp step : steps)
      blocks.segments.push_back(
          {{},
           sumUpOnce(step, cluster),
           owner.software ? splitStates(step, owner) : shardsOf(step),
           copiesIn(step)});
  };
  FailureOr<SmallProgram> small =
      measureLayers(family, layers, lowering, spec, kSegments, look);
  if (failed(small))
    return failure();
  for (auto [segment, stage] : llvm::zip_equal(blocks.segments, small->stages))
    segment.profile = std::move(stage);
  for (const StageMessage &message : small->messages) {
    bool isBetweenEnds = message.from.stage + message.to.stage == kAfter &&
                         message.from.stage % kAfter == 0;
    if (isInLoop(message.from.phase) && isInLoop(message.to.phase)) {
      if (message.from.stage + message.to.stage == kOne + kTwo)
        blocks.messages.push_back(message);
    } else if (isBetweenEnds) {
      blocks.endMessages.push_back(message);
    }
  }
  blocks.before.emplace(1, blocks.segments[kBefore].profile);
  blocks.layer.emplace(1, blocks.segments[kOne].profile,
                       &blocks.segments[kTwo].profile);
  blocks.after.emplace(1, blocks.segments[kAfter].profile);
  return blocks;
}
