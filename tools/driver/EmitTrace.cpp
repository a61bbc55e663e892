//===- EmitTrace.cpp - The simulated step as a trace ----------------------===//
#include "tools/driver/EmitTrace.h"

#include "codegen/Codegen.h"
#include "passes/graph/Passes.h"
#include "passes/price/StepRecord.h"
#include "passes/shard/Passes.h"
#include "runtime/observe/Trace.h"
#include "tools/driver/BuildPlan.h"

using namespace mlir;

namespace dpc {

namespace {

/// Seconds since the phase began.
struct Span {
  double begin = 0, end = 0;
};

class StageTimes {
public:
  StageTimes(func::FuncOp step, const StageRecord &record);
  /// Returns when a phase begins for a micro-batch, or -1 if it never runs.
  double beginOf(const rt::PhaseName &phase, int64_t microBatch) const;
  std::optional<Span> spanOf(const rt::PhaseName &phase, int64_t place) const;

private:
  using Key = std::pair<Phase, int64_t>; ///< Phase and chunk.
  static Key keyOf(const rt::PhaseName &phase);
  std::map<std::pair<Key, int64_t>, double> begins; ///< By micro-batch.
  std::map<std::pair<Key, int64_t>, Span> spans;    ///< By place.
};

/// Data-parallel ranks of one kind have equal batch shares and times.
using KindTimes = std::vector<StageTimes>;

class TraceOfPlan {
public:
  TraceOfPlan(const codegen::PlanDraft &draft, std::vector<KindTimes> kinds,
              ArrayRef<size_t> kindOfDataRank, int64_t mostEvents)
      : draft(draft), kinds(std::move(kinds)), kindOfDataRank(kindOfDataRank),
        mostEvents(mostEvents) {}
  SimulatedStep run() const;

private:
  const codegen::PlanDraft &draft;
  std::vector<KindTimes> kinds;
  ArrayRef<size_t> kindOfDataRank; ///< empty: all are of the first kind
  int64_t mostEvents;

  const StageTimes &timesOf(int64_t rank) const;
  std::vector<int64_t> ranksToShow() const;
  std::string leftOut(ArrayRef<int64_t> shown) const;
  std::vector<rt::TraceLane> lanesOf(int64_t rank) const;
  void addEntry(std::vector<rt::TraceLane> &lanes, std::vector<double> &free,
                int64_t rank, const rt::ScheduleEntry &entry) const;
};

} // namespace

StageTimes::Key StageTimes::keyOf(const rt::PhaseName &phase) {
  switch (phase.kind) {
  case rt::PhaseKind::Setup:
    return {Phase::setup, 0};
  case rt::PhaseKind::Forward:
    return {Phase::forward, phase.chunk};
  case rt::PhaseKind::Backward:
    return {Phase::backward, phase.chunk};
  case rt::PhaseKind::Weight:
    return {Phase::weight, phase.chunk};
  case rt::PhaseKind::Update:
    return {Phase::update, 0};
  }
  llvm_unreachable("all kinds are handled");
}

StageTimes::StageTimes(func::FuncOp step, const StageRecord &record) {
  DenseMap<Operation *, int64_t> places;
  for (auto [i, op] : llvm::enumerate(step.getBody().front()))
    places[&op] = i;
  auto placeOf = [&](Operation *op) {
    auto it = places.find(op);
    assert(it != places.end() && "the record is of this function");
    return it->second;
  };
  std::vector<Key> keys;
  for (const RecordedPhase &phase : record.phases) {
    Key key{phase.phase, isInLoop(phase.phase) ? phase.chunk : 0};
    // The times of the first micro-batch also apply to the others.
    bool isKnown = llvm::is_contained(keys, key);
    keys.push_back(key);
    if (isKnown)
      continue;
    for (const RecordedOp &op : phase.ops) {
      auto [it, isNew] = spans.try_emplace({keys.back(), placeOf(op.op)},
                                           Span{op.begin, op.end});
      if (isNew)
        continue;
      // One op may run several times, or in two queues.
      it->second.begin = std::min(it->second.begin, op.begin);
      it->second.end = std::max(it->second.end, op.end);
    }
  }
  for (const RecordedEntry &entry : record.entries)
    begins[{keys[entry.phase], entry.microBatch}] = entry.begin;
}

double StageTimes::beginOf(const rt::PhaseName &phase,
                           int64_t microBatch) const {
  auto it = begins.find({keyOf(phase), microBatch});
  return it == begins.end() ? -1 : it->second;
}

std::optional<Span> StageTimes::spanOf(const rt::PhaseName &phase,
                                       int64_t place) const {
  auto it = spans.find({keyOf(phase), place});
  return it == spans.end() ? std::nullopt : std::optional(it->second);
}

const StageTimes &TraceOfPlan::timesOf(int64_t rank) const {
  const rt::Mesh &mesh = draft.plan.mesh;
  size_t kind =
      kindOfDataRank.empty() ? 0 : kindOfDataRank[mesh.dataRankOf(rank)];
  return kinds[kind][mesh.stageOf(rank)];
}

std::vector<int64_t> TraceOfPlan::ranksToShow() const {
  const rt::Plan &plan = draft.plan;
  std::vector<int64_t> all, firsts, shown;
  std::set<int64_t> seen;
  int64_t events = 0;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    all.push_back(rank);
    if (seen.insert(plan.mesh.stageOf(rank)).second)
      firsts.push_back(rank);
    events += rt::eventsOfStep(plan, rank);
  }
  if (events <= mostEvents)
    return all;
  // First, last, second, ...: the first and last stages differ most.
  events = 0;
  for (size_t i = 0; i < firsts.size(); ++i) {
    int64_t rank = firsts[i % 2 == 0 ? i / 2 : firsts.size() - 1 - i / 2];
    events += rt::eventsOfStep(plan, rank);
    if (i > 0 && events > mostEvents)
      break;
    shown.push_back(rank);
  }
  llvm::sort(shown);
  return shown;
}

