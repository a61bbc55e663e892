//===- Blocks.cpp - Strategies made of pieces measured once ---------------===//
#include "passes/price/Blocks.h"

#include "passes/lower/Levels.h"
#include "passes/price/SmallProgram.h"
#include "passes/price/SoftwareBuffers.h"
#include "passes/price/StepQueues.h"
#include "passes/shard/Passes.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dpc;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// Samples of a micro-batch on one rank.
static int64_t samplesOf(int64_t dp, int64_t microBatches,
                         int64_t globalBatch) {
  return ceilDiv(ceilDiv(globalBatch, dp), microBatches);
}

namespace {

/// How many data-parallel ranks pieces are measured with.
struct DataRanks {
  /// The fewest that have all axes.
  int64_t few;
  /// Their number shows in the loop: ZeRO-3 gathers there, one micro-batch is
  /// reduced there; and it decides where experts on tensor ranks lie.
  bool matters;
};

} // namespace

/// Whether backward phases come in two parts.
static bool splitsWeight(const LoweringSpec &degrees) {
  return degrees.pp > 1 && degrees.schedule == cost::ScheduleKind::ZbH1;
}

static DataRanks dataRanksOf(const LoweringSpec &degrees, int64_t globalBatch) {
  int64_t samples = samplesOf(degrees.dp, degrees.numMicroBatches, globalBatch);
  int64_t few = 2 * (isHybrid(degrees) ? degrees.hybridShard : degrees.ep);
  return {few, degrees.zero >= 2 || degrees.numMicroBatches == 1 ||
                   isExpertTensor(degrees) ||
                   ceilDiv(globalBatch, few * samples) < 2};
}

/// Appends the bytes of a key's value.
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

std::string dpc::blockKeyOf(const LoweringSpec &degrees, int64_t globalBatch) {
  std::string text;
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    if (key.isOfLayer && hasEffect(key, degrees))
      appendBytes(text, field(static_cast<const cost::Strategy &>(degrees)));
    text += ',';
  });
  appendBytes(text, isHybrid(degrees) ? degrees.hybridShard : 0);
  appendBytes(text,
              samplesOf(degrees.dp, degrees.numMicroBatches, globalBatch));
  appendBytes(text, dataRanksOf(degrees, globalBatch).matters ? degrees.dp : 0);
  // One data-parallel rank reduces nothing.
  for (bool is :
       {splitsWeight(degrees), degrees.numMicroBatches > 1, degrees.dp > 1})
    appendBytes(text, is);
  return text;
}

/// What is measured for all degrees with the key of `like`.
static LoweringSpec degreesToMeasure(const LoweringSpec &like,
                                     int64_t globalBatch, int64_t layers,
                                     int64_t pieces) {
  LoweringSpec degrees = like;
  if (!splitsWeight(like))
    degrees.schedule = cost::ScheduleKind::OneFOneB;
  degrees.pp = pieces;
  degrees.vpp = 1;
  int64_t samples = samplesOf(like.dp, like.numMicroBatches, globalBatch);
  DataRanks ranks = dataRanksOf(like, globalBatch);
  if (!ranks.matters) {
    degrees.dp = ranks.few;
    degrees.numMicroBatches = ceilDiv(globalBatch, degrees.dp * samples);
  }
  // Blocks weigh a layer against all that are kept: micro-batches alive times
  // layers of a stage, which is about the layers of the model.
  degrees.alive = 1;
  degrees.depth = static_cast<double>(layers) / 2;
  return degrees;
}

//===----------------------------------------------------------------------===//
// Measurement
//===----------------------------------------------------------------------===//

/// Where in a layer least crosses, as an op behind the first layer's begin.
static int64_t cheapestPlace(const HomeRun &homes) {
  const LayerRun &run = homes.run;
  int64_t best = run.before > 0 ? 0 : 1;
  auto crossing = [&](int64_t place) {
    return homes.ops.crossingBytes[run.before + place - 1];
  };
  for (int64_t place = best + 1; place < run.period; ++place)
    if (crossing(place) < crossing(best))
      best = place;
  return best;
}

