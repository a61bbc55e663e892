//===- PipelineTime.cpp - The time of a pipeline --------------------------===//
#include "passes/price/PipelineParts.h"

#include "cost-model/strategy/Schedule.h"
#include "passes/local/ScheduleTable.h"
#include "passes/price/ShareTime.h"
#include "passes/price/StepQueues.h"

using namespace mlir;
using namespace dpc;
using cost::SchedulePhase;

namespace {

class Measurement {
public:
  Measurement(ArrayRef<func::FuncOp> steps, const cost::Cluster &cluster,
              const PipelineReplica *replica, StepRecord *record)
      : steps(steps), cluster(cluster), replica(replica), record(record) {}
  PipelineParts run();

private:
  ArrayRef<func::FuncOp> steps;
  const cost::Cluster &cluster;
  const PipelineReplica *replica;
  StepRecord *record;
  PipelineParts parts;
  struct Sent {
    MessageEnd end;
    CollectivePricing::Message message;
  };
  DenseMap<int64_t, Sent> sent; ///< By tag.
  DenseMap<int64_t, MessageEnd> received;

  void runStage(int64_t index);
  void runPhase(int64_t index, StepQueues &queues, ArrayRef<Operation *> ops);
  void pairMessages();
};

} // namespace

static bool meetsOtherStages(Operation *op) {
  if (isa<RecvOp>(op))
    return true;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.isOver(kPipelineAxis);
}

double &StageParts::secondsOf(Phase phase, int64_t chunk) {
  if (phase == Phase::setup)
    return setup;
  if (phase == Phase::update)
    return update;
  if (chunk >= static_cast<int64_t>(chunks.size()))
    chunks.resize(chunk + 1);
  cost::PhaseSeconds &seconds = chunks[chunk];
  return phase == Phase::forward    ? seconds.forward
         : phase == Phase::backward ? seconds.backward
                                    : seconds.weight;
}

/// Simulates one phase of one chunk, starting at time 0.
void Measurement::runPhase(int64_t index, StepQueues &queues,
                           ArrayRef<Operation *> ops) {
  StageParts &stage = parts.stages[index];
  Phase phase = phaseOf(ops.front());
  int64_t chunk = chunkOf(ops.front());
  double times = isInLoop(phase) ? parts.microBatches : 1;
  if (record) {
    std::vector<RecordedPhase> &phases = record->stages[index].phases;
    phases.emplace_back();
    phases.back().phase = phase;
    phases.back().chunk = chunk;
    queues.log = &phases.back().ops;
  }
  double alone = -1;
  for (Operation *op : ops) {
    if (alone < 0 && meetsOtherStages(op))
      alone = queues.end();
    // A phase ends when its message is complete.
    if (isa<SendOp>(op))
      queues.wait(op->getOperand(0));
    MessageEnd end{index, phase, chunk, queues.computeEnd()};
    if (auto send = dyn_cast<SendOp>(op)) {
      end.at = queues.end();
      sent[send.getTag()] = {end, queues.pricing.messageOf(send)};
    } else if (auto recv = dyn_cast<RecvOp>(op)) {
      received[recv.getTag()] = end;
    }
    if (record && isa<SendOp, RecvOp>(op))
      queues.log->push_back(
          {op, StepQueue::communication, end.at, end.at, 0, {}});
    queues.run(op, times);
  }
  bool isLast = phase == Phase::setup || phase == Phase::update;
  if (isLast)
    queues.drain();
  stage.secondsOf(phase, chunk) = queues.computeEnd();
  if (phase == Phase::update)
    stage.updateAlone = alone < 0 ? stage.update : alone;
  queues.rebase();
}

void Measurement::runStage(int64_t index) {
  StepQueues queues =
      replica ? StepQueues(steps[index], cluster,
                           cluster.groups[replica->groups[index]].device)
              : StepQueues(steps[index], cluster);
  SmallVector<Operation *> phase;
  std::pair<Phase, int64_t> current;
  auto runOf = [](Operation *op) {
    return std::pair(phaseOf(op), chunkOf(op));
  };
  for (Operation *op : opsInOrder(steps[index])) {
    if (!phase.empty() && runOf(op) != current) {
      runPhase(index, queues, phase);
      phase.clear();
    }
    current = runOf(op);
    phase.push_back(op);
  }
  if (!phase.empty())
    runPhase(index, queues, phase);
  StageParts &stage = parts.stages[index];
  stage.computeSeconds = queues.computeSeconds;
  stage.transferSeconds = queues.transferSeconds;
  stage.bytesPerLevel = queues.bytesPerLevel;
  stage.traffic = std::move(queues.traffic);
}

