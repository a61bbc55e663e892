//===- StepEstimate.h - What the program of one rank costs ------*- C++ -*-===//
//
// Estimates time and memory from the local program with kernels: `@step`, or
// `@step.0`, `@step.1`, ... of a pipeline.
//
// Time: the three queues of a rank are simulated. A computation starts after
// the previous computation, and after the collectives and fetches whose results
// it reads. A collective starts after the previous collective (of its axes, if
// the software has a queue for each), and after its operands are computed. An
// all_gather also starts after all previous computations, because its result
// needs free memory. A transfer between memory spaces starts after all previous
// computations, and after its operand is available. With m micro-batches,
// forward and backward count m times.
//
// Time of a pipeline: each phase of each chunk is simulated alone. Then
// `simulateSchedule` runs the schedules of all stages (`dpc.schedule`), which
// begin after setup. A message takes as long as its bytes need on the slowest
// link between a rank and its peer. A send starts after its operand is
// computed, and a recv ends before the first reader starts. A stage starts its
// update at the end of its schedule. All stages synchronize at the first op
// that waits for other stages.
//
// Memory: the buffers that are live at each op. ir/StepBuffers.h defines which
// values share a buffer, and ir/Lifetimes.h contains the rules of lifetimes. A
// new parameter in a separate buffer is copied into the old buffer after the
// last read of the old value. Code generation places buffers by the same rules.
// The estimate and the size of the arena agree within 2 % (tested).
//
// Memory of a pipeline with several live micro-batches: a value that is live in
// several phases of a chunk is in the frame of the chunk. Each live micro-batch
// has a frame, and frames are live throughout the loop. A value that is live in
// only one phase is in a gap of the frame if it fits. The buffer of a received
// message is live throughout the loop because the message may arrive at any
// time. With one live micro-batch at a time, there are no frames.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/Placement.h"
#include "cost-model/search/Evaluation.h"
#include "cost-model/solve/PeakMemory.h"
#include "cost-model/strategy/Schedule.h"
#include "passes/cost/CollectivePricing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace dpc {

/// The number of collectives and messages per step, by kind, axes and bytes.
using TrafficSums =
    std::map<std::tuple<cost::Collective, std::vector<std::string>, double>,
             double>;
void addTraffic(TrafficSums &sums, const TrafficSums &more, double times = 1);

/// The predicted seconds of a stage, for all its chunks and one micro-batch.
struct StageTime {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0;
  /// Seconds per step during which the stage waits for other stages.
  double idleSeconds = 0;
};

/// The predicted time of a step on one rank. For a pipeline, compute and
/// exposed communication are those of the stage with the most computation;
/// bytes and transfers are maxima over the stages.
struct StepTime {
  double seconds = 0;
  double computeSeconds = 0;
  double exposedCommunicationSeconds = 0; ///< Includes exposed transfers.
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  /// The idle fraction of a step, averaged over the stages.
  double bubbleFraction = 0;
  /// Bytes that one rank sends per step, by level of the cluster.
  std::vector<double> bytesPerLevel;
  TrafficSums traffic;
  std::vector<StageTime> stages; ///< Empty without a pipeline.
  /// See cost::Evaluation. Empty for a pipeline.
  std::vector<cost::LoopSeconds> groupSeconds;
  std::string whyEven; ///< See cost::Evaluation.
};

void setTime(cost::Evaluation &evaluation, const StepTime &time);

struct StepRecord;

/// Simulates the step functions of all stages on `cluster`. Fills `record`
/// (StepRecord.h) unless it is null. Fails if stages deadlock.
Expected<StepTime> estimateTime(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                const cost::Cluster &cluster,
                                StepRecord *record = nullptr);

Expected<StepTime> estimatePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                    const cost::Cluster &cluster,
                                    StepRecord *record = nullptr);

/// The owner of the buffers to count: a training framework, or the plan.
struct MemoryOwner {
  /// Null if the plan owns the buffers.
  const cost::Software *software = nullptr;
  int64_t zero = 0; ///< ZeRO stage
  double ranks = 1; ///< number of ranks over which ZeRO shards
};

/// Returns the peak of live bytes in the device memory of one rank that runs
/// `step`, without the memory that the software adds (cost::heldMemory).
cost::MemoryPeak estimateMemory(mlir::func::FuncOp step,
                                const MemoryOwner &owner = {});

/// Returns the live bytes at each op of opsInOrder(step) and after the last op.
/// The largest total is the peak.
std::vector<cost::MemoryBreakdown>
memoryOverStep(mlir::func::FuncOp step, const MemoryOwner &owner = {});

/// The live bytes at the ops of a step function with one chunk.
struct MemoryProfile {
  struct Moment {
    Phase phase = Phase::forward;
    /// Equal for ops with the same name and types.
    size_t kind = 0;
    cost::MemoryBreakdown bytes;
  };
  std::vector<Moment> moments; ///< One per op that does not communicate.
  /// The bytes of one slot of the frame. Zero without a frame.
  cost::MemoryBreakdown slot;
  /// The phases that access the frame.
  std::set<Phase> framePhases;
};

/// Profiles without frames (`inLine`) and with frames (`framed`).
struct MemoryProfiles {
  MemoryProfile inLine, framed;
};
MemoryProfiles profileMemory(mlir::func::FuncOp step, bool inLine, bool framed,
                             const MemoryOwner &owner = {});

/// Returns the largest number of micro-batches that are alive at once between
/// the first and the last of `phases`, which access the frame of `chunk`.
int64_t countSlots(const std::vector<cost::ScheduleStep> &table, int64_t chunk,
                   const std::set<Phase> &phases);

struct OffloadedBytes {
  int64_t host = 0, disk = 0;
};
OffloadedBytes offloadedBytes(mlir::func::FuncOp step);

/// Returns the entries of `dpc.schedule`. Without the attribute, each
/// micro-batch runs forward and backward before the next one starts.
std::vector<cost::ScheduleStep> scheduleOf(mlir::func::FuncOp step);

/// Returns the ops of `step` in execution order, without the terminator.
llvm::SmallVector<mlir::Operation *> opsInOrder(mlir::func::FuncOp step);

int64_t microBatchesOf(mlir::func::FuncOp step);

/// Returns true if `op` runs on the copy queue.
bool isTransfer(mlir::Operation *op);
} // namespace dpc