/// The share of a collective's bytes that messages take on to other stages.
static double sentShare(Operation *op) {
  double sent = 0, all = 0;
  for (Value result : op->getResults()) {
    double bytes = sizeInBytes(cast<RankedTensorType>(result.getType()));
    all += bytes;
    if (llvm::any_of(result.getUsers(),
                     [](Operation *user) { return isa<SendOp>(user); }))
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
    std::vector<std::string> axes;
    for (auto axis : collective.getAxes().getAsRange<StringAttr>())
      axes.push_back(axis.getValue().str());
    (isSetup ? once.setup : once.update)
        .push_back({traffic.kind, traffic.bytes, std::move(axes),
                    traffic.bytes * sentShare(&op)});
  }
  return once;
}

/// The bytes of arguments that are split over the data axes.
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
    shards[category] += sizeInBytes(cast<RankedTensorType>(arg.getType()));
  }
  return shards;
}

/// Gradients are summed in f32.
static cost::MemoryBreakdown copiesIn(func::FuncOp step) {
  constexpr double kGradientBytes = 4;
  cost::MemoryBreakdown copies;
  for (BlockArgument arg : step.getArguments()) {
    if (!step.getArgAttr(arg.getArgNumber(), attr::kCopy))
      continue;
    auto type = cast<RankedTensorType>(arg.getType());
    copies[cost::MemoryCategory::Parameters] += sizeInBytes(type);
    copies[cost::MemoryCategory::Gradients] +=
        kGradientBytes * static_cast<double>(type.getNumElements());
  }
  return copies;
}

FailureOr<Blocks> Blocks::measure(ProgramFamily &family,
                                  SharedLowering &lowering,
                                  const HomeRun &homes,
                                  const LoweringSpec &like,
                                  int64_t globalBatch) {
  const cost::Cluster &cluster = lowering.cluster;
  Blocks blocks(cluster, homes);
  const LayerRun &run = homes.run;
  int64_t place = cheapestPlace(homes), begin = run.before + place;
  blocks.layers = run.layers - (place > 0 ? 1 : 0);
  auto weigh = [&](int64_t from, int64_t to) {
    return std::accumulate(homes.ops.seconds.begin() + from,
                           homes.ops.seconds.begin() + to, 0.0);
  };
  int64_t end = begin + blocks.layers * run.period;
  blocks.weights = {weigh(0, begin),
                    std::max(1e-12, weigh(begin, begin + run.period)),
                    weigh(end, homes.ops.size())};
  blocks.measured = degreesToMeasure(like, globalBatch, blocks.layers, kPieces);
  blocks.measured.dataInside = dataRanksInside(cluster, blocks.measured);
  LoweringSpec degrees = blocks.measured;
  degrees.stageStarts = {begin, begin + run.period, begin + 3 * run.period};
  int64_t layers = 3 + (place > 0 ? 1 : 0) - homes.moreLayers;
  MemoryOwner owner = memoryOwner(cluster, degrees);
  auto look = [&](ArrayRef<func::FuncOp> steps) {
    for (func::FuncOp step : steps)
      blocks.pieces.push_back(
          {{},
           sumUpOnce(step, cluster),
           owner.software ? splitStates(step, owner) : shardsOf(step),
           copiesIn(step)});
  };
  FailureOr<SmallProgram> small =
      measureLayers(family, layers, lowering, degrees, kPieces, look);
  if (failed(small))
    return failure();
  for (auto [piece, stage] : llvm::zip_equal(blocks.pieces, small->stages))
    piece.profile = std::move(stage);
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
  blocks.before.emplace(1, blocks.pieces[kBefore].profile);
  blocks.layer.emplace(1, blocks.pieces[kOne].profile,
                       &blocks.pieces[kTwo].profile);
  blocks.after.emplace(1, blocks.pieces[kAfter].profile);
  return blocks;
}