void Measurement::pairMessages() {
  SmallVector<int64_t> tags(llvm::make_first_range(sent));
  llvm::sort(tags);
  for (int64_t tag : tags) // dpc-verify-local reports broken pairs
    if (auto to = received.find(tag); to != received.end())
      parts.messages.push_back({sent[tag].end, to->second,
                                sent[tag].message.bytes,
                                sent[tag].message.gather.seconds, tag});
}

PipelineParts Measurement::run() {
  parts.stages.resize(steps.size());
  parts.microBatches =
      replica ? replica->microBatches : microBatchesOf(steps.front());
  parts.order = rankOrderOf(steps.front());
  for (int64_t i = 0, e = steps.size(); i < e; ++i)
    runStage(i);
  pairMessages();
  return std::move(parts);
}

PipelineParts dpc::measurePipeline(ArrayRef<func::FuncOp> steps,
                                   const cost::Cluster &cluster,
                                   const PipelineReplica *replica,
                                   StepRecord *record) {
  return Measurement(steps, cluster, replica, record).run();
}

namespace {

class Pipeline : PipelineParts {
public:
  Pipeline(PipelineParts parts, const ScheduleTables &tables,
           const cost::Cluster &cluster, StepRecord *record)
      : PipelineParts(std::move(parts)), tables(tables), cluster(cluster),
        record(record) {}
  Expected<StepTime> run();

private:
  const ScheduleTables &tables;
  const cost::Cluster &cluster;
  StepRecord *record;
  std::map<std::pair<int64_t, int64_t>, std::vector<cost::GroupPlacement>>
      pairs;
  std::map<int64_t, RecordedOp> wires; ///< Messages by tag, for `record`.
  TrafficSums sentMessages;
  std::map<int64_t, double> updateWire; ///< Seconds of messages, by sender.

  int64_t numStages() const { return stages.size(); }
  double turns() const {
    return cluster.groups.size() == 1
               ? cluster.groups.front().device.ranksPerCore
               : 1;
  }
  int64_t virtualStage(const MessageEnd &end) const {
    return end.chunk * numStages() + end.stage;
  }
  ArrayRef<cost::GroupPlacement> pairsOf(int64_t from, int64_t to);
  double messageSeconds(const StageMessage &message);
  cost::ScheduleCosts scheduleCosts();
  /// How the stages wait for each other in the update.
  struct Meeting {
    double at = 0;   ///< The time after which no stage waits.
    double rest = 0; ///< The longest part of an update after the wait.
    double end = 0;  ///< The end of the last update if no stage waited.
    bool waits = false;
  };
  double updateStart(const cost::ScheduleTimeline &timeline, size_t i) const;
  Meeting meetingOf(const cost::ScheduleTimeline &timeline) const;
  void recordStage(const cost::ScheduleTimeline &timeline, size_t i);
  double savedSeconds(const cost::ScheduleTimeline &timeline, size_t i);
  StepTime sumUp(const cost::ScheduleTimeline &timeline);
};

} // namespace

static SchedulePhase schedulePhase(Phase phase) {
  assert(isInLoop(phase) && "tables have no entries for setup and update");
  return phase == Phase::forward    ? SchedulePhase::Forward
         : phase == Phase::backward ? SchedulePhase::Backward
                                    : SchedulePhase::Weight;
}

