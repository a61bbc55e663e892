//===- HostValues.h - values between host and device in a step --*- C++ -*-===//
//
// Inputs, scalars and outputs of a step are in pinned memory at fixed
// addresses, so that a graph can use them in every step.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_HOSTVALUES_H
#define DPC_RUNTIME_CUDA_HOSTVALUES_H

#include "runtime/cuda/CudaApi.h"
#include "runtime/cuda/MessagePlan.h"
#include "runtime/exec/Executor.h"

#include <map>
#include <vector>

namespace dpc::rt {

/// A range of pinned memory.
struct Pinned {
  char *data = nullptr;
  int64_t bytes = 0;
};

/// Pinned memory that is freed with this object.
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

/// Prepares inputs and scalars on the host and receives outputs there.
class HostValues {
public:
  /// The arguments must outlive this object. `fill` is the byte that fills
  /// input padding.
  HostValues(const Plan &plan, const DeviceProgram &program, int rank,
             unsigned char fill)
      : plan(plan), program(program), rank(rank),
        stage(plan.mesh.stageOf(rank)), fill(fill) {}

  /// Allocates pinned memory for the inputs, outputs and scalars of the rank.
  Status bind(PinnedMemory &memory);
  /// The pinned memory of a load_input or store_output task, by the task's
  /// index.
  const Pinned &of(int task) const { return staged.at(task); }

  /// Sets the "skips" counter of every scalar that has one. Later steps copy
  /// the counter from the device. `read` returns the bytes of a buffer, or
  /// nullptr.
  void setSkips(const std::function<const char *(int buffer)> &read);
  /// Sets the scalars and inputs of a step.
  void takeInputs(const StepData &data);
  /// Copies the outputs of a finished step to `data`.
  void takeOutputs(const StepData &data) const;

  /// Copies the scalars to the arena at the beginning of a step.
  Status sendScalars(const CudaApi &cuda, char *arena,
                     cudaStream_t stream) const;
  /// At the end of a step, copies the counters and the outputs that have no
  /// store_output from the arena.
  Status fetchOutputs(const CudaApi &cuda, const char *arena,
                      cudaStream_t stream) const;

private:
  bool holds(int buffer) const { return plan.buffers[buffer].stage == stage; }

  const Plan &plan;
  const DeviceProgram &program;
  int rank;
  int64_t stage;
  unsigned char fill;
  std::map<int, Pinned> staged; ///< by task: load_input, store_output
  std::map<size_t, Pinned> taken, scalars, skips; ///< outputs; scalar inputs
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_HOSTVALUES_H
