//===- StepEstimate.h - What the program of one rank costs ------*- C++ -*-===//
//
// Estimates time and memory from `@step`, or from `@step.0`, `@step.1`, ... of
// a pipeline (local altitude, kernels formed).
//
// Time: a simulation of the three queues of a rank.
//   * A computation starts after the previous one, and after each collective
//   and
//     fetch whose result it reads.
//   * A collective starts after the previous one and after its operands are
//     computed; an all_gather, whose result needs free memory, starts after all
//     previous computations.
//   * A transfer between memory spaces starts after all previous computations
//   and
//     after its operand is available.
// With M micro-batches the forward and backward phases count M times.
//
// Time of a pipeline: each phase of each chunk is simulated alone in this way.
// Then `simulateSchedule` runs the tables of all stages (`dpc.schedule`) after
// setup. A message takes the time of its bytes on the worst link between a rank
// and its peer; send starts it after the producer, and recv ends it before the
// first reader. Update starts on a stage when the table of the stage ends; at
// the first op that waits for other stages, all stages synchronize.
//
// Memory: which buffers are live at each op. ir/StepBuffers.h says which values
// share a buffer, and ir/Lifetimes.h contains the rules of lifetimes. A new
// parameter in a buffer of its own is copied into the old one after the last
// read of the old one. Code generation places the buffers of its instructions
// by the same rules; the estimate and the arena agree within 2 % (tested).
//
// Memory of a pipeline with several live micro-batches: a value that crosses
// phases of a chunk is in the frame of the chunk. There is one frame per
// micro-batch that the schedule keeps alive, throughout the loop. A value of
// one phase is in a gap of the frame if it fits. A received message has its
// buffer throughout the loop because it may arrive at any time. If only one
// micro-batch is alive at a time, there are no frames.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STEPESTIMATE_H
#define DPC_PASSES_PRICE_STEPESTIMATE_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/Placement.h"
#include "cost-model/search/Evaluation.h"
#include "cost-model/solve/PeakMemory.h"
#include "cost-model/strategy/Schedule.h"
#include "passes/cost/CollectivePricing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace dpc {

/// How often ranks communicate in a step, by kind, axes and bytes.
using TrafficSums =
    std::map<std::tuple<cost::Collective, std::vector<std::string>, double>,
             double>;
/// Adds `more`, `times` times.
void addTraffic(TrafficSums &sums, const TrafficSums &more, double times = 1);

/// Predicted time of all chunks of a stage, for one micro-batch.
struct StageTime {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0;
  double idleSeconds = 0; ///< Per step, waiting for other stages.
};

/// Predicted time of one step of one rank. In a pipeline, seconds are those of
/// the stage with most computation, and bytes those of the stage that sends
/// most.
struct StepTime {
  double seconds = 0;
  double computeSeconds = 0;
  double exposedCommunicationSeconds = 0; ///< With exposed transfers.
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  /// Idle share of a step, mean over the stages.
  double bubbleFraction = 0;
  /// Sent by one rank per step, by level of the cluster.
  std::vector<double> bytesPerLevel;
  TrafficSums traffic;           ///< Of all stages.
  std::vector<StageTime> stages; ///< Of a pipeline.
  /// See cost::Evaluation; only without a pipeline.
  std::vector<cost::LoopSeconds> groupSeconds;
};

/// Copies the predicted times into `evaluation`.
void setTime(cost::Evaluation &evaluation, const StepTime &time);

struct StepRecord;

/// Simulates the step functions of all stages on `cluster` and fills `record`
/// (StepRecord.h). Fails if stages wait for each other in a cycle.
Expected<StepTime> estimateTime(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                const cost::Cluster &cluster,
                                StepRecord *record = nullptr);

/// estimateTime for several stages.
Expected<StepTime> estimatePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                    const cost::Cluster &cluster,
                                    StepRecord *record = nullptr);

/// The software whose buffers are counted.
struct MemoryOwner {
  const cost::Software *software = nullptr; ///< Null: the plan's own.
  int64_t zero = 0;                         ///< ZeRO stage
  double ranks = 1;                         ///< that ZeRO shards over
};

/// The peak of live bytes in the device memory of one rank that runs `step`,
/// without what software holds in addition (cost::heldMemory).
cost::MemoryPeak estimateMemory(mlir::func::FuncOp step,
                                const MemoryOwner &owner = {});

/// Live bytes at each op of opsInOrder(step) and after the last one. The
/// largest sum is the peak.
std::vector<cost::MemoryBreakdown>
memoryOverStep(mlir::func::FuncOp step, const MemoryOwner &owner = {});

/// Live bytes at the ops of a step function of one chunk.
struct MemoryProfile {
  struct Moment {
    Phase phase = Phase::forward;
    /// Equal for ops with the same name and types; aligns two profiles.
    size_t kind = 0;
    cost::MemoryBreakdown bytes; ///< Without the frame.
  };
  std::vector<Moment> moments; ///< At ops that do not communicate.
  /// Bytes of the frame of one micro-batch, and the phases that access it;
  /// empty without frames.
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

/// Profiles without frames (`inLine`) and with frames.
struct MemoryProfiles {
  MemoryProfile inLine, framed;
};
/// Computes the requested profiles; the others are empty.
MemoryProfiles profileMemory(mlir::func::FuncOp step, bool inLine, bool framed,
                             const MemoryOwner &owner = {});

/// The most micro-batches that are alive between the first and the last of
/// `phases` of `chunk`, the phases that access its frame.
int64_t countSlots(const std::vector<cost::ScheduleStep> &table, int64_t chunk,
                   const std::set<Phase> &phases);

/// Bytes that a rank keeps outside device memory.
struct OffloadedBytes {
  int64_t host = 0, disk = 0;
};
OffloadedBytes offloadedBytes(mlir::func::FuncOp step);

/// The entries of `dpc.schedule`; without the attribute, forward and backward
/// of one micro-batch after the other.
std::vector<cost::ScheduleStep> scheduleOf(mlir::func::FuncOp step);

/// The ops of `step` without its terminator, in the order in which they run.
llvm::SmallVector<mlir::Operation *> opsInOrder(mlir::func::FuncOp step);

/// The number of micro-batches of a step.
int64_t microBatchesOf(mlir::func::FuncOp step);

/// Whether the copy queue runs `op`.
bool isTransfer(mlir::Operation *op);
} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPESTIMATE_H