/// Returns the different links between ranks of `from` and peers in `to`.
ArrayRef<cost::GroupPlacement> Pipeline::pairsOf(int64_t from, int64_t to) {
  auto [it, isNew] = pairs.try_emplace({from, to});
  if (!isNew)
    return it->second;
  int64_t ranks = 1;
  for (const cost::RankAxis &axis : order)
    ranks *= axis.size;
  // Each stage has `stride` adjacent ranks out of every `period` devices.
  int64_t stride = cost::strideOf(order, kPipelineAxis);
  int64_t period = stride * numStages();
  // If `stride` ranks fill whole groups of every inner level, every pair
  // communicates over the outermost level, so one pair is enough.
  bool isEven = llvm::all_of(
      llvm::drop_end(cluster.levels),
      [&](const cost::Level &level) { return stride % level.span == 0; });
  for (int64_t first = 0; first < (isEven ? 1 : ranks); first += period)
    for (int64_t r = first; r < first + (isEven ? 1 : stride); ++r) {
      cost::GroupPlacement pair =
          cost::placePair(cluster, from * stride + r, to * stride + r);
      if (llvm::none_of(it->second, [&](const cost::GroupPlacement &other) {
            return other.ranksPerLevel == pair.ranksPerLevel;
          }))
        it->second.push_back(std::move(pair));
    }
  return it->second;
}

/// Returns the seconds of a message and its all_gather. Adds the bytes of the
/// message to the bytes that the sending stage sends.
double Pipeline::messageSeconds(const StageMessage &message) {
  const MessageEnd &from = message.from;
  cost::CollectiveEstimate estimate;
  for (const cost::GroupPlacement &pair :
       pairsOf(from.stage, message.to.stage)) {
    cost::CollectiveEstimate other = cost::estimateCollective(
        cluster, cost::Collective::SendRecv, message.bytes, pair);
    if (estimate.bytesPerLevel.empty() || other.seconds > estimate.seconds)
      estimate = std::move(other); // the worst link
  }
  double times = isInLoop(from.phase) ? microBatches : 1;
  for (auto [total, bytes] :
       llvm::zip(stages[from.stage].bytesPerLevel, estimate.bytesPerLevel))
    total += bytes * times;
  sentMessages[{
      cost::Collective::SendRecv, {kPipelineAxis.str()}, message.bytes}] +=
      times;
  double wire = estimate.seconds + message.gatherSeconds;
  if (record)
    wires[message.tag] = {
        nullptr,       StepQueue::communication,         0, wire,
        message.bytes, std::move(estimate.bytesPerLevel)};
  return wire;
}

cost::ScheduleCosts Pipeline::scheduleCosts() {
  size_t chunks = 1;
  for (const StageParts &stage : stages)
    chunks = std::max(chunks, stage.chunks.size());
  for (const std::vector<cost::ScheduleStep> &table : tables)
    for (const cost::ScheduleStep &entry : table)
      chunks = std::max<size_t>(chunks, entry.chunk + 1);
  cost::ScheduleCosts costs;
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    for (StageParts &stage : stages) {
      stage.chunks.resize(chunks);
      costs.virtualStages.push_back(stage.chunks[chunk]);
    }
  for (const StageParts &stage : stages)
    costs.firstStarts.push_back(stage.setup);
  costs.turns = turns();
  for (const StageMessage &message : messages) {
    const MessageEnd &from = message.from, &to = message.to;
    double wire = messageSeconds(message);
    if (isInLoop(from.phase) && isInLoop(to.phase)) {
      if (!cluster.software.overlap) {
        // Without overlap, the sender and the receiver wait for the transfer.
        stages[from.stage].secondsOf(from.phase, from.chunk) += wire;
        stages[to.stage].secondsOf(to.phase, to.chunk) += wire;
      }
      double all = stages[from.stage].secondsOf(from.phase, from.chunk);
      costs.transfers.push_back({schedulePhase(from.phase), virtualStage(from),
                                 schedulePhase(to.phase), virtualStage(to),
                                 from.at - all + wire - to.at});
    } else if (from.phase == Phase::setup) {
      double arrival = from.at + wire;
      costs.firstStarts[to.stage] =
          std::max(costs.firstStarts[to.stage], arrival);
    } else {
      updateWire[from.stage] += wire;
    }
  }
  return costs;
}

double Pipeline::updateStart(const cost::ScheduleTimeline &timeline,
                             size_t i) const {
  const std::vector<double> &ends = timeline.ends[i];
  return ends.empty() ? stages[i].setup : ends.back();
}

/// Each stage runs its update alone until its first op that waits for other
/// stages. When all stages have reached this op and the last message has
/// arrived, they continue together.
Pipeline::Meeting
Pipeline::meetingOf(const cost::ScheduleTimeline &timeline) const {
  Meeting meeting;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    double start = updateStart(timeline, i);
    if (stage.update > stage.updateAlone)
      meeting.at = std::max(meeting.at, start + stage.updateAlone);
    meeting.rest = std::max(meeting.rest, stage.update - stage.updateAlone);
    meeting.end = std::max(meeting.end, start + stage.update);
  }
  double wire = 0;
  for (auto [stage, seconds] : updateWire)
    wire = std::max(wire, seconds);
  meeting.at += wire;
  meeting.waits = meeting.rest > 0 || wire > 0;
  return meeting;
}

