//===- Fold.cpp - Evaluation of deep models from shallow ones -------------===//
#include "passes/price/Fold.h"

#include "cost-model/machine/SoftwareMemory.h"
#include "passes/local/ScheduleTable.h"
#include "passes/lower/FirstError.h"
#include "passes/price/Blocks.h"
#include "passes/price/LayerPlacement.h"
#include "passes/price/SmallProgram.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Stages.h"
#include "runtime/base/Parallel.h"

#include "llvm/ADT/StringExtras.h"

#include <array>
#include <atomic>
#include <tuple>

using namespace mlir;
using namespace dpc;

/// The number of layers in a small program without a pipeline, and in a stage
/// of a small pipeline.
static constexpr int64_t kFewLayers = 3, kFewOfStage = 2;
/// The costs of full recompute, ZeRO-3 and pipelines grow unevenly with the
/// number of layers. With fewer layers than this, extrapolating them is rough.
static constexpr int64_t kManyLayers = 32;
/// From here on, folded evaluations of pipelines are exact enough to compare.
static constexpr int64_t kSomeLayers = 12;

/// Returns true if folding is rough for fewer than kManyLayers layers.
static bool isRough(const LoweringSpec &spec) {
  return spec.recompute == cost::Recompute::Full || spec.zero == 3 ||
         spec.pp > 1;
}

namespace {

struct Pair {
  std::once_flag once;
  SmallProgram fewer, more;
  /// empty if lowering succeeded
  std::string failed;
};

} // namespace

struct Folder::State {
  State(ProgramFamily &family, SharedLowering &lowering)
      : family(family), lowering(lowering), cluster(lowering.cluster) {}
  ProgramFamily &family;
  SharedLowering &lowering;
  const cost::Cluster &cluster;

  std::mutex mutex;
  std::once_flag placementFound, totalsFound;
  bool needsTotals = false;
  std::optional<LayerPlacement> placement;
  std::map<std::string, std::unique_ptr<Pair>> kept;
  /// The numbers of one-stage programs whose costs are linear in the layers,
  /// and of all other one-stage programs. If `lines` is 0 and `others` is not,
  /// folding has always failed, and composed evaluations are preferred.
  std::atomic<int64_t> lines = 0, others = 0;
  bool hasNoLines = false; ///< `lines == 0 && others > 0` when the round began.

  const LayerPlacement *findPlacement() {
    std::call_once(placementFound,
                   [&] { placement = findLayerPlacement(family, cluster); });
    return placement ? &*placement : nullptr;
  }
  /// Returns true if the stages of `spec` also run passes that compute totals
  /// (passes/local/PartitionTotals.cpp). Their costs are not extrapolated.
  bool hasTotals(const LoweringSpec &spec) {
    if (spec.numMicroBatches == 1)
      return false;
    std::call_once(totalsFound, [&] { needsTotals = findTotals(); });
    return needsTotals;
  }
  bool findTotals();
  FailureOr<SmallProgram> measure(int64_t layers, const LoweringSpec &spec,
                                  int64_t stages) {
    return measureLayers(family, layers, lowering, spec, stages);
  }
  using Measurement = llvm::function_ref<FailureOr<SmallProgram>()>;
  const Pair &measured(const std::string &key, Measurement fewer,
                       Measurement more);
  std::optional<cost::Evaluation> evaluateOne(const LoweringSpec &spec);
  std::optional<cost::Evaluation> evaluatePipeline(const LoweringSpec &spec);
};

/// Whether micro-batches need such passes depends only on the loss. If the
/// small program cannot be built or lowered, the answer is unknown: returns
/// true, so that programs are evaluated whole.
bool Folder::State::findTotals() {
  FirstError error(*family.context());
  FailureOr<ModuleOp> few = family.program(kFewOfStage);
  if (failed(few))
    return true;
  LoweringSpec spec;
  spec.numMicroBatches = 2;
  auto lowered = lowerToShared(*few, cluster, spec);
  return failed(lowered) || totalsPassesOf(findStep(**lowered)) > 0;
}

