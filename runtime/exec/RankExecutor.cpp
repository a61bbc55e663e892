#include "runtime/exec/RankExecutor.h"

#include "runtime/exec/ExpertExchange.h"
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/DivisionByZero.h"
#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/kernels/ExpertTiles.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/plan/Ledger.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

static int indexIn(const std::vector<int> &cell, int rank) {
  return static_cast<int>(std::lower_bound(cell.begin(), cell.end(), rank) -
                          cell.begin());
}

struct RankExecutor::OpRunner {
  RankExecutor &self;
  const Task &task;

  const Buffer &buffer(int id) const { return self.plan.buffers[id]; }
  char *data(int id) const {
    return self.memory.device().at(addressOf(self.plan, id, task.entry->slots));
  }
  int64_t elements(int id) const { return numElements(buffer(id).shape); }
  const Group &group(int id) const { return self.plan.groups[id]; }

  Status operator()(const KernelOp &) const {
    DivisionGuard guard(task.instruction->name);
    task.function(task.pointers.data(), task.scalars.data());
    return Status::success();
  }
  Status operator()(const MatmulOp &op) const {
    return runMatmul(op, data(op.a), buffer(op.a).dtype, data(op.b),
                     buffer(op.b).dtype, data(op.c), buffer(op.c).dtype,
                     op.bias < 0 ? nullptr : data(op.bias),
                     op.aux < 0 ? nullptr : data(op.aux));
  }
  Status operator()(const ExpertMatmulOp &op) const {
    auto own = [&](const ScalarExpr &expr) {
      return evaluate(expr, self.plan.mesh, self.rankIndex,
                      task.entry->microBatch);
    };
    return runExpertMatmul(
        op, expertArrays(self.plan, op, own, [&](int id) { return data(id); }));
  }
  Status operator()(const ExpertTilesOp &op) const {
    auto runBody = [&]() -> Status {
      for (const Task &inner : task.body)
        DPC_TRY(std::visit(OpRunner{self, inner}, inner.instruction->op));
      return Status::success();
    };
    auto address = [&](int id) { return data(id); };
    ExpertCounts counts;
    auto count = [&](Status status) {
      std::lock_guard lock(self.mutex);
      self.expertCounts.rows += counts.rows;
      self.expertCounts.tiles += counts.tiles;
      return status;
    };
    auto idsOf = [&](int rank) { // with the experts of this rank
      auto own = [&](const ScalarExpr &expr) {
        return evaluate(expr, self.plan.mesh, rank, task.entry->microBatch);
      };
      return expertIds(self.plan, op, own, data(op.ids));
    };
    if (op.group == -1)
      return count(runExpertTiles(self.plan, op, idsOf(self.rankIndex), address,
                                  runBody, counts));
    const std::vector<int> &cell = cellOf(group(op.group), self.rankIndex);
    std::vector<ExpertIds> owners;
    owners.reserve(cell.size());
    for (int member : cell)
      owners.push_back(idsOf(member));
    return count(runExpertExchange(self.plan, op, owners,
                                   indexIn(cell, self.rankIndex), self.comm,
                                   address, runBody, counts));
  }
  Status operator()(const ConvOp &op) const {
    return runConv(op, data(op.x), data(op.w), data(op.y));
  }
  Status operator()(const AttentionOp &op) const {
    return runAttention(op,
                        attentionData(op, [&](int id) { return data(id); }));
  }
  Status operator()(const AttentionGradOp &op) const {
    return runAttention(op,
                        attentionData(op, [&](int id) { return data(id); }));
  }
  Status operator()(const AllReduceOp &op) const {
    std::vector<Slice> slices;
    slices.reserve(op.buffers.size());
    for (int id : op.buffers)
      slices.push_back({data(id), elements(id), buffer(id).dtype});
    return self.comm.allReduce(op.group, slices, op.kind);
  }
  Status operator()(const AllGatherOp &op) const {
    for (size_t i = 0; i < op.ins.size(); ++i)
      DPC_TRY(self.comm.allGather(op.group, data(op.ins[i]), data(op.outs[i]),
                                  buffer(op.ins[i]).bytes));
    return Status::success();
  }
  Status operator()(const ReduceScatterOp &op) const {
    for (size_t i = 0; i < op.ins.size(); ++i)
      DPC_TRY(self.comm.reduceScatter(op.group, data(op.ins[i]),
                                      data(op.outs[i]), elements(op.outs[i]),
                                      buffer(op.outs[i]).dtype, op.kind));
    return Status::success();
  }
  Status operator()(const AllToAllOp &op) const {
    size_t members = group(op.group).members.front().size();
    std::vector<int64_t> sizes(members, buffer(op.in).bytes /
                                            static_cast<int64_t>(members));
    return self.comm.allToAll(op.group, data(op.in), sizes, data(op.out),
                              sizes);
  }
  Status operator()(const BroadcastOp &op) const {
    return self.comm.broadcast(op.group, data(op.buffer),
                               buffer(op.buffer).bytes, op.root);
  }
  Status operator()(const SendOp &op) const {
    int peer = peerOf(op);
    if (peer < 0)
      return Status::success();
    return self.comm.send(op.group, data(op.buffer), buffer(op.buffer).bytes,
                          peer, tagOf(op));
  }
  Status operator()(const RecvOp &op) const {
    int peer = peerOf(op);
    if (peer < 0)
      return Status::success();
    return self.comm.recv(op.group, data(op.buffer), buffer(op.buffer).bytes,
                          peer, tagOf(op));
  }
  Status operator()(const CopyOp &op) const {
    std::memcpy(data(op.out) + op.outOffset, data(op.in) + op.inOffset,
                op.bytes);
    return Status::success();
  }
  Status operator()(const TransferOp &op) const {
    if (buffer(op.in).space == Space::Device)
      return self.memory.write(buffer(op.out), data(op.in));
    return self.memory.read(buffer(op.in), data(op.out));
  }
  Status operator()(const FillOp &op) const {
    const Buffer &target = buffer(op.buffer);
    int64_t count = elements(op.buffer);
    if (op.value == 0) {
      std::memset(data(op.buffer), 0, target.bytes);
    } else if (target.dtype == DType::F32) {
      std::fill_n(reinterpret_cast<float *>(data(op.buffer)), count,
                  static_cast<float>(op.value));
    } else {
      for (int64_t i = 0; i < count; ++i)
        storeFromDouble(data(op.buffer), target.dtype, i, op.value);
    }
    return Status::success();
  }
  Status operator()(const LoadInputOp &op) const {
    const Port &port = self.plan.inputs[op.input];
    std::memset(data(op.buffer), self.fillByte(), buffer(op.buffer).bytes);
    packShard(self.step->inputs[op.input], data(op.buffer), sizeOf(port.dtype),
              port.layout, self.plan.mesh, self.rankIndex,
              task.entry->microBatch);
    return Status::success();
  }
  Status operator()(const StoreOutputOp &op) const {
    const Port &port = self.plan.outputs[op.output];
    int64_t mb = task.entry->microBatch;
    if (ownsShard(port.layout, self.plan.mesh, self.rankIndex, mb,
                  self.stageIndex))
      unpackShard(
          data(port.buffer), (*self.step->outputs)[op.output].data.data(),
          sizeOf(port.dtype), port.layout, self.plan.mesh, self.rankIndex, mb);
    return Status::success();
  }

private:
  /// Returns the index of the peer in its group, or -1 if there is no peer.
  template <typename Op> int peerOf(const Op &op) const {
    int peer = rt::peerOf(group(op.group), op, self.rankIndex);
    return peer < 0 ? -1 : indexIn(cellOf(group(op.group), peer), peer);
  }
  template <typename Op> int64_t tagOf(const Op &op) const {
    return messageTag(op.tag, self.plan.mesh, task.entry->microBatch);
  }
};

