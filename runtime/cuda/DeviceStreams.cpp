#include "runtime/cuda/DeviceStreams.h"

#include "runtime/base/Wait.h"

#include <unistd.h>

namespace dpc::rt {

Expected<std::unique_ptr<DeviceStreams>>
DeviceStreams::create(const CudaApi &cuda, bool overlap) {
  std::unique_ptr<DeviceStreams> self(new DeviceStreams(cuda));
  for (int i = 0; i < kNumQueues; ++i) {
    if (i > 0 && !overlap) {
      self->streams[i] = self->streams[0];
      continue;
    }
    DPC_TRY(cuda.check(cuda.cudaStreamCreateWithFlags(&self->streams[i],
                                                      cudaStreamNonBlocking),
                       "cudaStreamCreate"));
    self->ownStreams.push_back(self->streams[i]);
  }
  for (cudaEvent_t *event : {&self->begun, &self->ended[1], &self->ended[2]}) {
    DPC_TRY(assign(*event, self->newEvent()));
  }
  return self;
}

DeviceStreams::~DeviceStreams() {
  for (cudaStream_t stream : ownStreams)
    cuda.cudaStreamDestroy(stream);
  for (cudaEvent_t event : events)
    cuda.cudaEventDestroy(event);
}

Expected<cudaEvent_t> DeviceStreams::newEvent() {
  cudaEvent_t event = nullptr;
  DPC_TRY(assign(event, cuda.newEvent()));
  events.push_back(event);
  return event;
}

Status DeviceStreams::bind(const DeviceProgram &program) {
  signals.resize(program.events);
  for (const Task &task : program.tasks) {
    if (task.signals < 0)
      continue;
    DPC_TRY(assign(signals[task.signals].emplace_back(), newEvent()));
  }
  return Status::success();
}

Status DeviceStreams::fork() {
  signalled.assign(signals.size(), 0);
  DPC_TRY(cuda.record(begun, streams[0]));
  for (int i = 1; i < kNumQueues; ++i)
    if (streams[i] != streams[0])
      DPC_TRY(cuda.await(begun, streams[i]));
  return Status::success();
}

Status DeviceStreams::join() {
  for (int i = 1; i < kNumQueues; ++i) {
    if (streams[i] == streams[0])
      continue;
    DPC_TRY(cuda.record(ended[i], streams[i]));
    DPC_TRY(cuda.await(ended[i], streams[0]));
  }
  return Status::success();
}

Status DeviceStreams::waitFor(const Task &task) {
  for (const EventWait &wait : task.waits)
    if (wait.count > 0)
      DPC_TRY(cuda.await(signals[wait.event][wait.count - 1], of(task)));
  return Status::success();
}

Status DeviceStreams::signal(const Task &task) {
  if (task.signals < 0)
    return Status::success();
  return cuda.record(signals[task.signals][signalled[task.signals]++],
                     of(task));
}

bool DeviceStreams::finish(double seconds) const {
  double deadline = nowSeconds() + seconds;
  for (cudaStream_t stream : ownStreams)
    while (cuda.cudaStreamQuery(stream) == cudaErrorNotReady) {
      if (nowSeconds() > deadline)
        return false;
      usleep(100);
    }
  return true;
}

} // namespace dpc::rt