/// Measures both programs in parallel, once per `key`. `more` may be null.
const Pair &Folder::State::measured(const std::string &key, Measurement fewer,
                                    Measurement more) {
  Pair &pair = [&]() -> Pair & {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Pair> &found = kept[key];
    if (!found)
      found = std::make_unique<Pair>();
    return *found;
  }();
  std::call_once(pair.once, [&] {
    std::array<SmallProgram *, 2> programs = {&pair.fewer, &pair.more};
    std::array<std::string, 2> errors;
    parallelFor(more ? 2 : 1, 1, [&](size_t i) {
      FirstError error(*family.context());
      FailureOr<SmallProgram> made = i == 0 ? fewer() : more();
      if (succeeded(made))
        *programs[i] = std::move(*made);
      else
        errors[i] = error.text();
    });
    pair.failed = errors[0].empty() ? errors[1] : errors[0];
  });
  return pair;
}

static cost::Evaluation rejection(std::string why) {
  cost::Evaluation evaluation;
  evaluation.rejected = std::move(why);
  return evaluation;
}

/// Returns a text of all properties on which small programs depend, except the
/// begins of their stages. Omits vpp, which the stages determine.
static std::string keyOf(const LoweringSpec &spec) {
  std::string text = std::to_string(spec.numMicroBatches);
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    if (key.name != "vpp")
      text += "," + cost::printValue(field(spec));
  });
  // Full recompute chooses its blocks by depth * alive.
  if (spec.recompute == cost::Recompute::Full)
    text += "," + std::to_string(spec.depth * spec.alive);
  return text;
}

static cost::MemoryBreakdown peakOf(const MemoryProfile &profile) {
  cost::MemoryBreakdown peak;
  for (const MemoryProfile::Moment &moment : profile.moments)
    if (moment.bytes.total() > peak.total())
      peak = moment.bytes;
  return peak;
}

/// Returns peak(fewer) + times * (peak(more) - peak(fewer)) for each category.
static cost::MemoryBreakdown
peakAlong(const MemoryProfile &fewer, const MemoryProfile &more, double times) {
  cost::MemoryBreakdown peak = peakOf(fewer), other = peakOf(more);
  for (auto [bytes, next] : llvm::zip(peak.bytes, other.bytes))
    bytes = along(bytes, next, times);
  return peak;
}

/// Evaluates a strategy with one stage.
std::optional<cost::Evaluation>
Folder::State::evaluateOne(const LoweringSpec &spec) {
  int64_t layers = family.layers();
  // A block of full recompute spans several layers. Extrapolation is exact for
  // blocks whose length divides this number: 1, 2, 3 and 6 layers.
  constexpr int64_t kBlocks = 6;
  bool isFull = spec.recompute == cost::Recompute::Full;
  int64_t least = isFull ? kBlocks : kFewLayers, step = isFull ? kBlocks : 1;
  LoweringSpec few = spec, more = spec;
  few.depth = static_cast<double>(layers) / least;
  more.depth = static_cast<double>(layers) / (least + step);
  const Pair &pair = measured(
      keyOf(spec), [&] { return measure(least, few, 1); },
      [&] { return measure(least + step, more, 1); });
  if (!pair.failed.empty())
    return rejection(pair.failed);
  StageLine line(least, pair.fewer.stages[0], &pair.more.stages[0], step);
  if (!isFull)
    ++(line.isLine() ? lines : others);
  if (!isFull && !line.isLine())
    return std::nullopt;
  double times = static_cast<double>(layers - least) / step;
  const StepTime &a = pair.fewer.time, &b = pair.more.time;
  auto alongAll = [&](double from, double to) {
    return along(from, to, times);
  };
  StepTime time;
  time.seconds = alongAll(a.seconds, b.seconds);
  time.computeSeconds = alongAll(a.computeSeconds, b.computeSeconds);
  time.exposedCommunicationSeconds =
      std::max(0.0, time.seconds - time.computeSeconds);
  time.transferSeconds = alongAll(a.transferSeconds, b.transferSeconds);
  for (auto [from, to] : llvm::zip(a.bytesPerLevel, b.bytesPerLevel))
    time.bytesPerLevel.push_back(alongAll(from, to));
  for (auto [from, to] : llvm::zip(a.groupSeconds, b.groupSeconds))
    time.groupSeconds.push_back(
        {alongAll(from.microBatch, to.microBatch), alongAll(from.rest, to.rest),
         alongAll(from.microBatchCompute, to.microBatchCompute),
         alongAll(from.restCompute, to.restCompute)});
  addTraffic(time.traffic, a.traffic, 1 - times);
  addTraffic(time.traffic, b.traffic, times);
  cost::Evaluation result;
  setTime(result, time);
  // The blocks contain different ops, but their peaks can be compared.
  cost::MemoryBreakdown peak =
      isFull ? peakAlong(pair.fewer.stages[0].memory.inLine,
                         pair.more.stages[0].memory.inLine, times)
             : peakOfChunks({line.bytes(layers, false)}, {0});
  result.memory = cost::heldMemory(cluster, peak);
  result.hostBytes = line.away(layers).host;
  result.diskBytes = line.away(layers).disk;
  return result;
}

