//===- DeviceTrace.h - when instructions ran on a GPU -----------*- C++ -*-===//
//
// An event before and one behind each instruction, on its stream; their times
// are read when the step is over. The first event of a step is given to a
// stream that has nothing to do: it happens when it is given, which ties the
// device's clock to the host's.
//
// The events of a step would be nodes of its graph, which have no times: steps
// that are recorded are given to the streams instruction by instruction.
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
  /// `tasks`: the rank's, in the order of the plan; they outlive this.
  static Expected<std::unique_ptr<DeviceTrace>>
  create(const CudaApi &cuda, const Plan &plan, int rank,
         const std::vector<Task> &tasks);
  ~DeviceTrace();

  /// Whether the next step is recorded.
  bool wantsStep() const { return steps < mostSteps; }

  /// Around a step that is recorded. `stream` is idle; all streams are when the
  /// step is collected.
  Status startStep(int64_t number, cudaStream_t stream);
  Status collectStep();

  /// Around a task, by its index. One that is not begun takes no time.
  Status begin(int task, cudaStream_t stream);
  Status end(int task, cudaStream_t stream);

  /// As RankExecutor's: events are in the order of the plan.
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
  Status record(cudaEvent_t event, cudaStream_t stream) const;
  /// nowSeconds() of an event.
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
