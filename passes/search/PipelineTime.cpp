//===- PipelineTime.cpp - A step of several stages ------------------------===//
#include "cost-model/Schedule.h"
#include "passes/local/ScheduleTable.h"
#include "passes/search/StepQueues.h"

using namespace mlir;
using namespace dpc;
using cost::SchedulePhase;

namespace {

/// One end of a message: where in its stage it is sent or needed.
struct MessageEnd {
  Operation *op = nullptr;
  int64_t stage = 0;
  StepPhase phase = StepPhase::forward;
  int64_t chunk = 0;
  double at = 0; ///< Since the start of the phase.
};

/// What a rank stage does, phase by phase.
struct Stage {
  explicit Stage(StepQueues queues) : queues(std::move(queues)) {}
  StepQueues queues;
  double setup = 0, update = 0;
  /// In update, when the first op that waits for other stages begins; or all of
  /// update.
  double updateAlone = 0;
  /// By chunk.
  std::vector<cost::PhaseSeconds> chunks;
};

/// See StepEstimate.h.
class Pipeline {
public:
  Pipeline(ArrayRef<func::FuncOp> steps, const cost::Cluster &cluster)
      : steps(steps), cluster(cluster) {}
  cost::Result<StepTime> run();

private:
  ArrayRef<func::FuncOp> steps;
  const cost::Cluster &cluster;
  std::vector<Stage> stages;
  std::vector<std::vector<cost::ScheduleStep>> tables;
  DenseMap<int64_t, MessageEnd> sent, received; ///< By tag.
  DenseMap<std::pair<int64_t, int64_t>, cost::GroupPlacement> pairs;

  int64_t numStages() const { return steps.size(); }
  int64_t virtualStage(const MessageEnd &end) const {
    return end.chunk * numStages() + end.stage;
  }
  void runStage(int64_t index);
  void runPhase(int64_t index, ArrayRef<Operation *> ops);
  double &secondsOf(int64_t index, StepPhase phase, int64_t chunk);
  const cost::GroupPlacement &pairOf(int64_t from, int64_t to);
  double messageSeconds(const MessageEnd &from, const MessageEnd &to);
  cost::ScheduleCosts scheduleCosts();
  double updateEnd(const cost::ScheduleTimeline &timeline) const;
  StepTime sumUp(const cost::ScheduleTimeline &timeline);
};

} // namespace

static SchedulePhase schedulePhase(StepPhase phase) {
  assert(isInLoop(phase) && "setup and update have no place in tables");
  return phase == StepPhase::forward    ? SchedulePhase::Forward
         : phase == StepPhase::backward ? SchedulePhase::Backward
                                        : SchedulePhase::Weight;
}

/// Whether `op` waits for other stages.
static bool meetsOtherStages(Operation *op) {
  if (isa<RecvOp>(op))
    return true;
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  return axes && isCommunication(op) &&
         llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr name) {
           return name.getValue() == kPipelineAxis;
         });
}

double &Pipeline::secondsOf(int64_t index, StepPhase phase, int64_t chunk) {
  Stage &stage = stages[index];
  if (phase == StepPhase::setup)
    return stage.setup;
  if (phase == StepPhase::update)
    return stage.update;
  if (chunk >= static_cast<int64_t>(stage.chunks.size()))
    stage.chunks.resize(chunk + 1);
  cost::PhaseSeconds &seconds = stage.chunks[chunk];
  return phase == StepPhase::forward    ? seconds.forward
         : phase == StepPhase::backward ? seconds.backward
                                        : seconds.weight;
}