namespace {

/// Composes the evaluation of the large pipeline from the small pipelines.
class Composer {
public:
  Composer(const FoldedPipeline &folded, const Pair &pair,
           const LoweringSpec &spec, const cost::Cluster &cluster)
      : folded(folded), pair(pair), spec(spec), cluster(cluster) {}
  /// Returns nothing if the messages cannot be extrapolated.
  std::optional<cost::Evaluation> run(bool trains);

private:
  const FoldedPipeline &folded;
  const Pair &pair;
  const LoweringSpec &spec;
  const cost::Cluster &cluster;
  std::vector<StageLine> lines; ///< By shape.
  PipelineParts parts;
  ScheduleTables tables;

  int64_t numStages() const { return folded.stages.size(); }
  const FoldedStage &chunkOf(int64_t rank, int64_t chunk) const {
    return folded.stages[chunk * spec.pp + rank];
  }
  StageParts fixedParts() const;
  void makeStages();
  bool makeMessages();
  bool addNeighbourMessages(int64_t from, int64_t to);
  const StageMessage *counterpart(int64_t number) const;
  StageMessage messageOf(int64_t sent, int64_t needed, int64_t from,
                         int64_t to) const;
  std::vector<int64_t> between(int64_t from, int64_t to) const;
  void addMemory(cost::Evaluation &result) const;
};

} // namespace

/// Returns the fixed costs of a step, which a rank pays once. They are the
/// smallest constant part of all shapes, because the constant part of some
/// shapes includes a part of a layer. If nothing is extrapolated, returns zero,
/// which causes only a small error.
StageParts Composer::fixedParts() const {
  if (folded.isExact)
    return {};
  StageParts fixed = lines.front().fixedParts();
  for (const StageLine &line : lines) {
    StageParts other = line.fixedParts();
    fixed.setup = std::min(fixed.setup, other.setup);
    fixed.update = std::min(fixed.update, other.update);
    fixed.updateAlone = std::min(fixed.updateAlone, other.updateAlone);
  }
  return fixed;
}

/// Sums the chunks of each rank. Only the first chunk includes the fixed costs.
void Composer::makeStages() {
  parts.stages.resize(spec.pp);
  StageParts fixed = fixedParts();
  for (auto [rank, stage] : llvm::enumerate(parts.stages))
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      const StageLine &line = lines[part.shape];
      StageParts own = line.parts(part.layers);
      stage.chunks.push_back(own.chunks.empty() ? cost::PhaseSeconds()
                                                : own.chunks.front());
      if (chunk > 0) {
        own.setup = std::max(0.0, own.setup - fixed.setup);
        own.update = std::max(0.0, own.update - fixed.update);
        own.updateAlone = std::max(0.0, own.updateAlone - fixed.updateAlone);
      }
      addTo(stage, own);
    }
}

/// Returns the indices of the loop's messages from one small stage to another.
std::vector<int64_t> Composer::between(int64_t from, int64_t to) const {
  std::vector<int64_t> found;
  for (auto [i, message] : llvm::enumerate(pair.fewer.messages))
    if (message.from.stage == from && message.to.stage == to &&
        isInLoop(message.from.phase) && isInLoop(message.to.phase))
      found.push_back(i);
  return found;
}