std::string TraceOfPlan::leftOut(ArrayRef<int64_t> shown) const {
  const rt::Plan &plan = draft.plan;
  auto ranks = static_cast<int64_t>(shown.size());
  std::string most = std::to_string(mostEvents) + " events";
  std::string all = std::to_string(plan.ranks()) + " ranks";
  int64_t first = rt::eventsOfStep(plan, shown.front());
  if (ranks == 1 && first > mostEvents)
    return "holds the beginning of the step of rank " +
           std::to_string(shown.front()) +
           (plan.ranks() == 1 ? "" : ", of " + all) + ": the step has " +
           std::to_string(first) + " events, and at most " +
           std::to_string(mostEvents) + " are written";
  if (ranks == plan.ranks())
    return "";
  int64_t stages = plan.mesh.stages();
  return "holds the first rank of " +
         (ranks == stages ? "each stage"
                          : std::to_string(ranks) + " of " +
                                std::to_string(stages) + " stages") +
         ", of " + all + ": at most " + most + " are written";
}

void TraceOfPlan::addEntry(std::vector<rt::TraceLane> &lanes,
                           std::vector<double> &free, int64_t rank,
                           const rt::ScheduleEntry &entry) const {
  const rt::Plan &plan = draft.plan;
  auto phase = rt::PhaseName::parse(entry.phase, plan.mesh);
  assert(phase && "the plan is ours");
  const StageTimes &times = timesOf(rank);
  double start = times.beginOf(*phase, entry.microBatch);
  const std::vector<codegen::SourceOps> &sources =
      draft.sources.at(entry.phase);
  std::map<int64_t, int64_t> instructions, done; // by index of the op
  for (const codegen::SourceOps &source : sources)
    ++instructions[source.first];
  for (auto [instruction, source] :
       llvm::zip_equal(plan.phases.at(entry.phase), sources)) {
    auto queue = static_cast<size_t>(instruction.queue);
    double begin = std::max(free[queue], start), end = begin;
    auto span =
        source.first < 0 ? std::nullopt : times.spanOf(*phase, source.first);
    if (span) {
      if (auto last = times.spanOf(*phase, source.last))
        span->end = std::max(span->end, last->end);
      auto part = static_cast<double>(done[source.first]++);
      auto parts = static_cast<double>(instructions[source.first]);
      double seconds = (span->end - span->begin) / parts;
      begin = std::max(begin, start + span->begin + part * seconds);
      end = std::max(begin, start + span->begin + (part + 1) * seconds);
    }
    free[queue] = end;
    lanes[queue].events.push_back({&instruction, &entry, 0, begin, end});
  }
}

