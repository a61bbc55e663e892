//===- Blocks.cpp - Strategies made of pieces measured once ---------------===//
#include "passes/search/Blocks.h"

#include "passes/search/Pipeline.h"
#include "passes/search/StepQueues.h"
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

static DataRanks dataRanksOf(const ShardDegrees &degrees, int64_t globalBatch) {
  int64_t samples = samplesOf(degrees.dp, degrees.microBatches, globalBatch);
  int64_t few = 2 * (isHybrid(degrees) ? degrees.hybridShard : degrees.ep);
  return {few, degrees.zero >= 2 || degrees.microBatches == 1 ||
                   isExpertTensor(degrees) ||
                   ceilDiv(globalBatch, few * samples) < 2};
}

std::string dpc::blockKeyOf(const cost::Strategy &strategy,
                            int64_t globalBatch) {
  int64_t microBatches = strategy.microBatches(globalBatch);
  int64_t samples = samplesOf(strategy.dp, microBatches, globalBatch);
  bool splitsWeight = strategy.pp > 1 && strategy.schedule == "zb-h1";
  ShardDegrees degrees;
  degrees.dp = strategy.dp;
  degrees.tp = strategy.tp;
  degrees.ep = strategy.ep;
  degrees.zero = strategy.zero;
  degrees.hybridShard = strategy.hybridShard;
  degrees.microBatches = microBatches;
  std::vector<int64_t> numbers = {
      strategy.tp,
      strategy.cp,
      strategy.ep,
      strategy.zero,
      isHybrid(degrees) ? strategy.hybridShard : 0,
      samples,
      dataRanksOf(degrees, globalBatch).matters ? strategy.dp : 0};
  numbers.insert(numbers.end(), strategy.tpGrid.begin(), strategy.tpGrid.end());
  std::string text(reinterpret_cast<const char *>(numbers.data()),
                   numbers.size() * sizeof(int64_t));
  text += strategy.sp ? 's' : '-';
  text += splitsWeight ? 'w' : '-';
  text += microBatches > 1 ? 'm' : '-';
  // One data-parallel rank reduces nothing.
  text += strategy.dp > 1 ? 'd' : '-';
  text += strategy.cp > 1 ? strategy.cpKind[0] : '-';
  text += strategy.recompute[0];
  text += strategy.offload[0];
  text += strategy.offloadTo[0];
  return text;
}

/// What is measured for all degrees with the key of `like`.
static ShardDegrees degreesToMeasure(const ShardDegrees &like,
                                     int64_t globalBatch, int64_t layers,
                                     int64_t pieces) {
  ShardDegrees degrees = like;
  if (like.pp == 1 || like.schedule != cost::ScheduleKind::ZbH1)
    degrees.schedule = cost::ScheduleKind::OneFOneB;
  degrees.pp = pieces;
  degrees.vpp = 1;
  int64_t samples = samplesOf(like.dp, like.microBatches, globalBatch);
  DataRanks ranks = dataRanksOf(like, globalBatch);
  if (!ranks.matters) {
    degrees.dp = ranks.few;
    degrees.microBatches = ceilDiv(globalBatch, degrees.dp * samples);
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

static OncePerStep sumUpOnce(func::FuncOp step, const cost::Cluster &cluster) {
  OncePerStep once;
  StepQueues queues(step, cluster);
  for (Operation &op : step.getBody().front().without_terminator()) {
    StepPhase phase = phaseOf(&op);
    if (isInLoop(phase) || isa<SendOp, RecvOp>(op) || isTransfer(&op))
      continue;
    bool isSetup = phase == StepPhase::setup;
    if (!isCommunication(&op)) {
      (isSetup ? once.setupSeconds : once.updateSeconds) +=
          queues.secondsOf(&op);
      continue;
    }
    StepQueues::Traffic traffic = queues.trafficOf(&op);
    std::vector<std::string> axes;
    for (auto axis :
         op.getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
      axes.push_back(axis.getValue().str());
    (isSetup ? once.setup : once.update)
        .push_back({traffic.kind, traffic.bytes, std::move(axes)});
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

FailureOr<Blocks> Blocks::measure(ProgramFamily &family,
                                  const cost::Cluster &cluster,
                                  const HomeRun &homes,
                                  const ShardDegrees &like,
                                  int64_t globalBatch) {
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
  ShardDegrees degrees = blocks.measured;
  degrees.stageStarts = {begin, begin + run.period, begin + 3 * run.period};
  int64_t layers = 3 + (place > 0 ? 1 : 0) - homes.moreLayers;
  FailureOr<ModuleOp> program = family.program(layers);
  if (failed(program))
    return failure();
  auto module = lowerForStrategy(*program, cluster, degrees);
  if (failed(module))
    return failure();
  SmallVector<func::FuncOp> steps = findSteps(**module);
  PipelineParts parts = measurePipeline(steps, cluster);
  for (auto [step, part] : llvm::zip_equal(steps, parts.stages)) {
    Piece piece;
    piece.profile.parts = std::move(part);
    piece.profile.inLine = profileMemory(step, false);
    piece.profile.framed = profileMemory(step, true);
    piece.profile.away = offloadedBytes(step);
    piece.once = sumUpOnce(step, cluster);
    piece.shards = shardsOf(step);
    blocks.pieces.push_back(std::move(piece));
  }
  for (const StageMessage &message : parts.messages)
    if (isInLoop(message.from.phase) && isInLoop(message.to.phase) &&
        message.from.stage + message.to.stage == kOne + kTwo)
      blocks.messages.push_back(message);
  blocks.before.emplace(1, blocks.pieces[kBefore].profile);
  blocks.layer.emplace(1, blocks.pieces[kOne].profile,
                       &blocks.pieces[kTwo].profile);
  blocks.after.emplace(1, blocks.pieces[kAfter].profile);
  return blocks;
}
