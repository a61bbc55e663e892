//===- CudaOps.cpp - submission of tasks to streams -----------------------===//
#include "runtime/cuda/CudaExecutor.h"

#include "runtime/base/Wait.h"

#include <cstring>

namespace dpc::rt {

struct CudaExecutor::OpRunner {
  CudaExecutor &self;
  const Task &task;
  int id; ///< index of the task
  cudaStream_t stream;

  const Buffer &buffer(int id) const { return self.plan.buffers[id]; }
  char *data(int id) const {
    return self.arena + addressOf(self.plan, id, task.entry->slots);
  }
  int64_t elements(int id) const { return numElements(buffer(id).shape); }

  Status operator()(const KernelOp &op) const {
    const DeviceKernel &kernel = self.context.kernels.at(op.symbol);
    return launchKernel(self.cuda, kernel.kernel, kernel.blocks, kernel.threads,
                        kernel.sharedBytes, task.pointers, task.scalars,
                        stream);
  }
  Status operator()(const MatmulOp &op) const {
    return self.blas->run(gemmOf(self.plan, self.arena, task, op), stream);
  }
  Status operator()(const ExpertMatmulOp &op) const {
    auto own = [&](const ScalarExpr &expr) {
      return evaluate(expr, self.plan.mesh, self.rankIndex,
                      task.entry->microBatch);
    };
    return self.context.own->experts(
        op, expertArrays(self.plan, op, own, [&](int id) { return data(id); }),
        data(op.workspace), stream);
  }
  Status operator()(const ExpertTilesOp &) const {
    return Status::unsupported("tiles of experts cannot run on GPUs");
  }
  Status operator()(const ConvOp &op) const {
    return self.convs->run(op, data(op.x), data(op.w), data(op.y), stream);
  }
  Status operator()(const AttentionOp &op) const { return attend(op); }
  Status operator()(const AttentionGradOp &op) const { return attend(op); }
  Status operator()(const AllReduceOp &op) const {
    std::vector<Slice> slices;
    slices.reserve(op.buffers.size());
    for (int id : op.buffers)
      slices.push_back({data(id), elements(id), buffer(id).dtype});
    return self.comm->allReduce(op.group, slices, op.kind, 1, stream);
  }
  Status operator()(const AllGatherOp &op) const {
    return self.comm->together(op.group, "all_gather", stream, [&]() -> Status {
      for (size_t i = 0; i < op.ins.size(); ++i)
        DPC_TRY(self.comm->allGather(op.group, data(op.ins[i]),
                                     data(op.outs[i]), buffer(op.ins[i]).bytes,
                                     stream));
      return Status::success();
    });
  }
  Status operator()(const ReduceScatterOp &op) const {
    auto scatter = [&]() -> Status {
      for (size_t i = 0; i < op.ins.size(); ++i)
        DPC_TRY(self.comm->reduceScatter(
            op.group, data(op.ins[i]), data(op.outs[i]), elements(op.outs[i]),
            buffer(op.outs[i]).dtype, op.kind, stream));
      return Status::success();
    };
    return self.comm->together(op.group, "reduce_scatter", stream, scatter);
  }
  Status operator()(const AllToAllOp &op) const {
    auto members =
        static_cast<int64_t>(self.plan.groups[op.group].members.front().size());
    return self.comm->allToAll(op.group, data(op.in), data(op.out),
                               buffer(op.in).bytes / members, stream);
  }
  Status operator()(const BroadcastOp &op) const {
    return self.comm->broadcast(op.group, data(op.buffer),
                                buffer(op.buffer).bytes, op.root, stream);
  }
  // Only sends and recvs without a peer get here, and they have no effect.
  // issueRound() runs the messages that have a peer.
  Status operator()(const SendOp &) const { return Status::success(); }
  Status operator()(const RecvOp &) const { return Status::success(); }
  Status operator()(const CopyOp &op) const {
    return self.cuda.copy(data(op.out) + op.outOffset,
                          data(op.in) + op.inOffset, op.bytes,
                          cudaMemcpyDeviceToDevice, stream);
  }
  Status operator()(const TransferOp &op) const {
    bool out = buffer(op.in).space == Space::Device; // from the device
    const Buffer &other = buffer(out ? op.out : op.in);
    char *inside = data(out ? op.in : op.out);
    if (other.space == Space::Host) {
      char *host = self.hostArena.data + other.offset;
      return out ? self.cuda.copy(host, inside, other.bytes,
                                  cudaMemcpyDeviceToHost, stream)
                 : self.cuda.copy(inside, host, other.bytes,
                                  cudaMemcpyHostToDevice, stream);
    }
    // A stream callback accesses the file. All disk transfers run on one
    // stream, so they share one bounce buffer.
    char *bounce = self.disk->bounce.data;
    if (out)
      DPC_TRY(self.cuda.copy(bounce, inside, other.bytes,
                             cudaMemcpyDeviceToHost, stream));
    DPC_TRY(self.cuda.check(self.cuda.cudaLaunchHostFunc(
                                stream, moveOnDisk, self.diskMoveOf.at(id)),
                            "cudaLaunchHostFunc"));
    return out ? Status::success()
               : self.cuda.copy(inside, bounce, other.bytes,
                                cudaMemcpyHostToDevice, stream);
  }
  Status operator()(const FillOp &op) const {
    const Buffer &target = buffer(op.buffer);
    if (op.value == 0)
      return self.cuda.set(data(op.buffer), 0, target.bytes, stream);
    int64_t bits = 0;
    storeFromDouble(&bits, target.dtype, 0, op.value);
    return self.context.own->fill(data(op.buffer), elements(op.buffer),
                                  sizeOf(target.dtype), bits, stream);
  }
  Status operator()(const LoadInputOp &op) const {
    const Pinned &from = self.values.of(id);
    return self.cuda.copy(data(op.buffer), from.data, from.bytes,
                          cudaMemcpyHostToDevice, stream);
  }
  Status operator()(const StoreOutputOp &op) const {
    const Pinned &to = self.values.of(id);
    return self.cuda.copy(to.data, data(self.plan.outputs[op.output].buffer),
                          to.bytes, cudaMemcpyDeviceToHost, stream);
  }

private:
  template <typename Op> Status attend(const Op &op) const {
    return self.attention->run(
        op, attentionData(op, [&](int id) { return data(id); }), stream);
  }
  /// Runs as a callback of a stream, so this function must not call CUDA.
  static void moveOnDisk(void *argument) {
    const auto &move = *static_cast<const DiskMove *>(argument);
    Disk &disk = *move.disk;
    Status status =
        move.isWrite
            ? disk.file.write(move.offset, disk.bounce.data, move.bytes)
            : disk.file.read(move.offset, disk.bounce.data, move.bytes);
    std::lock_guard lock(disk.mutex);
    if (!status.ok() && disk.failure.ok())
      disk.failure = status;
  }
};

DeviceGemm gemmOf(const Plan &plan, char *arena, const Task &task,
                  const MatmulOp &op) {
  auto data = [&](int id) {
    return arena + addressOf(plan, id, task.entry->slots);
  };
  DeviceGemm gemm = gemmIn(plan, op);
  gemm.a = data(op.a);
  gemm.b = data(op.b);
  gemm.c = data(op.c);
  gemm.bias = op.bias < 0 ? nullptr : data(op.bias);
  gemm.aux = op.aux < 0 ? nullptr : data(op.aux);
  gemm.workspace = op.fp8 ? data(op.fp8->workspace) : nullptr;
  return gemm;
}

Status CudaExecutor::issueOne(const DeviceStep &step) {
  if (step.kind == DeviceStep::Kind::Round)
    return issueRound(step);
  const Task &task = program.tasks[step.task];
  DPC_TRY(streams->waitFor(task));
  if (isTraced)
    DPC_TRY(trace->begin(step.task, streams->of(task)));
  if (step.kind == DeviceStep::Kind::Task) {
    DPC_TRY(issueTask(task, step.task));
  } else {
    int id = std::get<SendOp>(task.instruction->op).buffer;
    DPC_TRY(cuda.copy(arena + messages + step.offset,
                      arena + addressOf(plan, id, task.entry->slots),
                      plan.buffers[id].bytes, cudaMemcpyDeviceToDevice,
                      streams->of(task)));
  }
  if (isTraced)
    DPC_TRY(trace->end(step.task, streams->of(task)));
  DPC_TRY(checkNumbers(task));
  return streams->signal(task);
}

/// Returns "s1.forward of micro-batch 2, sum of squares", for messages.
static std::string placeOf(const Task &task) {
  const Instruction &instruction = *task.instruction;
  return task.entry->phase + " of micro-batch " +
         std::to_string(task.entry->microBatch) + ", " +
         (instruction.name.empty() ? std::string(opName(instruction.op))
                                   : instruction.name);
}

/// Checks the results of a task for NaN, unless this step already has a fault.
/// Tasks are submitted in dependency order, so the first fault is the cause of
/// later ones.
Status CudaExecutor::checkNumbers(const Task &task) {
  if (!numbers || fault)
    return Status::success();
  for (int id : resultsOf(*task.instruction, plan)) {
    const Buffer &buffer = plan.buffers[id];
    if (buffer.space != Space::Device)
      continue;
    bool isNan = false;
    DPC_TRY(assign(
        isNan, numbers->hasNan(arena + addressOf(plan, id, task.entry->slots),
                               buffer.dtype, numElements(buffer.shape),
                               streams->of(task))));
    if (isNan) {
      fault = NumberFault{nowSeconds(),
                          placeOf(task) + ": buffer '" + buffer.name + "'"};
      break;
    }
  }
  return Status::success();
}

Status CudaExecutor::issueTask(const Task &task, int id) {
  Status status = std::visit(OpRunner{*this, task, id, streams->of(task)},
                             task.instruction->op);
  if (status.ok() || status.code() == StatusCode::Cancelled)
    return status;
  return Status(status.code(), placeOf(task) + ": " + status.message());
}

/// In a trace, the first recv of a round represents the round. A round without
/// a recv is not traced.
Status CudaExecutor::issueRound(const DeviceStep &step) {
  std::vector<DeviceMessage> ends;
  int first = -1;
  for (const PlannedMessage &message : step.messages) {
    char *at = arena + messages + message.offset;
    if (!message.isSend) {
      const Task &task = program.tasks[message.task];
      DPC_TRY(streams->waitFor(task));
      first = first < 0 ? message.task : first;
      at =
          arena + addressOf(plan, std::get<RecvOp>(task.instruction->op).buffer,
                            task.entry->slots);
    }
    ends.push_back({at, message.bytes, message.peer, message.isSend});
  }
  if (first >= 0 && isTraced)
    DPC_TRY(trace->begin(first, streams->of(Queue::Comm)));
  DPC_TRY(comm->exchange(ends, streams->of(Queue::Comm)));
  for (const PlannedMessage &message : step.messages)
    if (!message.isSend) {
      const Task &task = program.tasks[message.task];
      if (isTraced)
        DPC_TRY(trace->end(message.task, streams->of(task)));
      DPC_TRY(checkNumbers(task));
      DPC_TRY(streams->signal(task));
    }
  return Status::success();
}

} // namespace dpc::rt
