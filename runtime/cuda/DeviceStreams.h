//===- DeviceStreams.h - streams and events of a rank -----------*- C++ -*-===//
//
// Each of the plan's three queues is a stream. Each time that a step signals an
// event of the plan, a separate CUDA event is used.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_DEVICESTREAMS_H
#define DPC_RUNTIME_CUDA_DEVICESTREAMS_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/cuda/MessagePlan.h"

#include <memory>
#include <vector>

namespace dpc::rt {

class DeviceStreams {
public:
  /// Makes one stream for each queue, or, without `overlap`, one stream for all
  /// queues.
  static Expected<std::unique_ptr<DeviceStreams>> create(const CudaApi &cuda,
                                                         bool overlap);
  ~DeviceStreams();
  DeviceStreams(const DeviceStreams &) = delete;
  DeviceStreams &operator=(const DeviceStreams &) = delete;

  /// The stream of the compute queue, where steps begin and end.
  cudaStream_t main() const { return streams[0]; }
  cudaStream_t of(Queue queue) const {
    return streams[static_cast<int>(queue)];
  }
  cudaStream_t of(const Task &task) const {
    return of(task.instruction->queue);
  }

  /// Makes an event for every signal of a step of `program`.
  Status bind(const DeviceProgram &program);
  /// Starts a step: the other streams wait for the main one.
  Status fork();
  /// Ends a step: the main stream waits for the other streams.
  Status join();
  /// Makes the stream of a task wait for the task's events.
  Status waitFor(const Task &task);
  /// Signals the event of a task on its stream, if it has one.
  Status signal(const Task &task);
  /// Whether all streams finish within `seconds`. A failed step may leave
  /// streams or their callbacks busy. A stream with an error counts as
  /// finished.
  bool finish(double seconds) const;

private:
  explicit DeviceStreams(const CudaApi &cuda) : cuda(cuda) {}
  Expected<cudaEvent_t> newEvent();

  const CudaApi &cuda;
  cudaStream_t streams[kNumQueues] = {};
  std::vector<cudaStream_t> ownStreams;
  std::vector<cudaEvent_t> events;
  cudaEvent_t begun = nullptr, ended[kNumQueues] = {};
  /// For each event of the plan: one CUDA event for every signal in a step.
  std::vector<std::vector<cudaEvent_t>> signals;
  std::vector<size_t> signalled; ///< number so far, by event
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICESTREAMS_H
