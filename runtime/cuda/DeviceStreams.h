//===- DeviceStreams.h - streams and events of a rank -----------*- C++ -*-===//
//
// Each of the plan's three queues is a stream. An event of the plan that a step
// signals several times is a separate CUDA event for each signal.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudaApi.h"
#include "runtime/cuda/MessagePlan.h"

#include <memory>
#include <vector>

namespace dpc::rt {

class DeviceStreams {
public:
  /// Creates a stream for each queue, or one for all queues without `overlap`.
  static Expected<std::unique_ptr<DeviceStreams>> create(const CudaApi &cuda,
                                                         bool overlap);
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams &) = delete;
  DeviceStreams &operator=(const DeviceStreams &) = delete;

  cudaStream_t main() const { return streams[0]; }
  cudaStream_t of(Queue queue) const {
    return streams[static_cast<int>(queue)];
  }
  cudaStream_t of(const Task &task) const {
    return of(task.instruction->queue);
  }

  Status bind(const DeviceProgram &program);
  /// Makes the other streams wait for the main stream, at the start of a step.
  Status fork();
  /// Makes the main stream wait for the other streams, at the end of a step.
  Status join();
  /// Makes the task's stream wait for the task's events.
  Status waitFor(const Task &task);
  /// Records the event that the task signals, if any, on the task's stream.
  Status signal(const Task &task);
  /// Waits up to `seconds` until no stream is busy and returns whether this
  /// succeeded. After a failed step, a stream may hang.
  bool finish(double seconds) const;

private:
  explicit DeviceStreams(const CudaApi &cuda) : cuda(cuda) {}
  Expected<cudaEvent_t> newEvent();

  const CudaApi &cuda;
  cudaStream_t streams[kNumQueues] = {};
  std::vector<cudaStream_t> ownStreams;
  std::vector<cudaEvent_t> events;
  cudaEvent_t begun = nullptr, ended[kNumQueues] = {};
  /// The CUDA events of a step, by event of the plan and number of the signal.
  std::vector<std::vector<cudaEvent_t>> signals;
  std::vector<size_t> signalled; ///< signals in this step, by event
};

} // namespace dpc::rt
