#include "runtime/cuda/HostValues.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

PinnedMemory::~PinnedMemory() {
  for (void *memory : taken)
    cuda.cudaFreeHost(memory);
}

Expected<Pinned> PinnedMemory::take(int64_t bytes) {
  char *memory = nullptr;
  DPC_TRY(assign(memory, cuda.allocatePinned(std::max<int64_t>(bytes, 64))));
  taken.push_back(memory);
  return Pinned{memory, bytes};
}

/// Returns the buffer that a task loads from or stores to the host, or -1.
static int hostBufferOf(const Plan &plan, const Task &task) {
  const OpVariant &op = task.instruction->op;
  if (auto *load = std::get_if<LoadInputOp>(&op))
    return load->buffer;
  if (auto *store = std::get_if<StoreOutputOp>(&op))
    return plan.outputs[store->output].buffer;
  return -1;
}

Status HostValues::bind(PinnedMemory &memory) {
  auto place = [&](auto &places, auto key, int64_t bytes) {
    return assign(places[key], memory.take(bytes));
  };
  std::vector<bool> isStored(plan.outputs.size());
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const Task &task = program.tasks[i];
    if (int buffer = hostBufferOf(plan, task); buffer >= 0)
      DPC_TRY(place(staged, static_cast<int>(i), plan.buffers[buffer].bytes));
    if (auto *store = std::get_if<StoreOutputOp>(&task.instruction->op))
      isStored[store->output] = true;
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &port = plan.outputs[i];
    if (!isStored[i] && holds(port.buffer) &&
        ownsShard(port.layout, plan.mesh, rank, 0, stage))
      DPC_TRY(place(taken, i, plan.buffers[port.buffer].bytes));
  }
  for (size_t i = 0; i < plan.scalars.size(); ++i)
    if (holds(plan.scalars[i].buffer)) {
      DPC_TRY(place(scalars, i, 4));
      if (plan.scalars[i].skips >= 0)
        DPC_TRY(place(skips, i, 4));
    }
  return Status::success();
}

void HostValues::setSkips(const std::function<const char *(int)> &read) {
  for (auto &[i, at] : skips)
    if (const char *bytes = read(plan.scalars[i].skips))
      std::memcpy(at.data, bytes, 4);
}

void HostValues::takeInputs(const StepData &data) {
  for (auto &[i, at] : scalars) {
    const ScalarInput &scalar = plan.scalars[i];
    int64_t count = data.step;
    if (auto it = skips.find(i); it != skips.end())
      count -=
          static_cast<int64_t>(loadAsDouble(it->second.data, DType::F32, 0));
    double value = scalar.name == "lr" ? learningRate(plan.lrSchedule, count)
                                       : static_cast<double>(count);
    storeFromDouble(at.data, DType::F32, 0, value);
  }
  for (auto &[id, at] : staged) {
    const Task &task = program.tasks[id];
    auto *load = std::get_if<LoadInputOp>(&task.instruction->op);
    if (!load)
      continue;
    const Port &port = plan.inputs[load->input];
    std::memset(at.data, fill, at.bytes);
    packShard(data.inputs[load->input], at.data, sizeOf(port.dtype),
              port.layout, plan.mesh, rank, task.entry->microBatch);
  }
}

void HostValues::takeOutputs(const StepData &data) const {
  auto unpack = [&](size_t output, const char *from, int64_t microBatch) {
    const Port &port = plan.outputs[output];
    if (ownsShard(port.layout, plan.mesh, rank, microBatch, stage))
      unpackShard(from, (*data.outputs)[output].data.data(), sizeOf(port.dtype),
                  port.layout, plan.mesh, rank, microBatch);
  };
  for (auto &[id, at] : staged) {
    const Task &task = program.tasks[id];
    if (auto *store = std::get_if<StoreOutputOp>(&task.instruction->op))
      unpack(store->output, at.data, task.entry->microBatch);
  }
  for (auto &[output, at] : taken)
    unpack(output, at.data, 0);
}

Status HostValues::sendScalars(const CudaApi &cuda, char *arena,
                               cudaStream_t stream) const {
  for (auto &[i, at] : scalars)
    DPC_TRY(cuda.copy(arena + plan.buffers[plan.scalars[i].buffer].offset,
                      at.data, 4, cudaMemcpyHostToDevice, stream));
  return Status::success();
}

Status HostValues::fetchOutputs(const CudaApi &cuda, const char *arena,
                                cudaStream_t stream) const {
  auto fetch = [&](const Pinned &to, int buffer) {
    return cuda.copy(to.data, arena + plan.buffers[buffer].offset, to.bytes,
                     cudaMemcpyDeviceToHost, stream);
  };
  for (auto &[i, at] : taken)
    DPC_TRY(fetch(at, plan.outputs[i].buffer));
  for (auto &[i, at] : skips)
    DPC_TRY(fetch(at, plan.scalars[i].skips));
  return Status::success();
}

} // namespace dpc::rt