/// Returns the same message of `pair.more`, or null.
const StageMessage *Composer::counterpart(int64_t number) const {
  const StageMessage &wanted = pair.fewer.messages[number];
  auto isLike = [&](const StageMessage &other) {
    return other.from.stage == wanted.from.stage &&
           other.to.stage == wanted.to.stage &&
           other.from.phase == wanted.from.phase &&
           other.to.phase == wanted.to.phase;
  };
  ArrayRef<StageMessage> few = pair.fewer.messages, more = pair.more.messages;
  if (llvm::count_if(few, isLike) != llvm::count_if(more, isLike))
    return nullptr;
  int64_t before = llvm::count_if(few.take_front(number), isLike);
  for (const StageMessage &other : more)
    if (isLike(other) && before-- == 0)
      return &other;
  return nullptr;
}

/// Returns the message between virtual stages `from` and `to` of the large
/// pipeline. The sender is timed like that of the small message `sent`, and the
/// receiver like that of the small message `needed`.
StageMessage Composer::messageOf(int64_t sent, int64_t needed, int64_t from,
                                 int64_t to) const {
  StageMessage message = pair.fewer.messages[sent];
  auto place = [&](MessageEnd StageMessage::*end, int64_t number, int64_t v) {
    const MessageEnd &few = pair.fewer.messages[number].*end;
    const StageMessage *other = counterpart(number);
    double perLayer = other ? (other->*end).at - few.at : 0;
    int64_t layers = folded.small[few.stage].layers;
    double at = few.at + (folded.stages[v].layers - layers) * perLayer;
    message.*end = {v % spec.pp, few.phase, v / spec.pp, at};
  };
  place(&StageMessage::from, sent, from);
  place(&StageMessage::to, needed, to);
  return message;
}

/// Adds the messages from a virtual stage to an adjacent one. Returns false if
/// the shapes of the two stages have different numbers of messages.
bool Composer::addNeighbourMessages(int64_t from, int64_t to) {
  int64_t step = to - from;
  int64_t sender = folded.example[folded.stages[from].shape];
  int64_t receiver = folded.example[folded.stages[to].shape];
  std::vector<int64_t> sent = between(sender, sender + step);
  std::vector<int64_t> needed = between(receiver - step, receiver);
  if (sent.size() != needed.size())
    return false;
  for (auto [one, other] : llvm::zip(sent, needed))
    parts.messages.push_back(messageOf(one, other, from, to));
  return true;
}

/// Returns false if the pipeline has messages that cannot be extrapolated.
bool Composer::makeMessages() {
  int64_t last = folded.small.size() - 1;
  auto isEnd = [&](int64_t stage) { return stage == 0 || stage == last; };
  auto large = [&](int64_t stage) { return stage == 0 ? 0 : numStages() - 1; };
  for (auto [i, message] : llvm::enumerate(pair.fewer.messages)) {
    int64_t from = message.from.stage, to = message.to.stage;
    bool inLoop = isInLoop(message.from.phase) && isInLoop(message.to.phase);
    if (inLoop && std::abs(from - to) == 1)
      continue;
    // Messages between the first and the last stage carry tied parameters. In
    // setup and update, one of these two stages sends results to all stages.
    if (message.from.phase == Phase::update && (!isEnd(from) || !isEnd(to)))
      continue;
    if (!isEnd(from) || (inLoop && !isEnd(to)))
      return false;
    for (int64_t v = 0; v < numStages(); ++v)
      if (isEnd(to) ? v == large(to)
                    : folded.example[folded.stages[v].shape] == to)
        parts.messages.push_back(messageOf(i, i, large(from), v));
  }
  for (int64_t v = 0; v + 1 < numStages(); ++v)
    if (!addNeighbourMessages(v, v + 1) || !addNeighbourMessages(v + 1, v))
      return false;
  return true;
}

