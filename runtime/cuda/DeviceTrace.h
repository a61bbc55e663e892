//===- DeviceTrace.h - times of instructions on a GPU -----------*- C++ -*-===//
//
// A CUDA event is recorded before and after each instruction on its stream. The
// times of the events are read at the end of the step. The first event of a
// step aligns the device's clock with the host's clock: its stream is idle, so
// that the event happens immediately.
//
// Events in a CUDA graph have no times. Traced steps are therefore submitted to
// the streams instruction by instruction, without a graph.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudaApi.h"
#include "runtime/exec/RankProgram.h"
#include "runtime/observe/Trace.h"

#include <memory>

namespace dpc::rt {

class DeviceTrace {
public:
  /// `tasks` are in the order of the plan and must outlive this object.
  static Expected<std::unique_ptr<DeviceTrace>>
  create(const CudaApi &cuda, const Plan &plan, int rank,
         const std::vector<Task> &tasks);
  ~DeviceTrace();

  bool wantsStep() const { return steps < mostSteps; }

  /// Start and end a recorded step. `stream` must be idle at the start, and all
  /// streams at the end.
  Status startStep(int64_t number, cudaStream_t stream);
  Status collectStep();

  /// Record the start and the end of a task, which is given by its index.
  /// Without begin(), the recorded duration is 0.
  Status begin(int task, cudaStream_t stream);
  Status end(int task, cudaStream_t stream);

  /// Returns the recorded times in the order of the plan.
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
  /// Converts the time of an event to the clock of nowSeconds().
  Expected<double> secondsOf(cudaEvent_t event) const;

  const CudaApi &cuda;
  const std::vector<Task> &tasks;
  int64_t mostSteps, steps = 0;
  std::vector<cudaEvent_t> events;
  std::vector<Span> spans; ///< by task
  cudaEvent_t origin = nullptr;
  double originSeconds = 0; ///< nowSeconds() at `origin`
  int64_t number = 0;       ///< of the current step
  std::vector<TraceLane> lanes;
};

} // namespace dpc::rt