/// Runs the ops of one phase of one chunk from time 0.
void Pipeline::runPhase(int64_t index, ArrayRef<Operation *> ops) {
  Stage &stage = stages[index];
  StepQueues &queues = stage.queues;
  StepPhase phase = phaseOf(ops.front());
  int64_t chunk = chunkOf(ops.front());
  double times = isInLoop(phase) ? microBatchesOf(steps[index]) : 1;
  double alone = -1;
  for (Operation *op : ops) {
    if (alone < 0 && meetsOtherStages(op))
      alone = queues.end();
    MessageEnd end{op, index, phase, chunk, queues.computeEnd()};
    if (auto send = dyn_cast<SendOp>(op)) {
      end.at = queues.end();
      sent[send.getTag()] = end;
    } else if (auto recv = dyn_cast<RecvOp>(op)) {
      received[recv.getTag()] = end;
    }
    queues.run(op, times);
  }
  bool isLast = phase == StepPhase::setup || phase == StepPhase::update;
  secondsOf(index, phase, chunk) = isLast ? queues.end() : queues.computeEnd();
  if (phase == StepPhase::update)
    stage.updateAlone = alone < 0 ? stage.update : alone;
  queues.rebase();
}

void Pipeline::runStage(int64_t index) {
  stages.emplace_back(StepQueues(steps[index], cluster));
  SmallVector<Operation *> phase;
  auto isSame = [&](Operation *op) {
    return phaseOf(op) == phaseOf(phase.front()) &&
           chunkOf(op) == chunkOf(phase.front());
  };
  for (Operation *op : opsInOrder(steps[index])) {
    if (!phase.empty() && !isSame(op)) {
      runPhase(index, phase);
      phase.clear();
    }
    phase.push_back(op);
  }
  if (!phase.empty())
    runPhase(index, phase);
  tables.push_back(scheduleOf(steps[index]));
  for (const cost::ScheduleStep &entry : tables.back())
    secondsOf(index, StepPhase::forward, entry.chunk);
}

/// The worst link between a rank of one stage and its peer in another.
const cost::GroupPlacement &Pipeline::pairOf(int64_t from, int64_t to) {
  auto [it, isNew] = pairs.try_emplace({from, to});
  if (!isNew)
    return it->second;
  MeshAttr mesh = stages[from].queues.meshOfStep();
  int64_t ranks = 1; // of one stage: pp is the outermost axis
  for (auto [name, size] : llvm::zip_equal(mesh.getNames(), mesh.getSizes()))
    if (name.getValue() != kMicroBatchAxis && name.getValue() != kPipelineAxis)
      ranks *= size;
  double slowest = -1;
  for (int64_t r = 0; r < ranks; ++r) {
    cost::GroupPlacement pair =
        cost::placePair(cluster, from * ranks + r, to * ranks + r);
    constexpr double kProbeBytes = 1 << 20;
    double seconds = cost::estimateCollective(
                         cluster, cost::Collective::SendRecv, kProbeBytes, pair)
                         .seconds;
    if (seconds > slowest) {
      slowest = seconds;
      it->second = pair;
    }
  }
  return it->second;
}

/// Seconds on the wire; counts the bytes for the sender.
double Pipeline::messageSeconds(const MessageEnd &from, const MessageEnd &to) {
  Value value = cast<SendOp>(from.op).getValue();
  cost::CollectiveEstimate estimate = cost::estimateCollective(
      cluster, cost::Collective::SendRecv,
      sizeInBytes(cast<RankedTensorType>(value.getType())),
      pairOf(from.stage, to.stage));
  double times = isInLoop(from.phase) ? microBatchesOf(steps[from.stage]) : 1;
  stages[from.stage].queues.addBytes(estimate, times);
  return estimate.seconds;
}

