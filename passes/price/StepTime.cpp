//===- StepTime.cpp - Simulation of the queues of a step ------------------===//
#include "cost-model/machine/HeterogeneousCluster.h"
#include "ir/GemmEpilogues.h"
#include "ir/StepBuffers.h"
#include "ir/TensorUtils.h"
#include "passes/cost/OpTime.h"
#include "passes/local/Passes.h"
#include "passes/local/ScheduleTable.h"
#include "passes/price/ShareTime.h"
#include "passes/price/StepQueues.h"

using namespace mlir;
using namespace dpc;

SmallVector<Operation *> dpc::opsInOrder(func::FuncOp step) {
  constexpr int kPhases = static_cast<int>(Phase::update) + 1;
  std::array<SmallVector<Operation *>, kPhases> byPhase;
  for (Operation &op : step.getBody().front().without_terminator())
    byPhase[static_cast<int>(phaseOf(&op))].push_back(&op);
  SmallVector<Operation *> ops;
  for (const SmallVector<Operation *> &phase : byPhase)
    llvm::append_range(ops, phase);
  return ops;
}

void dpc::addTraffic(TrafficSums &sums, const TrafficSums &more, double times) {
  for (const auto &[what, count] : more)
    sums[what] += count * times;
}

int64_t dpc::microBatchesOf(func::FuncOp step) {
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  return mesh ? mesh.axisSize(kMicroBatchAxis) : 1;
}

bool dpc::isTransfer(Operation *op) { return isa<FetchOp, StoreOp>(op); }

static const cost::Device &deviceOf(func::FuncOp step,
                                    const cost::RankOrder &order,
                                    const cost::Cluster &cluster) {
  if (!cost::isHeterogeneous(cluster))
    return cluster.slowestDevice(cost::DType::F32);
  int64_t stage = stageOf(step).value_or(0);
  return cluster
      .groups[cost::devicesOfStage(cluster, order, stage, cost::DType::F32)
                  .group]
      .device;
}