static Phase stepPhase(SchedulePhase phase) {
  return phase == SchedulePhase::Forward    ? Phase::forward
         : phase == SchedulePhase::Backward ? Phase::backward
                                            : Phase::weight;
}

void Pipeline::recordStage(const cost::ScheduleTimeline &timeline, size_t i) {
  StageRecord &stage = record->stages[i];
  std::map<std::pair<Phase, int64_t>, size_t> numbers;
  for (auto [number, phase] : llvm::enumerate(stage.phases)) {
    bool isInTable = isInLoop(phase.phase);
    numbers[{phase.phase, isInTable ? phase.chunk : 0}] = number;
    phase.seconds = stages[i].secondsOf(phase.phase, phase.chunk);
    for (RecordedOp &op : phase.ops)
      if (auto send = dyn_cast<SendOp>(op.op))
        if (auto wire = wires.find(send.getTag()); wire != wires.end()) {
          op.end = op.begin + wire->second.end;
          op.bytes = wire->second.bytes;
          op.bytesPerLevel = wire->second.bytesPerLevel;
        }
  }
  auto add = [&](Phase phase, int64_t chunk, int64_t microBatch, double begin) {
    auto it = numbers.find({phase, chunk});
    if (it == numbers.end())
      return false; // The phase has no ops.
    stage.entries.push_back({it->second, microBatch, begin});
    return true;
  };
  add(Phase::setup, 0, 0, 0);
  for (auto [entry, start, end] :
       llvm::zip_equal(tables[i], timeline.starts[i], timeline.ends[i])) {
    Phase phase = stepPhase(entry.phase);
    bool isAdded = add(phase, entry.chunk, entry.microBatch, start);
    double beside = stages[i].secondsOf(phase, entry.chunk);
    if (isAdded && turns() > 1 && end - start < beside)
      stage.makeFaster(stage.entries.back(), beside / (end - start));
  }
  double start = updateStart(timeline, i);
  add(Phase::update, 0, 0, start);
  Meeting meeting = meetingOf(timeline);
  double alone = stages[i].updateAlone;
  double late = meeting.at - (start + alone);
  auto update = numbers.find({Phase::update, 0});
  if (!meeting.waits || late <= 0 || stages[i].update <= alone ||
      update == numbers.end())
    return;
  RecordedPhase &phase = stage.phases[update->second];
  phase.seconds += late;
  phase.waitBegin = alone;
  phase.waitEnd = alone + late;
  for (RecordedOp &op : phase.ops)
    if (op.begin >= alone) {
      op.begin += late;
      op.end += late;
    }
}

/// If several ranks share a core, a rank runs faster while the others are idle.
/// Returns the seconds that stage `i` saves in this way.
double Pipeline::savedSeconds(const cost::ScheduleTimeline &timeline,
                              size_t i) {
  double beside = 0;
  for (const cost::ScheduleStep &entry : tables[i])
    beside += stages[i].secondsOf(stepPhase(entry.phase), entry.chunk);
  return std::max(0.0, beside - timeline.busySeconds[i]);
}