cost::ScheduleCosts Pipeline::scheduleCosts() {
  size_t chunks = 1;
  for (const Stage &stage : stages)
    chunks = std::max(chunks, stage.chunks.size());
  cost::ScheduleCosts costs;
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    for (Stage &stage : stages) {
      stage.chunks.resize(chunks);
      costs.virtualStages.push_back(stage.chunks[chunk]);
    }
  for (const Stage &stage : stages)
    costs.firstStarts.push_back(stage.setup);
  SmallVector<int64_t> tags(llvm::make_first_range(sent));
  llvm::sort(tags);
  for (int64_t tag : tags) {
    if (!received.contains(tag))
      continue; // a broken pair is dpc-verify-local's to report
    const MessageEnd &from = sent[tag], &to = received[tag];
    double wire = messageSeconds(from, to);
    if (isInLoop(from.phase) && isInLoop(to.phase)) {
      double all = secondsOf(from.stage, from.phase, from.chunk);
      costs.transfers.push_back({schedulePhase(from.phase), virtualStage(from),
                                 schedulePhase(to.phase), virtualStage(to),
                                 from.at - all + wire - to.at});
    } else if (from.phase == StepPhase::setup) {
      double arrival = from.at + wire;
      costs.firstStarts[to.stage] =
          std::max(costs.firstStarts[to.stage], arrival);
    }
  }
  return costs;
}

/// When the last stage has updated. Stages run alone until the first op that
/// waits for others; then all go on together.
double Pipeline::updateEnd(const cost::ScheduleTimeline &timeline) const {
  double meeting = 0, rest = 0, end = 0;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    const std::vector<double> &ends = timeline.ends[i];
    double start = ends.empty() ? stage.setup : ends.back();
    meeting = std::max(meeting, start + stage.updateAlone);
    rest = std::max(rest, stage.update - stage.updateAlone);
    end = std::max(end, start + stage.update);
  }
  return rest > 0 ? std::max(end, meeting + rest) : end;
}

StepTime Pipeline::sumUp(const cost::ScheduleTimeline &timeline) {
  StepTime result;
  result.seconds = updateEnd(timeline);
  result.bytesPerLevel.assign(cluster.levels.size(), 0);
  double idleOfAll = 0;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    StageTime time;
    for (const cost::PhaseSeconds &chunk : stage.chunks) {
      time.forwardSeconds += chunk.forward;
      time.backwardSeconds += chunk.backward;
      time.weightSeconds += chunk.weight;
    }
    time.idleSeconds = std::max(0.0, timeline.makespan - stage.setup -
                                         timeline.busySeconds[i]);
    idleOfAll += time.idleSeconds;
    double compute = stage.queues.computeSeconds;
    result.transferSeconds =
        std::max(result.transferSeconds, stage.queues.transferSeconds);
    if (compute > result.computeSeconds) {
      result.computeSeconds = compute;
      result.exposedCommunicationSeconds =
          std::max(0.0, result.seconds - compute - time.idleSeconds);
    }
    for (auto [most, bytes] :
         llvm::zip(result.bytesPerLevel, stage.queues.bytesPerLevel))
      most = std::max(most, bytes);
    result.stages.push_back(time);
  }
  if (result.seconds > 0)
    result.bubbleFraction = idleOfAll / (result.seconds * numStages());
  return result;
}

cost::Result<StepTime> Pipeline::run() {
  stages.reserve(steps.size());
  for (int64_t i = 0; i < numStages(); ++i)
    runStage(i);
  cost::ScheduleCosts costs = scheduleCosts();
  cost::Result<cost::ScheduleTimeline> timeline =
      cost::simulateSchedule(tables, costs);
  if (!timeline)
    return cost::Error{timeline.error()};
  return sumUp(*timeline);
}

std::vector<cost::ScheduleStep> dpc::scheduleOf(func::FuncOp step) {
  std::vector<cost::ScheduleStep> table = tableOf(step);
  if (!table.empty())
    return table;
  for (int64_t i = 0; i < microBatchesOf(step); ++i)
    for (SchedulePhase phase :
         {SchedulePhase::Forward, SchedulePhase::Backward})
      table.push_back({phase, 0, i});
  return table;
}

cost::Result<StepTime> dpc::estimatePipeline(ArrayRef<func::FuncOp> steps,
                                             const cost::Cluster &cluster) {
  return Pipeline(steps, cluster).run();
}