static bool runsFp8(func::FuncOp step) {
  return step
      .walk([](MatmulOp op) {
        return op->hasAttr(attr::kFp8) ? WalkResult::interrupt()
                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

StepQueues::StepQueues(func::FuncOp step, const cost::Cluster &cluster)
    : StepQueues(step, cluster, deviceOf(step, rankOrderOf(step), cluster)) {}

StepQueues::StepQueues(func::FuncOp step, const cost::Cluster &cluster,
                       const cost::Device &device)
    : pricing(step, cluster), bytesPerLevel(cluster.levels.size(), 0),
      cluster(cluster), device(device), microBatches(microBatchesOf(step)),
      hasFp8(runsFp8(step)) {}

double StepQueues::issue(Operation *op) {
  if (isInLoop(phaseOf(op)))
    issued += cluster.software.hostKernelSeconds;
  return issued;
}

double &StepQueues::commFreeOf(ArrayAttr axes) {
  return commFree[cluster.software.queuePerGroup ? Attribute(axes)
                                                 : Attribute()];
}

double StepQueues::commEnd() const {
  double end = 0;
  for (auto [axes, free] : commFree)
    end = std::max(end, free);
  return end;
}

void StepQueues::addBytes(const cost::CollectiveEstimate &estimate,
                          double times) {
  for (auto [total, bytes] : llvm::zip(bytesPerLevel, estimate.bytesPerLevel))
    total += bytes * times;
}

/// Returns true if `collective` and the GEMM next to it overlap in chunks
/// (`tensor_chunks` of Software.h).
static bool isChunked(Operation *collective, const cost::Software &software) {
  if (software.tensorChunks <= 1 || !software.overlap)
    return false;
  auto axes = cast<CollectiveOpInterface>(collective).getAxes();
  auto value =
      collective->getParentOfType<func::FuncOp>()->getAttrOfType<StringAttr>(
          attr::ofKey("tp_overlap"));
  return value && value == stringify(cost::TpOverlap::Chunked) &&
         llvm::all_of(axes.getAsRange<StringAttr>(), isTensorAxis);
}

static double chunkedOverlap(double collective, double gemm, double chunks) {
  return std::min(collective, gemm) * (1 - 1 / chunks);
}

void StepQueues::communicate(Operation *op, double times) {
  cost::CollectiveEstimate estimate = pricing.collective(op);
  addBytes(estimate, times);
  CollectivePricing::Traffic moved = pricing.trafficOf(op);
  traffic[{moved.kind, namesOf(cast<CollectiveOpInterface>(op).getAxes()),
           moved.bytes}] += times;
  // Memory for the result of a gather may be released as late as computeFree.
  double ready = isa<AllGatherOp>(op) ? computeFree : 0;
  for (Value value : op->getOperands()) {
    Value root = bufferRoot(value);
    double end = made.lookup(root);
    Operation *producer = root.getDefiningOp();
    if (producer && matmulOf(producer) && isChunked(op, cluster.software))
      end -= chunkedOverlap(estimate.seconds, secondsOf(producer),
                            cluster.software.tensorChunks);
    ready = std::max({ready, end, written.lookup(root)});
  }
  const cost::Software &software = cluster.software;
  if (!software.overlap)
    ready = std::max(ready, computeFree);
  double &free = commFreeOf(cast<CollectiveOpInterface>(op).getAxes());
  double start = std::max({free, ready, issue(op)});
  if (estimate.seconds > 0)
    start += software.collectiveStartSeconds;
  free = start + estimate.seconds;
  record(op, StepQueue::communication, start, free);
  if (log) {
    log->back().bytes = moved.bytes;
    log->back().bytesPerLevel = std::move(estimate.bytesPerLevel);
  }
  if (!software.overlap)
    computeFree = free;
  for (Value value : op->getResults())
    written[value] = free;
}

/// The rounds of an exchange alternate between communication and computation.
/// Later computations may run while rows travel.
void StepQueues::exchange(ExpertTilesOp op, double times) {
  CollectivePricing::Exchange moved = pricing.exchangeOf(op);
  addBytes(moved.estimate, times);
  traffic[{cost::Collective::AllToAll, namesOf(op.getExchangeAttr()),
           moved.bytes}] += times;
  const cost::Software &software = cluster.software;
  // Memory for the tiles may be released as late as computeFree.
  double ready = computeFree;
  for (Value value : op->getOperands())
    ready = std::max(ready, written.lookup(bufferRoot(value)));
  double &free = commFreeOf(op.getExchangeAttr());
  double begin = std::max({free, ready, issue(op)});
  double seconds =
      moved.estimate.seconds + // of all collectives
      static_cast<double>(moved.collectives) * software.collectiveStartSeconds;
  double work = secondsOf(op);
  double first = // the rows of the first round on their way
      seconds / static_cast<double>(2 * moved.rounds);
  double body = begin + first;
  free = begin + seconds + work;
  computeFree = software.overlap ? body + work : free;
  record(op, StepQueue::compute, body, body + work);
  record(op, StepQueue::communication, begin, free);
  if (log) {
    log->back().bytes = moved.bytes;
    log->back().bytesPerLevel = std::move(moved.estimate.bytesPerLevel);
    log->back().movesShare = work > 0 ? seconds / (seconds + work) : 1;
  }
  for (Value value : op->getResults())
    written[value] = free;
  computeSeconds += work * times;
}

/// Returns bytes per second between the device and the argument's memory.
double StepQueues::hostLink(Value argument) const {
  auto arg = cast<BlockArgument>(argument);
  auto func = cast<func::FuncOp>(arg.getOwner()->getParentOp());
  auto space =
      func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kSpace);
  return cost::hostLinkBytesPerSecond(cluster,
                                      space && space.getValue() == "disk");
}

void StepQueues::transfer(Operation *op, double times) {
  auto store = dyn_cast<StoreOp>(op);
  Value moved = op->getOperand(0);
  copyFree = std::max(copyFree, computeFree);
  if (store)
    copyFree = std::max(copyFree, written.lookup(bufferRoot(moved)));
  double seconds = static_cast<double>(sizeInBytes(moved)) /
                   hostLink(store ? Value(store.getTarget()) : moved);
  record(op, StepQueue::copy, copyFree, copyFree + seconds);
  copyFree += seconds;
  transferSeconds += seconds * times;
  if (!store)
    written[op->getResult(0)] = copyFree;
}

double StepQueues::secondsOf(Operation *op) const {
  return isBufferView(op) ? 0
                          : opSeconds(op, OpPricing{device, cluster.software,
                                                    pricing.isNarrow(),
                                                    microBatches, hasFp8});
}

void StepQueues::compute(Operation *op, double times) {
  // The kernels that read a view wait for its buffer; the view itself does
  // not.
  if (isBufferView(op))
    return;
  double seconds = secondsOf(op);
  double start = computeFree;
  if (seconds > 0)
    start = std::max(start, issue(op));
  for (Value value : op->getOperands()) {
    Value root = bufferRoot(value);
    double end = written.lookup(root);
    Operation *producer = root.getDefiningOp();
    if (isa_and_present<CollectiveOpInterface>(producer) &&
        isChunked(producer, cluster.software) && matmulOf(op))
      end -= chunkedOverlap(pricing.collective(producer).seconds, seconds,
                            cluster.software.tensorChunks);
    start = std::max(start, end);
  }
  // Concurrent collectives slow the computation down.
  double both = std::min(seconds, std::max(0.0, commEnd() - start));
  seconds += both * cluster.software.overlapSlowdown;
  computeFree = start + seconds;
  if (!isa<ConstantOp>(op))
    record(op, StepQueue::compute, start, computeFree);
  for (Value value : op->getResults())
    made[value] = computeFree;
  computeSeconds += seconds * times;
}

void StepQueues::run(Operation *op, double times) {
  // The schedule determines when messages between stages arrive.
  if (isa<SendOp, RecvOp>(op))
    return;
  int runs = op->hasAttr(attr::kAgain) ? 2 : 1;
  for (int i = 0; i < runs; ++i) {
    if (isTransfer(op))
      transfer(op, times);
    else if (isa<CollectiveOpInterface>(op))
      communicate(op, times);
    else if (auto tiles = dyn_cast<ExpertTilesOp>(op);
             tiles && tiles.getExchange())
      exchange(tiles, times);
    else
      compute(op, times);
  }
}

void StepQueues::record(Operation *op, StepQueue queue, double begin,
                        double end) {
  if (log)
    log->push_back({op, queue, begin, end, 0, {}});
}

void StepQueues::wait(Value value) {
  computeFree = std::max(computeFree, written.lookup(bufferRoot(value)));
}

void StepQueues::rebase() {
  for (auto *times : {&written, &made})
    for (auto &entry : *times)
      entry.second -= computeFree;
  for (auto &queue : commFree)
    queue.second = std::max(0.0, queue.second - computeFree);
  copyFree = std::max(0.0, copyFree - computeFree);
  computeFree = issued = 0;
}

static StepTime estimateOn(func::FuncOp step, const cost::Cluster &cluster,
                           const cost::Device &device, double microBatches,
                           cost::LoopSeconds &parts,
                           StageRecord *record = nullptr) {
  if (record)
    *record = StageRecord();
  std::optional<PhaseLog> log;
  if (record)
    log.emplace(*record);
  StepQueues queues(step, cluster, device);
  double loopStart = -1, loopEnd = 0, computeBefore = 0;
  for (Operation *op : opsInOrder(step)) {
    bool inLoop = isInLoop(phaseOf(op));
    if (inLoop && loopStart < 0)
      loopStart = queues.end();
    computeBefore = queues.computeSeconds;
    if (log)
      queues.log =
          &log->enter(phaseOf(op),
                      loopEnd == 0 && inLoop ? loopStart : queues.computeEnd());
    queues.run(op, inLoop ? microBatches : 1);
    if (!inLoop)
      continue;
    loopEnd = queues.computeEnd();
    parts.microBatchCompute +=
        (queues.computeSeconds - computeBefore) / microBatches;
  }
  if (loopStart >= 0)
    parts.microBatch = std::max(0.0, loopEnd - loopStart);
  if (log)
    log->finish(queues.end(), std::llround(microBatches), parts.microBatch);
  StepTime result;
  result.seconds = queues.end() + cluster.software.hostStepSeconds +
                   (microBatches - 1) * parts.microBatch;
  result.computeSeconds = queues.computeSeconds;
  result.transferSeconds = queues.transferSeconds;
  result.exposedCommunicationSeconds =
      std::max(0.0, result.seconds - result.computeSeconds);
  result.bytesPerLevel = queues.bytesPerLevel;
  result.traffic = std::move(queues.traffic);
  parts.rest = result.seconds - microBatches * parts.microBatch;
  parts.restCompute =
      result.computeSeconds - microBatches * parts.microBatchCompute;
  return result;
}

/// Records the stages of each kind of data-parallel rank in `kinds`, and those
/// of the slowest rank in `stages`.
static void recordShares(func::FuncOp step, const cost::Cluster &cluster,
                         ArrayRef<cost::LoopSeconds> groupSeconds,
                         ArrayRef<int64_t> shares, StepRecord &record) {
  std::vector<cost::StageDevices> devices =
      cost::devicesOfDataRanks(cluster, rankOrderOf(step), 0, cost::DType::F32);
  double longest = -1;
  std::vector<std::pair<size_t, int64_t>> kinds; // group and share
  for (auto [rank, share] : llvm::enumerate(shares)) {
    size_t group = devices[rank].group;
    auto kind = llvm::find(kinds, std::pair(group, share));
    record.kindOfDataRank.push_back(kind - kinds.begin());
    if (kind != kinds.end())
      continue;
    kinds.emplace_back(group, share);
    cost::LoopSeconds parts;
    StageRecord own;
    estimateOn(step, cluster, cluster.groups[group].device,
               static_cast<double>(share), parts, &own);
    record.kinds.push_back({own});
    double seconds =
        groupSeconds[group].microBatch * static_cast<double>(share);
    if (seconds > longest) {
      longest = seconds;
      record.stages = {std::move(own)};
    }
  }
  record.meet();
}

static StepTime estimateOne(func::FuncOp step, const cost::Cluster &cluster,
                            StepRecord *record) {
  cost::RankOrder order = rankOrderOf(step);
  auto microBatches = static_cast<double>(microBatchesOf(step));
  cost::LoopSeconds parts;
  StepTime result =
      estimateOn(step, cluster, deviceOf(step, order, cluster), microBatches,
                 parts, record ? &record->stages.front() : nullptr);
  std::vector<int64_t> shares = sharesOf(step);
  bool isHeterogeneous = cost::isHeterogeneous(cluster);
  bool mayShare =
      isHeterogeneous && microBatches > 1 && whyEvenShares(step).empty();
  if (!mayShare && shares.empty())
    return result;
  for (const cost::NodeGroup &group : cluster.groups) {
    cost::LoopSeconds own;
    if (isHeterogeneous)
      estimateOn(step, cluster, group.device, microBatches, own);
    result.groupSeconds.push_back(isHeterogeneous ? own : parts);
  }
  if (shares.empty())
    return result;
  SharedSeconds shared = secondsOfShares(
      result.groupSeconds,
      cost::devicesOfDataRanks(cluster, order, 0, cost::DType::F32), shares);
  if (record)
    recordShares(step, cluster, result.groupSeconds, shares, *record);
  result.groupSeconds.clear(); // decided
  result.seconds = shared.step;
  result.computeSeconds = shared.compute;
  result.exposedCommunicationSeconds =
      std::max(0.0, shared.step - shared.compute);
  return result;
}

Expected<StepTime> dpc::estimateTime(ArrayRef<func::FuncOp> steps,
                                     const cost::Cluster &cluster,
                                     StepRecord *record) {
  assert(!steps.empty() && "a program has a step");
  if (record)
    record->stages.resize(steps.size());
  // Several passes over the micro-batches have a schedule, as stages do.
  bool hasSchedule = steps.size() > 1 || totalsPassesOf(steps.front()) > 0;
  Expected<StepTime> time = hasSchedule
                                ? estimatePipeline(steps, cluster, record)
                                : estimateOne(steps.front(), cluster, record);
  if (time && totalsPassesOf(steps.front()) > 0 &&
      cost::isHeterogeneous(cluster))
    time->whyEven = whyEvenShares(steps.front());
  if (time && steps.size() == 1) { // no stages to describe
    time->stages.clear();
    time->bubbleFraction = 0;
  }
  if (record && time) {
    record->seconds = time->seconds;
    record->hostSeconds = cluster.software.hostStepSeconds;
  }
  return time;
}

void dpc::setTime(cost::Evaluation &evaluation, const StepTime &time) {
  evaluation.stepSeconds = time.seconds;
  evaluation.computeSeconds = time.computeSeconds;
  evaluation.exposedCommunicationSeconds = time.exposedCommunicationSeconds;
  evaluation.transferSeconds = time.transferSeconds;
  evaluation.bubbleFraction = time.bubbleFraction;
  evaluation.bytesPerLevel = time.bytesPerLevel;
  evaluation.groupSeconds = time.groupSeconds;
  evaluation.whyEven = time.whyEven;
  evaluation.traffic.clear();
  for (const auto &[what, times] : time.traffic) {
    const auto &[kind, axes, bytes] = what;
    evaluation.traffic.push_back({kind, axes, bytes, times});
  }
  evaluation.stages.clear();
  for (const StageTime &stage : time.stages)
    evaluation.stages.push_back({stage.forwardSeconds,
                                 stage.backwardSeconds,
                                 stage.weightSeconds,
                                 stage.idleSeconds,
                                 0,
                                 {},
                                 0});
}
