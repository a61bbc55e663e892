//===- EmitTrace.cpp - The simulated step as a trace ----------------------===//
#include "tools/dpc-opt/EmitTrace.h"

#include "codegen/Codegen.h"
#include "passes/graph/Passes.h"
#include "passes/search/StepRecord.h"
#include "passes/shard/Passes.h"
#include "runtime/exec/Trace.h"
#include "tools/dpc-opt/BuildPlan.h"

using namespace mlir;

namespace dpc {

namespace {

/// Seconds since the phase began.
struct Span {
  double begin = 0, end = 0;
};

/// What a stage's instructions and phases take.
class StageTimes {
public:
  StageTimes(func::FuncOp step, const StageRecord &record);
  /// When a phase begins for a micro-batch; -1 where it never does.
  double beginOf(const rt::PhaseName &phase, int64_t microBatch) const;
  /// Of the op at `place` of the step function, or nothing.
  std::optional<Span> spanOf(const rt::PhaseName &phase, int64_t place) const;

private:
  using Key = std::pair<StepPhase, int64_t>; ///< Phase and chunk.
  static Key keyOf(const rt::PhaseName &phase);
  std::map<std::pair<Key, int64_t>, double> begins; ///< With the micro-batch.
  std::map<std::pair<Key, int64_t>, Span> spans;    ///< With the place.
};

/// Makes the lanes of one rank after the other.
class TraceOfPlan {
public:
  TraceOfPlan(const codegen::PlanDraft &draft, ArrayRef<func::FuncOp> steps,
              const StepRecord &record);
  /// Of all ranks; past `mostEvents` of the first of each stage.
  std::vector<rt::TraceLane> lanes(int64_t mostEvents) const;

private:
  const codegen::PlanDraft &draft;
  std::vector<StageTimes> stages;

  std::vector<int64_t> ranksToShow(int64_t mostEvents) const;
  std::vector<rt::TraceLane> lanesOf(int64_t rank) const;
  void addEntry(std::vector<rt::TraceLane> &lanes, std::vector<double> &free,
                int64_t rank, const rt::ScheduleEntry &entry) const;
};

} // namespace

StageTimes::Key StageTimes::keyOf(const rt::PhaseName &phase) {
  switch (phase.kind) {
  case rt::PhaseKind::Setup:
    return {StepPhase::setup, 0};
  case rt::PhaseKind::Forward:
    return {StepPhase::forward, phase.chunk};
  case rt::PhaseKind::Backward:
    return {StepPhase::backward, phase.chunk};
  case rt::PhaseKind::Weight:
    return {StepPhase::weight, phase.chunk};
  case rt::PhaseKind::Update:
    return {StepPhase::update, 0};
  }
  llvm_unreachable("all kinds are handled");
}

StageTimes::StageTimes(func::FuncOp step, const StageRecord &record) {
  DenseMap<Operation *, int64_t> places;
  for (auto [i, op] : llvm::enumerate(step.getBody().front()))
    places[&op] = i;
  std::vector<Key> keys;
  for (const RecordedPhase &phase : record.phases) {
    keys.push_back({phase.phase, isInLoop(phase.phase) ? phase.chunk : 0});
    for (const RecordedOp &op : phase.ops) {
      auto [it, isNew] = spans.try_emplace({keys.back(), places.lookup(op.op)},
                                           Span{op.begin, op.end});
      if (!isNew) // once more
        it->second.end = op.end;
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

TraceOfPlan::TraceOfPlan(const codegen::PlanDraft &draft,
                         ArrayRef<func::FuncOp> steps, const StepRecord &record)
    : draft(draft) {
  for (auto [step, stage] : llvm::zip_equal(steps, record.stages))
    stages.emplace_back(step, stage);
}

std::vector<int64_t> TraceOfPlan::ranksToShow(int64_t mostEvents) const {
  const rt::Plan &plan = draft.plan;
  std::vector<int64_t> all, firsts;
  std::set<int64_t> seen;
  int64_t events = 0;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    all.push_back(rank);
    if (seen.insert(plan.mesh.stageOf(rank)).second)
      firsts.push_back(rank);
    for (const rt::ScheduleEntry &entry : plan.schedule[rank])
      events += plan.phases.at(entry.phase).size();
  }
  return events <= mostEvents ? all : firsts;
}

/// Adds the events of one entry; `free` says when each queue's last one ends.
void TraceOfPlan::addEntry(std::vector<rt::TraceLane> &lanes,
                           std::vector<double> &free, int64_t rank,
                           const rt::ScheduleEntry &entry) const {
  const rt::Plan &plan = draft.plan;
  auto phase = rt::PhaseName::parse(entry.phase, plan.mesh);
  assert(phase && "the plan is ours");
  const StageTimes &times = stages[plan.mesh.stageOf(rank)];
  double start = times.beginOf(*phase, entry.microBatch);
  const std::vector<int64_t> &sources = draft.sources.at(entry.phase);
  std::map<int64_t, int64_t> instructions, done; // by op
  for (int64_t source : sources)
    ++instructions[source];
  for (auto [instruction, source] :
       llvm::zip_equal(plan.phases.at(entry.phase), sources)) {
    auto queue = static_cast<size_t>(instruction.queue);
    double begin = std::max(free[queue], start), end = begin;
    if (auto span = source < 0 ? std::nullopt : times.spanOf(*phase, source)) {
      auto part = static_cast<double>(done[source]++);
      auto parts = static_cast<double>(instructions[source]);
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
  for (const rt::ScheduleEntry &entry : draft.plan.schedule[rank])
    addEntry(lanes, free, rank, entry);
  return lanes;
}

std::vector<rt::TraceLane> TraceOfPlan::lanes(int64_t mostEvents) const {
  std::vector<rt::TraceLane> all;
  for (int64_t rank : ranksToShow(mostEvents))
    llvm::append_range(all, lanesOf(rank));
  return all;
}

std::string
simulateStep(const CompileOptions &options, ModuleOp program,
             const cost::Cluster &cluster, const ShardDegrees &degrees,
             int64_t mostEvents,
             llvm::function_ref<std::string(const rt::Plan &,
                                            const std::vector<rt::TraceLane> &)>
                 use) {
  auto lowered = lowerForStrategy(program, cluster, degrees);
  if (failed(lowered))
    return "the program cannot be made";
  SmallVector<func::FuncOp> steps = findSteps(**lowered);
  StepRecord record;
  cost::Result<StepTime> time = estimateTime(steps, cluster, &record);
  if (!time)
    return time.error();
  bool trains = static_cast<bool>(program.lookupSymbol(kTrainStepFunction));
  auto draft = codegen::buildPlan(steps, codegenOptions(options, trains));
  if (failed(draft))
    return "the plan could not be built";
  return use(draft->plan, TraceOfPlan(*draft, steps, record).lanes(mostEvents));
}

std::string emitTrace(const CompileOptions &options, ModuleOp program,
                      const cost::Cluster &cluster, const ShardDegrees &degrees,
                      const std::filesystem::path &path) {
  // More is too much for a browser to load.
  constexpr int64_t kMostEvents = 200000;
  return simulateStep(
      options, program, cluster, degrees, kMostEvents,
      [&](const rt::Plan &, const std::vector<rt::TraceLane> &lanes) {
        rt::Status written =
            rt::writeTrace(path.string(), rt::traceEventsJson(lanes, 0));
        return written.ok() ? std::string() : written.message();
      });
}

} // namespace dpc
