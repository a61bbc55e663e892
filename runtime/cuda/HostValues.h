//===- HostValues.h - values between host and device in a step --*- C++ -*-===//
//
// The inputs, scalars and outputs of a step are in pinned memory. Their
// addresses never change, so that a CUDA graph can use them in every step.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/CudaApi.h"
#include "runtime/cuda/MessagePlan.h"
#include "runtime/exec/Executor.h"

#include <map>
#include <vector>

namespace dpc::rt {

struct Pinned {
  char *data = nullptr;
  int64_t bytes = 0;
};

class PinnedMemory {
public:
  explicit PinnedMemory(const CudaApi &cuda) : cuda(cuda) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;

  Expected<Pinned> take(int64_t bytes);

private:
  const CudaApi &cuda;
  std::vector<void *> taken;
};

class HostValues {
public:
  /// The arguments must outlive this object. `fill` is the byte of padding.
  HostValues(const Plan &plan, const DeviceProgram &program, int rank,
             unsigned char fill)
      : plan(plan), program(program), rank(rank),
        stage(plan.mesh.stageOf(rank)), fill(fill) {}

  Status bind(PinnedMemory &memory);
  /// Returns the pinned memory of a load_input or store_output task.
  const Pinned &of(int task) const { return staged.at(task); }

  /// Sets the numbers of skipped steps (ScalarInput::skips) before the first
  /// step. `read` returns the bytes of a buffer, or null.
  void setSkips(const std::function<const char *(int buffer)> &read);
  /// Writes the scalars and inputs of a step to pinned memory.
  void takeInputs(const StepData &data);
  /// Copies the outputs of a finished step from pinned memory to `data`.
  void takeOutputs(const StepData &data) const;

  /// Copies the scalars to the arena. Submitted at the beginning of a step.
  Status sendScalars(const CudaApi &cuda, char *arena,
                     cudaStream_t stream) const;
  /// Copies the numbers of skipped steps, and the outputs that no store_output
  /// task stores, to pinned memory. Submitted at the end of a step.
  Status fetchOutputs(const CudaApi &cuda, const char *arena,
                      cudaStream_t stream) const;

private:
  bool holds(int buffer) const { return plan.buffers[buffer].stage == stage; }

  const Plan &plan;
  const DeviceProgram &program;
  int rank;
  int64_t stage;
  unsigned char fill;
  std::map<int, Pinned> staged;                   ///< by task
  std::map<size_t, Pinned> taken, scalars, skips; ///< by output; by scalar
};

} // namespace dpc::rt
