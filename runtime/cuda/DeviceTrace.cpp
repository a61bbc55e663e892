#include "runtime/cuda/DeviceTrace.h"

#include "runtime/base/Wait.h"

namespace dpc::rt {

DeviceTrace::DeviceTrace(const CudaApi &cuda, const Plan &plan, int rank,
                         const std::vector<Task> &tasks)
    : cuda(cuda), tasks(tasks), mostSteps(stepsToTrace(plan)),
      spans(tasks.size()), lanes{{rank, Queue::Compute, {}},
                                 {rank, Queue::Comm, {}},
                                 {rank, Queue::Copy, {}}} {}

Expected<std::unique_ptr<DeviceTrace>>
DeviceTrace::create(const CudaApi &cuda, const Plan &plan, int rank,
                    const std::vector<Task> &tasks) {
  std::unique_ptr<DeviceTrace> self(new DeviceTrace(cuda, plan, rank, tasks));
  DPC_TRY(self->makeEvent(self->origin));
  for (Span &span : self->spans) {
    DPC_TRY(self->makeEvent(span.begin));
    DPC_TRY(self->makeEvent(span.end));
  }
  return self;
}

DeviceTrace::~DeviceTrace() {
  for (cudaEvent_t event : events)
    cuda.cudaEventDestroy(event);
}

Status DeviceTrace::makeEvent(cudaEvent_t &event) {
  DPC_TRY(assign(event, cuda.newEvent(cudaEventDefault)));
  events.push_back(event);
  return Status::success();
}

Status DeviceTrace::startStep(int64_t step, cudaStream_t stream) {
  number = step;
  for (Span &span : spans)
    span.isBegun = span.isEnded = false;
  originSeconds = nowSeconds();
  return cuda.record(origin, stream);
}

Status DeviceTrace::begin(int task, cudaStream_t stream) {
  spans[task].isBegun = true;
  return cuda.record(spans[task].begin, stream);
}

Status DeviceTrace::end(int task, cudaStream_t stream) {
  spans[task].isEnded = true;
  return cuda.record(spans[task].end, stream);
}

Expected<double> DeviceTrace::secondsOf(cudaEvent_t event) const {
  double milliseconds = 0;
  DPC_TRY(assign(milliseconds, cuda.millisecondsBetween(origin, event)));
  return originSeconds + milliseconds * 1e-3;
}

Status DeviceTrace::collectStep() {
  ++steps;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task &task = tasks[i];
    const Span &span = spans[i];
    assert(span.isEnded && "every task is given to a stream");
    Expected<double> end = secondsOf(span.end),
                     begin = span.isBegun ? secondsOf(span.begin) : end;
    for (const Status &status : {begin.status(), end.status()})
      DPC_TRY(status);
    lanes[static_cast<int>(task.instruction->queue)].events.push_back(
        {task.instruction, task.entry, number, *begin, *end});
  }
  return Status::success();
}

void DeviceTrace::forget() {
  for (TraceLane &lane : lanes)
    lane.events.clear();
  steps = 0;
}

} // namespace dpc::rt