RankExecutor::RankExecutor(const Plan &plan, int rank, Communicator &comm,
                           const ExecutorOptions &options)
    : Executor(plan, rank), comm(comm), options(options),
      isStored(plan.outputs.size(), false),
      stepsTraced(options.trace ? stepsToTrace(plan) : 0),
      lanes{{rank, Queue::Compute, {}},
            {rank, Queue::Comm, {}},
            {rank, Queue::Copy, {}}} {}

Expected<std::unique_ptr<RankExecutor>>
RankExecutor::create(const Plan &plan, int rank, const KernelLibrary &kernels,
                     Communicator &comm, const ExecutorOptions &options) {
  std::unique_ptr<RankExecutor> self(
      new RankExecutor(plan, rank, comm, options));
  DPC_ASSIGN(RankMemory memory, RankMemory::create(plan, rank, self->fillByte(),
                                                   options.offloadDir));
  self->memory = memory;
  DPC_ASSIGN(RankProgram program,
             unroll(plan, rank, self->memory.device().at(0), &kernels,
                    options.overlap));
  self->program = std::move(program);
  self->events = std::vector<WaitWord>(self->program.events);
  for (const StoreOutputOp *store : opsOf<StoreOutputOp>(plan))
    self->isStored[store->output] = true;
  setMatmulThreads(options.threads);
  for (Queue queue : {Queue::Comm, Queue::Copy})
    if (!self->program.queues[static_cast<int>(queue)].empty())
      self->sideThreads.emplace_back(
          [raw = self.get(), queue] { raw->queueLoop(queue); });
  return self;
}

