//===- DeviceTrace.h - times of instructions on a GPU -----------*- C++ -*-===//
//
// Each instruction has one event before it and one after it on its stream; the
// times of the events are read at the end number of the step. The first event
// of a step is recorded on an idle stream, so it happens immediately. This
// event aligns the device's clock with the host's clock.
//
// Events that are nodes of a graph have no times. Traced steps are therefore
// submitted to the streams instruction by instruction.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_DEVICETRACE_H
#define DPC_RUNTIME_CUDA_DEVICETRACE_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/observe/Trace.h"

#include <memory>

namespace dpc::rt {

class DeviceTrace {
public:
  /// `tasks` are the tasks of the rank in the order of the plan and must
  /// outlive this object.
  static Expected<std::unique_ptr<DeviceTrace>>
  create(const CudaApi &cuda, const Plan &plan, int rank,
         const std::vector<Task> &tasks);
  ~DeviceTrace();

  /// Whether the next step is recorded.
  bool wantsStep() const { return steps < mostSteps; }

  /// Start and end a recorded step. `stream` is idle at the start; all streams
  /// are idle at the end.
  Status startStep(int64_t number, cudaStream_t stream);
  Status collectStep();

  /// Start and end a task, given by its index. A task that is not started takes
  /// no time.
  Status begin(int task, cudaStream_t stream);
  Status end(int task, cudaStream_t stream);

  /// Events in the order of the plan, like those of RankExecutor.
  const std::vector<TraceLane> &traceLanes() const { return lanes; }
  void forget();

private:
  struct Span {
    cudaEvent_t begin = nullptr, end = nullptr;
    bool isBegun = false, isEnded = false;
  };

  DeviceTrace(const CudaApi &cuda, const Plan &plan, int rank,
              const std::vector<Task> &tasks);
  Status makeEvent(cudaEvent_t &event);
  /// The time of an event on the clock of nowSeconds() at the first event of a
  /// step.
  Expected<double> secondsOf(cudaEvent_t event) const;

  const CudaApi &cuda;
  const std::vector<Task> &tasks;
  int64_t mostSteps, steps = 0;
  std::vector<cudaEvent_t> events;
  std::vector<Span> spans; ///< by task
  cudaEvent_t origin = nullptr;
  double originSeconds = 0; ///< nowSeconds()
  int64_t number = 0;       ///< of the step
  std::vector<TraceLane> lanes;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_DEVICETRACE_H