std::vector<rt::TraceLane> TraceOfPlan::lanesOf(int64_t rank) const {
  std::vector<rt::TraceLane> lanes;
  lanes.reserve(rt::kNumQueues);
  for (int queue = 0; queue < rt::kNumQueues; ++queue)
    lanes.push_back(
        {static_cast<int>(rank), static_cast<rt::Queue>(queue), {}});
  std::vector<double> free(rt::kNumQueues, 0);
  int64_t events = 0;
  for (const rt::ScheduleEntry &entry : draft.plan.schedule[rank]) {
    // With too many events, phases at the end of the step are missing.
    events += draft.plan.phases.at(entry.phase).size();
    if (events > mostEvents)
      break;
    addEntry(lanes, free, rank, entry);
  }
  return lanes;
}

SimulatedStep TraceOfPlan::run() const {
  std::vector<int64_t> shown = ranksToShow();
  SimulatedStep step{draft.plan, {}, leftOut(shown)};
  for (int64_t rank : shown)
    llvm::append_range(step.lanes, lanesOf(rank));
  return step;
}

/// `record` must be the record of `steps`.
static std::vector<KindTimes> timesOf(ArrayRef<func::FuncOp> steps,
                                      const StepRecord &record) {
  auto kindOf = [&](const std::vector<StageRecord> &stages) {
    KindTimes times;
    for (auto [step, stage] : llvm::zip_equal(steps, stages))
      times.emplace_back(step, stage);
    return times;
  };
  if (record.kinds.empty())
    return {kindOf(record.stages)};
  std::vector<KindTimes> kinds;
  kinds.reserve(record.kinds.size());
  for (const std::vector<StageRecord> &stages : record.kinds)
    kinds.push_back(kindOf(stages));
  return kinds;
}

std::string
simulateStep(const CompileOptions &options, ModuleOp program,
             const cost::Cluster &cluster, const LoweringSpec &spec,
             int64_t mostEvents,
             llvm::function_ref<std::string(const SimulatedStep &)> use) {
  auto lowered = lowerForStrategy(program, cluster, spec);
  if (failed(lowered))
    return "the program cannot be made";
  SmallVector<func::FuncOp> steps = findSteps(**lowered);
  StepRecord record;
  Expected<StepTime> time = estimateTime(steps, cluster, &record);
  if (!time)
    return time.message();
  std::vector<KindTimes> kinds = timesOf(steps, record);
  bool trains = static_cast<bool>(program.lookupSymbol(kTrainStepFunction));
  auto draft = codegen::buildPlan(steps, codegenOptions(options, trains));
  if (failed(draft))
    return "the plan could not be built";
  return use(
      TraceOfPlan(*draft, std::move(kinds), record.kindOfDataRank, mostEvents)
          .run());
}

std::string emitTrace(const CompileOptions &options, ModuleOp program,
                      const cost::Cluster &cluster, const LoweringSpec &spec,
                      const std::filesystem::path &path, std::string &leftOut) {
  // Browsers cannot show more events.
  constexpr int64_t kMostEvents = 200000;
  return simulateStep(options, program, cluster, spec, kMostEvents,
                      [&](const SimulatedStep &step) {
                        leftOut = step.leftOut;
                        Status written = rt::writeTrace(
                            path.string(), rt::traceEventsJson(step.lanes, 0),
                            leftOut);
                        return written.ok() ? std::string() : written.message();
                      });
}

} // namespace dpc
