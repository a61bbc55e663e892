//===- Fold.cpp - Evaluation of deep models from shallow ones -------------===//
#include "passes/price/Fold.h"

#include "cost-model/machine/SoftwareMemory.h"
#include "passes/local/ScheduleTable.h"
#include "passes/lower/FirstError.h"
#include "passes/price/Blocks.h"
#include "passes/price/FoldCompose.h"
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
  std::map<int64_t, int64_t> timesChosen; ///< By layers of a block.
  int64_t likelyStep = 1;  ///< The most frequent when the round began.
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
  /// Two measured programs with one stage, of `least` and `least + step`
  /// layers.
  struct Line {
    const Pair *pair;
    int64_t least, step;
  };
  std::optional<Line> measureLine(const LoweringSpec &spec, int64_t step);
  std::optional<Line> findLine(const LoweringSpec &spec);
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

/// Returns a text of all properties on which small programs depend, except the
/// begins of their stages. Omits vpp, which the stages determine.
static std::string keyOf(const LoweringSpec &spec) {
  std::string text = std::to_string(spec.numMicroBatches);
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    if (key.name != "vpp")
      text += "," + cost::printValue(field(spec));
  });
  // Full recompute chooses its blocks by these numbers.
  if (spec.recompute == cost::Recompute::Full)
    for (int64_t part : {spec.alive, spec.omittedLayers})
      text += "," + std::to_string(part);
  return text;
}

/// Measures two programs without a pipeline, of which one has `step` more
/// layers. If the blocks of full recompute have `step` layers, the programs
/// differ in one block and begin with the same rest of layers as the model.
/// Returns nullopt if the model is too small.
std::optional<Folder::State::Line>
Folder::State::measureLine(const LoweringSpec &spec, int64_t step) {
  int64_t layers = family.layers();
  int64_t least = layers % step + (step <= kFewLayers ? 2 : 1) * step;
  Line line{nullptr, std::max(least, kFewLayers), step};
  if (line.least + step >= layers)
    return std::nullopt;
  auto specFor = [&](int64_t count) {
    LoweringSpec small = spec;
    small.depth = static_cast<double>(layers) / static_cast<double>(count);
    small.omittedLayers = layers - count;
    return small;
  };
  LoweringSpec few = specFor(line.least), more = specFor(line.least + step);
  line.pair = &measured(
      keyOf(few) + ";" + std::to_string(step),
      [&] { return measure(line.least, few, 1); },
      [&] { return measure(line.least + step, more, 1); });
  return line;
}

/// Full recompute chooses the layers of its blocks only while a program is
/// lowered. The number that most strategies chose so far is tried first.
std::optional<Folder::State::Line>
Folder::State::findLine(const LoweringSpec &spec) {
  if (spec.recompute != cost::Recompute::Full)
    return measureLine(spec, 1);
  constexpr int kAttempts = 3;
  int64_t step = likelyStep;
  for (int i = 0; i < kAttempts; ++i) {
    std::optional<Line> line = measureLine(spec, step);
    if (!line || !line->pair->failed.empty())
      return line;
    int64_t chosen = line->pair->fewer.blockLayers;
    if (chosen == step && line->pair->more.blockLayers == step) {
      std::lock_guard<std::mutex> lock(mutex);
      ++timesChosen[step];
      return line;
    }
    if (chosen == step || chosen == 0)
      return std::nullopt;
    step = chosen;
  }
  return std::nullopt;
}

/// Evaluates a strategy with one stage.
std::optional<cost::Evaluation>
Folder::State::evaluateOne(const LoweringSpec &spec) {
  int64_t layers = family.layers();
  bool isFull = spec.recompute == cost::Recompute::Full;
  std::optional<Line> found = findLine(spec);
  if (!found)
    return std::nullopt;
  const Pair &pair = *found->pair;
  if (!pair.failed.empty())
    return cost::rejection(pair.failed);
  int64_t least = found->least, step = found->step;
  StageLine line(least, pair.fewer.stages[0], &pair.more.stages[0], step);
  if (!isFull)
    ++(line.isLine() ? lines : others);
  if (!isFull && !line.isLine())
    return std::nullopt;
  double times =
      static_cast<double>(layers - least) / static_cast<double>(step);
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

/// Returns the most layers that a small stage with `extra` layers omits.
static int64_t omittedBy(const FoldedPipeline &folded, int64_t extra) {
  int64_t omitted = 0;
  for (const FoldedStage &stage : folded.stages)
    omitted = std::max(
        omitted, stage.layers -
                     folded.small[folded.example[stage.shape]].layers - extra);
  return omitted;
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
  fewer.omittedLayers = omittedBy(folded, 0);
  more.omittedLayers = omittedBy(folded, 1);
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
    return cost::rejection(pair.failed);
  return composePipeline(folded, pair.fewer, pair.more, spec, cluster,
                         placement->trains);
}

Folder::Folder(ProgramFamily &family, SharedLowering &lowering)
    : state(std::make_unique<State>(family, lowering)) {}

Folder::~Folder() = default;

bool Folder::canFold() const { return state->family.isDeep(); }

void Folder::beginRound() {
  state->hasNoLines = state->lines == 0 && state->others > 0;
  int64_t most = 0;
  for (auto [step, times] : state->timesChosen)
    if (times > most) {
      most = times;
      state->likelyStep = step;
    }
}

std::optional<cost::Evaluation> Folder::evaluate(const LoweringSpec &spec) {
  bool rough = isRough(spec) && state->family.layers() < kManyLayers;
  bool hasStages =
      spec.pp > 1 && spec.zero < 3 && state->family.layers() >= kSomeLayers;
  if (!canFold() || (rough && !hasStages) ||
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
  // exact, so it is used unless it has always failed so far. Segments do not
  // have the blocks of full recompute.
  bool isFull = block.front().recompute == cost::Recompute::Full;
  bool isRough = isFull && state->family.layers() < kManyLayers;
  bool isAlone = block.size() == 1 && block.front().stages() == 1;
  if (isAlone && (isFull || !state->hasNoLines)) {
    auto alone =
        isRough ? state->evaluateOne(block.front()) : evaluate(block.front());
    if (alone) {
      alone->isFolded = true;
      alone->isComposed = isRough;
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
      result[i]->evaluation = cost::rejection(error.text());
    }
  });
  return result;
}