RankExecutor::~RankExecutor() {
  stopping = true;
  started.increment();
  for (std::thread &thread : sideThreads)
    thread.join();
}

Status RankExecutor::runStep(const StepData &data) {
  step = &data;
  tracesStep = tracedSteps < stepsTraced;
  tracedSteps += tracesStep ? 1 : 0;
  fault.reset();
  if (options.checkNumbers && !options.poison)
    checkTensors();
  for (WaitWord &event : events)
    event.reset();
  setScalars(data.step);
  uint32_t goal = finished.load() + static_cast<uint32_t>(sideThreads.size());
  started.increment();
  runQueue(Queue::Compute);
  if (!sideThreads.empty())
    finished.waitUntil([&] { return finished.load() >= goal; });
  // Frees the copies of sent messages. The wait ends, because every message is
  // received in the step in which it is sent.
  if (program.sends && !failed)
    if (Status status = comm.finishSends(); !status.ok())
      fail(status.in("step " + std::to_string(data.step)));
  if (!failed)
    takeOutputs();
  std::lock_guard lock(mutex);
  return failure;
}

void RankExecutor::queueLoop(Queue queue) {
  setMatmulThreads(options.threads); // of this thread
  for (uint32_t steps = 1;; ++steps) {
    started.waitUntil([&] { return started.load() >= steps; });
    if (stopping)
      return;
    runQueue(queue);
    finished.increment();
  }
}

void RankExecutor::runQueue(Queue queue) {
  for (const Task &task : program.queues[static_cast<int>(queue)]) {
    for (const EventWait &wait : task.waits)
      if (!waitFor(wait))
        return;
    if (failed.load(std::memory_order_relaxed))
      return;
    if (options.flightRecord)
      options.flightRecord->begin(*task.instruction, step->step, placeIn(task));
    bool isOwn =
        options.timesRanks && queue == Queue::Compute && task.ledgerLine < 0;
    double begin = tracesStep || isOwn ? nowSeconds() : 0;
    if (Status status = runTask(task); !status.ok())
      return fail(std::move(status));
    if (isOwn)
      ownSeconds += nowSeconds() - begin;
    if (options.flightRecord)
      options.flightRecord->end(*task.instruction);
    if (options.checkNumbers)
      checkNumbers(task);
    if (tracesStep)
      lanes[static_cast<int>(task.instruction->queue)].events.push_back(
          {task.instruction, task.entry, step->step, begin, nowSeconds()});
    if (task.signals >= 0)
      events[task.signals].increment();
  }
}

/// Returns "s1.forward of micro-batch 2, " in a pipeline, and otherwise "",
/// because the name of the instruction is enough.
std::string RankExecutor::placeIn(const Task &task) const {
  if (plan.mesh.stages() == 1)
    return "";
  return concat(task.entry->phase, " of micro-batch ", task.entry->microBatch,
                ", ");
}

static std::string nameOf(const Instruction &instruction) {
  return instruction.name.empty() ? std::string(opName(instruction.op))
                                  : instruction.name;
}