void Composer::addMemory(cost::Evaluation &result) const {
  for (int64_t rank = 0; rank < spec.pp; ++rank) {
    std::vector<int64_t> slots;
    int64_t frames = 0, most = 0;
    OffloadedBytes away;
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      const StageLine &line = lines[part.shape];
      const StageProfile &example =
          pair.fewer.stages[folded.example[part.shape]];
      slots.push_back(
          countSlots(tables[rank], chunk, example.memory.framed.framePhases));
      frames += !example.memory.framed.framePhases.empty();
      most = std::max(most, slots.back());
      away.host += line.away(part.layers).host;
      away.disk += line.away(part.layers).disk;
    }
    // StepFrames.cpp has the same condition.
    bool framed = spec.numMicroBatches > 1 && (frames > 1 || most > 1);
    std::vector<StageBytes> chunks;
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      chunks.push_back(lines[part.shape].bytes(part.layers, framed));
    }
    cost::MemoryBreakdown memory =
        cost::heldMemory(cluster, peakOfChunks(chunks, slots));
    if (memory.total() > result.memory.total())
      result.memory = memory;
    result.hostBytes = std::max<double>(result.hostBytes, away.host);
    result.diskBytes = std::max<double>(result.diskBytes, away.disk);
    result.stages[rank].memoryBytes = memory.total();
  }
}

std::optional<cost::Evaluation> Composer::run(bool trains) {
  for (int64_t stage : folded.example) {
    const StageProfile *more =
        folded.isExact ? nullptr : &pair.more.stages[stage];
    lines.emplace_back(folded.small[stage].layers, pair.fewer.stages[stage],
                       more);
  }
  parts.microBatches = spec.numMicroBatches;
  parts.order = rankOrder(spec);
  makeStages();
  if (!makeMessages())
    return std::nullopt;
  auto made = cost::makeSchedule(spec.schedule, spec.pp, spec.vpp,
                                 spec.numMicroBatches);
  if (!made)
    return rejection(made.message());
  tables = trains ? *made : cost::forwardOnly(*made);
  auto time = runPipeline(parts, tables, cluster);
  if (!time)
    return rejection(time.message());
  cost::Evaluation result;
  setTime(result, *time);
  addMemory(result);
  return result;
}

/// Divides the number of layers of each stage by the number of layers of the
/// small stage with the same shape plus `extra`. Returns the largest quotient.
static double depthOf(const FoldedPipeline &folded, int64_t extra) {
  double depth = 1;
  for (const FoldedStage &stage : folded.stages) {
    double few = folded.small[folded.example[stage.shape]].layers + extra;
    depth = std::max(depth, stage.layers / std::max(1.0, few));
  }
  return depth;
}

/// Returns the most micro-batches that are live in a stage, per chunk.
static int64_t mostAliveOf(const LoweringSpec &spec) {
  auto tables = cost::makeSchedule(spec.schedule, spec.pp, spec.vpp,
                                   spec.numMicroBatches);
  return tables ? std::max<int64_t>(1, cost::mostAlive(tables->front(), 0)) : 1;
}

std::optional<cost::Evaluation>
Folder::State::evaluatePipeline(const LoweringSpec &spec) {
  const LayerPlacement *placement = findPlacement();
  if (!placement || placement->ops.size() < spec.stages())
    return std::nullopt;
  // In a deep model, the first layer of a stage costs about as much as others.
  bool isSimple =
      family.layers() >= kManyLayers && spec.recompute != cost::Recompute::Full;
  FoldedPipeline folded = foldStages(
      placement->run,
      chooseStageStarts(placement->ops, placement->trains, cluster, spec),
      isSimple ? kFewOfStage - 1 : kFewOfStage);
  int64_t extra = placement->moreLayers;
  int64_t largest = std::max(folded.fewer.layers, folded.more.layers);
  if (largest >= placement->run.layers || folded.fewer.layers <= extra)
    // The folded pipeline is not smaller than the model, or has no layers.
    return std::nullopt;
  LoweringSpec fewer = spec;
  fewer.placedStages = spec.pp;
  fewer.pp = folded.small.size();
  fewer.vpp = 1;
  if (!splitsBackward(fewer.schedule))
    fewer.schedule = cost::ScheduleKind::OneFOneB;
  fewer.depth = depthOf(folded, 0);
  fewer.alive = mostAliveOf(spec);
  LoweringSpec more = fewer;
  more.depth = depthOf(folded, 1);
  fewer.stageStarts = folded.fewer.starts;
  more.stageStarts = folded.more.starts;
  std::string key = keyOf(fewer) + std::to_string(spec.pp);
  for (int64_t start :
       llvm::concat<int64_t>(fewer.stageStarts, more.stageStarts))
    key += "," + std::to_string(start);
  auto measureMore = [&] {
    return measure(folded.more.layers - extra, more, spec.pp);
  };
  const Pair &pair = measured(
      key + (folded.isExact ? "!" : ""),
      [&] { return measure(folded.fewer.layers - extra, fewer, spec.pp); },
      folded.isExact ? Measurement() : Measurement(measureMore));
  if (!pair.failed.empty())
    return rejection(pair.failed);
  return Composer(folded, pair, spec, cluster).run(placement->trains);
}

