//===- Blocks.cpp - Strategies made of pieces measured once ---------------===//
#include "passes/search/Blocks.h"

#include "passes/search/Pipeline.h"
#include "passes/search/StepQueues.h"
#include "passes/shard/Passes.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dpc;

/// The pieces, by stage of the small pipeline.
enum PieceNumber { kBefore, kOne, kTwo, kAfter, kPieces };

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
                                     int64_t globalBatch, int64_t layers) {
  ShardDegrees degrees = like;
  if (like.pp == 1 || like.schedule != cost::ScheduleKind::ZbH1)
    degrees.schedule = cost::ScheduleKind::OneFOneB;
  degrees.pp = kPieces;
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
  blocks.measured = degreesToMeasure(like, globalBatch, blocks.layers);
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

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

struct Blocks::Priced {
  /// Setup, update; sums of loop and of the rest of a step.
  StageParts parts;
};

/// A strategy under way.
struct Blocks::Plan {
  const ShardDegrees &degrees;
  std::vector<int64_t> layersOf; ///< By virtual stage.
  std::vector<StageParts> parts; ///< By piece.
  ScheduleTables tables;

  int64_t stages() const { return layersOf.size(); }
};

static cost::GroupPlacement placementOf(const std::vector<std::string> &names,
                                        const ShardDegrees &degrees,
                                        const cost::Cluster &cluster) {
  int64_t stride = 1, size = 1, groupStride = 1;
  for (const MeshAxis &axis : llvm::reverse(axesOf(degrees))) {
    if (axis.role == AxisRole::time)
      continue;
    if (llvm::is_contained(names, axis.name)) {
      groupStride = size == 1 ? stride : groupStride;
      size *= axis.size;
    }
    stride *= axis.size;
  }
  return cost::placeAxis(cluster, groupStride, size);
}

namespace {

/// What runs once, one after the other.
struct Serial {
  double setup = 0, update = 0;
  std::vector<double> bytesPerLevel;
};

} // namespace

static Serial serialOf(const OncePerStep &once, const ShardDegrees &degrees,
                       double share, const cost::Cluster &cluster) {
  Serial serial{once.setupSeconds * share, once.updateSeconds * share, {}};
  serial.bytesPerLevel.assign(cluster.levels.size(), 0);
  auto add = [&](const OncePerStep::Traffic &traffic, double &seconds) {
    cost::CollectiveEstimate estimate =
        estimateCollective(cluster, traffic.kind, traffic.bytes,
                           placementOf(traffic.axes, degrees, cluster));
    seconds += estimate.seconds;
    for (auto [sum, bytes] :
         llvm::zip(serial.bytesPerLevel, estimate.bytesPerLevel))
      sum += bytes;
  };
  for (const OncePerStep::Traffic &traffic : once.setup)
    add(traffic, serial.setup);
  for (const OncePerStep::Traffic &traffic : once.update)
    add(traffic, serial.update);
  return serial;
}

/// Data ranks that share states.
static double zeroRanks(const ShardDegrees &degrees) {
  return isHybrid(degrees) ? degrees.hybridShard : degrees.dp;
}

/// What overlapped in setup and update is taken to overlap in the same share.
Blocks::Priced Blocks::price(const Piece &piece,
                             const ShardDegrees &degrees) const {
  double share =
      degrees.zero > 0 ? zeroRanks(measured) / zeroRanks(degrees) : 1;
  ShardDegrees small = measured;
  Serial was = serialOf(piece.once, small, 1, *cluster);
  Serial now = serialOf(piece.once, degrees, share, *cluster);
  StageParts parts = piece.profile.parts;
  auto scale = [](double &seconds, double from, double to) {
    seconds = from > 0 ? seconds * to / from : to;
  };
  scale(parts.setup, was.setup, now.setup);
  scale(parts.update, was.update, now.update);
  scale(parts.updateAlone, was.update, now.update);
  double once = piece.once.setupSeconds + piece.once.updateSeconds;
  double times = static_cast<double>(degrees.microBatches) /
                 static_cast<double>(measured.microBatches);
  parts.computeSeconds =
      std::max(0.0, parts.computeSeconds - once) * times + once * share;
  for (size_t i = 0; i < parts.bytesPerLevel.size(); ++i)
    parts.bytesPerLevel[i] =
        std::max(0.0, parts.bytesPerLevel[i] - was.bytesPerLevel[i]) * times +
        now.bytesPerLevel[i];
  return {std::move(parts)};
}

static double loopSeconds(const StageParts &parts) {
  double sum = 0;
  for (const cost::PhaseSeconds &chunk : parts.chunks)
    sum += chunk.forward + chunk.backward + chunk.weight;
  return sum;
}

/// `one` layer and `two`, as a line.
static StageParts alongLayers(const StageParts &one, const StageParts &two,
                              double layers) {
  double times = layers - 1;
  auto along = [&](double a, double b) {
    return std::max(0.0, a + times * (b - a));
  };
  StageParts result;
  result.setup = along(one.setup, two.setup);
  result.update = along(one.update, two.update);
  result.updateAlone = along(one.updateAlone, two.updateAlone);
  for (auto [a, b] : llvm::zip(one.chunks, two.chunks))
    result.chunks.push_back({along(a.forward, b.forward),
                             along(a.backward, b.backward),
                             along(a.weight, b.weight)});
  result.computeSeconds = along(one.computeSeconds, two.computeSeconds);
  result.transferSeconds = along(one.transferSeconds, two.transferSeconds);
  for (auto [a, b] : llvm::zip(one.bytesPerLevel, two.bytesPerLevel))
    result.bytesPerLevel.push_back(along(a, b));
  return result;
}

//===----------------------------------------------------------------------===//
// Layers of stages
//===----------------------------------------------------------------------===//

/// Most whole layers of `seconds` each in a stage that takes `most` at most and
/// has `fixed` besides.
static int64_t layersWithin(double most, double fixed, double seconds) {
  constexpr double kRounding = 1e-9;
  return most < fixed
             ? 0
             : static_cast<int64_t>((most - fixed) / seconds * (1 + kRounding) +
                                    kRounding);
}

/// The slowest stage is as fast as can be, in the seconds that choose the
/// stages of a program (Stages.h); the first stages have fewer layers where
/// there is a choice.
bool Blocks::layOut(Plan &plan) const {
  int64_t stages = plan.degrees.stages();
  if (stages == 1) {
    plan.layersOf = {layers};
    return true;
  }
  if (layers < stages)
    return false;
  double first = weights.first, layer = weights.layer, last = weights.last;
  auto within = [&](double most) {
    std::vector<int64_t> counts(stages, layersWithin(most, 0, layer));
    counts.front() = layersWithin(most, first, layer);
    counts.back() = layersWithin(most, last, layer);
    return counts;
  };
  double best = std::numeric_limits<double>::infinity();
  for (double fixed : {0.0, first, last})
    for (int64_t count = 0; count <= layers; ++count) {
      double most = fixed + count * layer;
      if (most >= best)
        break;
      std::vector<int64_t> counts = within(most);
      if (std::accumulate(counts.begin(), counts.end(), int64_t(0)) >= layers)
        best = most;
    }
  plan.layersOf = within(best);
  int64_t extra =
      std::accumulate(plan.layersOf.begin(), plan.layersOf.end(), int64_t(0)) -
      layers;
  for (int64_t v = 0; extra > 0; v = (v + 1) % stages)
    if (plan.layersOf[v] > (v == 0 || v == stages - 1 ? 0 : 1)) {
      --plan.layersOf[v];
      --extra;
    }
  return true;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static void addPhases(cost::PhaseSeconds &sum, const StageParts &parts) {
  for (const cost::PhaseSeconds &chunk : parts.chunks) {
    sum.forward += chunk.forward;
    sum.backward += chunk.backward;
    sum.weight += chunk.weight;
  }
}

/// All that a rank does: what is done once is in every piece, and counts once.
PipelineParts Blocks::partsOf(const Plan &plan) const {
  const ShardDegrees &degrees = plan.degrees;
  PipelineParts result;
  result.microBatches = degrees.microBatches;
  result.ranksPerStage = numRanks(degrees) / degrees.pp;
  result.stages.resize(degrees.pp);
  StageParts fixed = alongLayers(plan.parts[kOne], plan.parts[kTwo], 0);
  for (int64_t v = 0; v < plan.stages(); ++v) {
    StageParts &rank = result.stages[v % degrees.pp];
    rank.bytesPerLevel.resize(cluster->levels.size(), 0);
    cost::PhaseSeconds &chunk = rank.chunks.emplace_back();
    auto add = [&](const StageParts &part) {
      addPhases(chunk, part);
      bool isFirst = rank.computeSeconds == 0;
      auto addOnce = [&](double &sum, double seconds, double shared) {
        sum += isFirst ? seconds : std::max(0.0, seconds - shared);
      };
      addOnce(rank.setup, part.setup, fixed.setup);
      addOnce(rank.update, part.update, fixed.update);
      addOnce(rank.updateAlone, part.updateAlone, fixed.updateAlone);
      rank.computeSeconds += part.computeSeconds;
      rank.transferSeconds += part.transferSeconds;
      for (auto [sum, bytes] :
           llvm::zip(rank.bytesPerLevel, part.bytesPerLevel))
        sum += bytes;
    };
    if (plan.layersOf[v] > 0)
      add(alongLayers(plan.parts[kOne], plan.parts[kTwo], plan.layersOf[v]));
    if (v == 0)
      add(plan.parts[kBefore]);
    if (v == plan.stages() - 1)
      add(plan.parts[kAfter]);
  }
  auto place = [&](int64_t v, const MessageEnd &end, bool isSent) {
    StageParts &rank = result.stages[v % degrees.pp];
    int64_t chunk = v / degrees.pp;
    double at = end.at;
    if (isSent) { // counted from the phase's end
      StageParts part = plan.parts[end.stage];
      at += rank.secondsOf(end.phase, chunk) - part.secondsOf(end.phase, 0);
    }
    return MessageEnd{v % degrees.pp, end.phase, chunk, std::max(0.0, at)};
  };
  for (int64_t v = 0; v + 1 < plan.stages(); ++v)
    for (const StageMessage &message : messages) {
      bool isForward = message.from.stage < message.to.stage;
      int64_t from = isForward ? v : v + 1, to = isForward ? v + 1 : v;
      result.messages.push_back({place(from, message.from, true),
                                 place(to, message.to, false), message.bytes,
                                 message.gatherSeconds});
    }
  return result;
}

/// Every stage runs all its micro-batches, and before the first or behind the
/// last of them the others run one.
double Blocks::leastSeconds(const Plan &plan) const {
  std::vector<double> ranks(plan.degrees.pp, 0);
  double fill = 0;
  for (int64_t v = 0; v < plan.stages(); ++v) {
    cost::PhaseSeconds all;
    if (plan.layersOf[v] > 0)
      addPhases(all, alongLayers(plan.parts[kOne], plan.parts[kTwo],
                                 plan.layersOf[v]));
    if (v == 0)
      addPhases(all, plan.parts[kBefore]);
    if (v == plan.stages() - 1)
      addPhases(all, plan.parts[kAfter]);
    double seconds = all.forward + all.backward;
    ranks[v % plan.degrees.pp] += seconds + all.weight;
    if (v > 0 && v < plan.degrees.pp)
      fill += seconds;
  }
  double slowest = *llvm::max_element(ranks);
  return plan.degrees.microBatches * slowest +
         std::min(fill, (plan.degrees.pp - 1) * slowest / plan.degrees.vpp);
}

StepTime Blocks::timeOfOne(const Plan &plan) const {
  PipelineParts parts = partsOf(plan);
  const StageParts &rank = parts.stages.front();
  StepTime time;
  time.seconds = rank.setup + plan.degrees.microBatches * loopSeconds(rank) +
                 rank.update + cluster->software.hostStepSeconds;
  time.computeSeconds = rank.computeSeconds;
  time.transferSeconds = rank.transferSeconds;
  time.exposedCommunicationSeconds =
      std::max(0.0, time.seconds - time.computeSeconds);
  time.bytesPerLevel = rank.bytesPerLevel;
  return time;
}

cost::Result<StepTime> Blocks::timeOf(const Plan &plan) const {
  return runPipeline(partsOf(plan), plan.tables, *cluster);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

cost::MemoryBreakdown Blocks::memoryOf(const Plan &plan, int64_t rank) const {
  const ShardDegrees &degrees = plan.degrees;
  bool framed = degrees.pp > 1;
  std::vector<StageBytes> chunks;
  std::vector<int64_t> slots;
  double share =
      degrees.zero > 0 ? zeroRanks(measured) / zeroRanks(degrees) : 1;
  cost::MemoryBreakdown shards;
  auto add = [&](const StageLine &line, int64_t chunk, int64_t count,
                 const cost::MemoryBreakdown &split) {
    chunks.push_back(line.bytes(count, framed));
    slots.push_back(
        framed ? countSlots(plan.tables[rank], chunk, chunks.back().framePhases)
               : 0);
    for (int c = 0; c < cost::numMemoryCategories; ++c)
      shards.bytes[c] += split.bytes[c];
  };
  for (int64_t v = rank; v < plan.stages(); v += degrees.pp) {
    int64_t chunk = v / degrees.pp, count = plan.layersOf[v];
    if (count > 0) {
      cost::MemoryBreakdown split = pieces[kOne].shards;
      for (int c = 0; c < cost::numMemoryCategories; ++c)
        split.bytes[c] +=
            (count - 1) * (pieces[kTwo].shards.bytes[c] - split.bytes[c]);
      add(*layer, chunk, count, split);
    }
    if (v == 0)
      add(*before, chunk, 1, pieces[kBefore].shards);
    if (v == plan.stages() - 1)
      add(*after, chunk, 1, pieces[kAfter].shards);
  }
  cost::MemoryBreakdown peak = peakOfChunks(chunks, slots);
  for (int c = 0; c < cost::numMemoryCategories; ++c)
    peak.bytes[c] =
        std::max(0.0, peak.bytes[c] - shards.bytes[c] * (1 - share));
  return peak;
}

/// The first ranks keep most micro-batches, the last one has the model's end.
void Blocks::addMemory(const Plan &plan, cost::Evaluation &result) const {
  for (int64_t rank : {int64_t(0), int64_t(1), plan.degrees.pp - 1}) {
    if (rank >= plan.degrees.pp)
      continue;
    cost::MemoryBreakdown memory = memoryOf(plan, rank);
    if (memory.total() > result.memory.total())
      result.memory = memory;
  }
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

std::optional<cost::Composition> Blocks::compose(const ShardDegrees &degrees,
                                                 double limit) const {
  Plan plan{degrees, {}, {}, {}};
  for (const Piece &piece : pieces)
    plan.parts.push_back(price(piece, degrees).parts);
  if (!layOut(plan))
    return std::nullopt;
  cost::Composition result;
  result.evaluation.isFolded = result.evaluation.isComposed = true;
  if (double least = leastSeconds(plan); least > limit) {
    result.isBound = true;
    result.evaluation.stepSeconds = least;
    return result;
  }
  if (degrees.pp > 1) {
    auto made = cost::makeSchedule(degrees.schedule, degrees.pp, degrees.vpp,
                                   degrees.microBatches);
    if (!made)
      return std::nullopt;
    plan.tables = homes->trains ? *made : cost::forwardOnly(*made);
    auto time = timeOf(plan);
    if (!time)
      return std::nullopt;
    setTime(result.evaluation, *time);
  } else {
    setTime(result.evaluation, timeOfOne(plan));
  }
  addMemory(plan, result.evaluation);
  return result;
}