StepTime Pipeline::sumUp(const cost::ScheduleTimeline &timeline) {
  StepTime result;
  Meeting meeting = meetingOf(timeline);
  double end = meeting.waits ? std::max(meeting.end, meeting.at + meeting.rest)
                             : meeting.end;
  result.seconds = end + cluster.software.hostStepSeconds;
  result.bytesPerLevel.assign(cluster.levels.size(), 0);
  double idleOfAll = 0;
  for (auto [i, stage] : llvm::enumerate(stages)) {
    StageTime time;
    for (const cost::PhaseSeconds &chunk : stage.chunks) {
      time.forwardSeconds += chunk.forward;
      time.backwardSeconds += chunk.backward;
      time.weightSeconds += chunk.weight;
    }
    // The stage is idle before, between and after its phases, and while its
    // update waits for other stages.
    time.idleSeconds = std::max(0.0, end - stage.setup - stage.update -
                                         timeline.busySeconds[i]);
    idleOfAll += time.idleSeconds;
    double compute =
        std::max(0.0, stage.computeSeconds - savedSeconds(timeline, i));
    result.transferSeconds =
        std::max(result.transferSeconds, stage.transferSeconds);
    if (compute > result.computeSeconds) {
      result.computeSeconds = compute;
      result.exposedCommunicationSeconds =
          std::max(0.0, result.seconds - compute - time.idleSeconds);
    }
    for (auto [most, bytes] :
         llvm::zip(result.bytesPerLevel, stage.bytesPerLevel))
      most = std::max(most, bytes);
    addTraffic(result.traffic, stage.traffic);
    result.stages.push_back(time);
  }
  addTraffic(result.traffic, sentMessages);
  if (result.seconds > 0)
    result.bubbleFraction = idleOfAll / (result.seconds * numStages());
  return result;
}

Expected<StepTime> Pipeline::run() {
  cost::ScheduleCosts costs = scheduleCosts();
  Expected<cost::ScheduleTimeline> timeline =
      cost::simulateSchedule(tables, costs);
  if (!timeline)
    return Error{timeline.message()};
  for (size_t i = 0; record && i < stages.size(); ++i)
    recordStage(*timeline, i);
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

Expected<StepTime> dpc::runPipeline(PipelineParts parts,
                                    const ScheduleTables &tables,
                                    const cost::Cluster &cluster,
                                    StepRecord *record) {
  return Pipeline(std::move(parts), tables, cluster, record).run();
}

static std::vector<PipelineReplica> replicasOf(ArrayRef<func::FuncOp> steps,
                                               const cost::Cluster &cluster,
                                               ArrayRef<int64_t> shares) {
  std::vector<PipelineReplica> all;
  for (int64_t share : shares)
    all.push_back({share, {}});
  cost::RankOrder order = rankOrderOf(steps.front());
  for (int64_t stage = 0, e = steps.size(); stage < e; ++stage)
    for (auto [replica, own] :
         llvm::zip_equal(all, cost::devicesOfDataRanks(cluster, order, stage,
                                                       cost::DType::F32)))
      replica.groups.push_back(own.group);
  return all;
}

/// Returns the time of the slowest replica, for which the other replicas wait.
static Expected<StepTime> estimateReplicas(ArrayRef<func::FuncOp> steps,
                                           const ScheduleTables &tables,
                                           const cost::Cluster &cluster,
                                           ArrayRef<int64_t> shares,
                                           StepRecord *record) {
  Expected<StepTime> slowest = StepTime();
  std::vector<PipelineReplica> kinds;
  for (const PipelineReplica &replica : replicasOf(steps, cluster, shares)) {
    auto kind = llvm::find(kinds, replica);
    if (record)
      record->kindOfDataRank.push_back(kind - kinds.begin());
    if (kind != kinds.end())
      continue;
    kinds.push_back(replica);
    ScheduleTables own = tables;
    for (std::vector<cost::ScheduleStep> &table : own)
      llvm::erase_if(table, [&](const cost::ScheduleStep &entry) {
        return entry.microBatch >= replica.microBatches;
      });
    StepRecord recorded;
    recorded.stages.resize(steps.size());
    StepRecord *its = record ? &recorded : nullptr;
    auto time = runPipeline(measurePipeline(steps, cluster, &replica, its), own,
                            cluster, its);
    if (record)
      record->kinds.push_back(recorded.stages);
    if (!time)
      return time;
    if (time->seconds > slowest->seconds) {
      slowest = std::move(time);
      if (record)
        record->stages = std::move(recorded.stages);
    }
  }
  if (record)
    record->meet();
  return slowest;
}

Expected<StepTime> dpc::estimatePipeline(ArrayRef<func::FuncOp> steps,
                                         const cost::Cluster &cluster,
                                         StepRecord *record) {
  ScheduleTables tables;
  for (func::FuncOp step : steps)
    tables.push_back(scheduleOf(step));
  std::vector<int64_t> shares = sharesOf(steps.front());
  if (!shares.empty())
    return estimateReplicas(steps, tables, cluster, shares, record);
  return runPipeline(measurePipeline(steps, cluster, nullptr, record), tables,
                     cluster, record);
}