Folder::Folder(ProgramFamily &family, SharedLowering &lowering)
    : state(std::make_unique<State>(family, lowering)) {}

Folder::~Folder() = default;

bool Folder::canFold() const { return state->family.isDeep(); }

void Folder::beginRound() {
  state->hasNoLines = state->lines == 0 && state->others > 0;
}

std::optional<cost::Evaluation> Folder::evaluate(const LoweringSpec &spec) {
  bool rough = isRough(spec) && state->family.layers() < kManyLayers;
  bool hasStages =
      spec.pp > 1 && spec.zero < 3 && state->family.layers() >= kSomeLayers;
  // Full recompute chooses its blocks by the number of all layers.
  bool hasBlocks =
      spec.stages() == 1 && spec.recompute == cost::Recompute::Full;
  if (!canFold() || (rough && !hasStages) || hasBlocks ||
      (spec.stages() > 1 && state->hasTotals(spec)))
    return std::nullopt;
  std::optional<cost::Evaluation> result = spec.stages() == 1
                                               ? state->evaluateOne(spec)
                                               : state->evaluatePipeline(spec);
  if (result) {
    result->isFolded = true;
    result->isRough = rough;
  }
  return result;
}

std::string Folder::blockOf(const LoweringSpec &spec, int64_t globalBatch) {
  if (state->hasTotals(spec))
    return "";
  const LayerPlacement *placement = state->findPlacement();
  // Segments need three consecutive layers. A program with fewer layers cannot
  // be lowered if other ops look like layers.
  constexpr int64_t kFewest = 4, kLayers = 3;
  bool isDeep = placement && placement->run.layers >= kFewest &&
                placement->moreLayers < kLayers;
  if (!isDeep)
    return "";
  // evaluateOne includes blocks of full recompute and their all_gathers, which
  // span several layers. Segments do not include them.
  bool isWhole = spec.pp == 1 && spec.zero >= 3 &&
                 spec.recompute == cost::Recompute::Full &&
                 state->family.layers() < kManyLayers;
  std::string key = blockKeyOf(spec, globalBatch);
  return isWhole ? "whole " + key : key;
}

std::vector<std::optional<cost::Composition>>
Folder::compose(ArrayRef<LoweringSpec> block, int64_t globalBatch,
                double limit) {
  std::vector<std::optional<cost::Composition>> result(block.size());
  // For a single strategy, folding is as fast as composing segments and more
  // exact, so it is used unless it has always failed so far.
  bool hasBlocks = block.front().recompute == cost::Recompute::Full;
  bool isAlone = block.size() == 1 && block.front().stages() == 1;
  if (isAlone && (hasBlocks || !state->hasNoLines)) {
    auto alone =
        hasBlocks ? state->evaluateOne(block.front()) : evaluate(block.front());
    if (alone) {
      alone->isFolded = true;
      alone->isComposed = hasBlocks;
      result.front().emplace();
      result.front()->evaluation = std::move(*alone);
      return result;
    }
  }
  FirstError error(*state->family.context());
  auto blocks =
      Blocks::measure(state->family, state->lowering, *state->findPlacement(),
                      block.front(), globalBatch);
  constexpr size_t kAtOnce = 32;
  parallelFor(block.size(), kAtOnce, [&](size_t i) {
    if (succeeded(blocks)) {
      result[i] = blocks->compose(block[i], limit);
    } else {
      result[i].emplace();
      result[i]->evaluation = rejection(error.text());
    }
  });
  return result;
}