void RankExecutor::checkNumbers(const Task &task) {
  for (int id : resultsOf(*task.instruction, plan)) {
    const Buffer &buffer = plan.buffers[id];
    if (buffer.space != Space::Device)
      continue;
    const char *data =
        memory.device().at(addressOf(plan, id, task.entry->slots));
    if (firstNan(data, buffer.dtype, numElements(buffer.shape)) < 0)
      continue;
    std::lock_guard lock(mutex);
    if (!fault)
      fault =
          NumberFault{nowSeconds(), placeIn(task) + nameOf(*task.instruction) +
                                        ": buffer '" + buffer.name + "'"};
    return;
  }
}

/// Includes the padding, which is zero without poison.
void RankExecutor::checkTensors() {
  for (const Tensor &tensor : plan.tensors) {
    const Buffer &buffer = plan.buffers[tensor.buffer];
    if (!holds(tensor.buffer) || buffer.space != Space::Device || fault)
      continue;
    std::string why =
        faultOf(tensor, bufferData(tensor.buffer), numElements(buffer.shape));
    if (!why.empty())
      fault = NumberFault{nowSeconds(), why};
  }
}

static std::string meetingOf(const Task &task, const Plan &plan, int rank) {
  if (task.ledgerLine < 0)
    return "";
  return concat(" (ledger line ", task.ledgerLine, ", ",
                meetingText(plan, task.instruction->op, rank), ")");
}

Status RankExecutor::runTask(const Task &task) {
  Status status = std::visit(OpRunner{*this, task}, task.instruction->op);
  if (status.ok() || status.code() == StatusCode::Cancelled)
    return status;
  std::string what = nameOf(*task.instruction);
  return status.in("step " + std::to_string(step->step) + ", " + placeIn(task) +
                   what + meetingOf(task, plan, rankIndex));
}

bool RankExecutor::waitFor(const EventWait &wait) {
  WaitWord &event = events[wait.event];
  event.waitUntil([&] {
    return event.load() >= wait.count || failed.load(std::memory_order_relaxed);
  });
  return event.load() >= wait.count;
}

void RankExecutor::fail(Status status) {
  {
    std::lock_guard lock(mutex);
    if (failed)
      return;
    failure = status;
    failed = true;
  }
  for (WaitWord &event : events)
    event.wakeAll();
  if (options.onFailure)
    options.onFailure(status);
}

Status RankExecutor::fillBuffer(int id,
                                const std::function<Status(char *)> &fill) {
  const Buffer &buffer = plan.buffers[id];
  std::vector<char> beside(buffer.space == Space::Disk ? buffer.bytes : 0);
  char *bytes = buffer.space == Space::Disk ? beside.data() : bufferData(id);
  std::memset(bytes, fillByte(), buffer.bytes);
  DPC_TRY(fill(bytes));
  return buffer.space == Space::Disk ? memory.write(buffer, bytes)
                                     : Status::success();
}

Expected<const char *> RankExecutor::readBuffer(int id,
                                                std::vector<char> &scratch) {
  const Buffer &buffer = plan.buffers[id];
  if (buffer.space != Space::Disk)
    return static_cast<const char *>(bufferData(id));
  scratch.resize(buffer.bytes);
  DPC_TRY(memory.read(buffer, scratch.data()));
  return static_cast<const char *>(scratch.data());
}

void RankExecutor::setScalars(int64_t number) {
  for (const ScalarInput &scalar : plan.scalars) {
    if (!holds(scalar.buffer))
      continue;
    int64_t count = number;
    if (scalar.skips >= 0)
      count -= static_cast<int64_t>(
          loadAsDouble(bufferData(scalar.skips), DType::F32, 0));
    double value = scalar.name == "lr" ? learningRate(plan.lrSchedule, count)
                                       : static_cast<double>(count);
    storeFromDouble(bufferData(scalar.buffer), DType::F32, 0, value);
  }
}

void RankExecutor::takeOutputs() {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &port = plan.outputs[i];
    if (isStored[i] || !holds(port.buffer) ||
        !ownsShard(port.layout, plan.mesh, rankIndex, 0, stageIndex))
      continue;
    unpackShard(bufferData(port.buffer), (*step->outputs)[i].data.data(),
                sizeOf(port.dtype), port.layout, plan.mesh, rankIndex, 0);
  }
}

} // namespace dpc::rt
