//===- StepEstimate.h - What the program of one rank costs ------*- C++ -*-===//
//
// Estimates time and memory from `@step`, or from `@step.0`, `@step.1`, ... of
// a pipeline (local altitude, kernels formed).
//
// Time: a simulation of the three queues of a rank.
//   * A computation starts after the previous computation, and after each
//     collective and fetch whose result it reads.
//   * A collective starts after the previous collective and after its operands
//     are computed. The result of an all_gather needs free memory, so an
//     all_gather also starts after all previous computations.
//   * A transfer between memory spaces starts after all previous computations
//     and after its operand is available.
// With M micro-batches, the forward and backward phases count M times.
//
// Time of a pipeline: each phase of each chunk is simulated alone in this way.
// Then `simulateSchedule` runs the tables of all stages (`dpc.schedule`) after
// setup. A message takes the time of its bytes on the worst link between a rank
// and its peer. Its send starts after the producer, and its recv ends before
// the first reader. Update starts on a stage when the table of the stage ends;
// at the first op that waits for other stages, all stages synchronize.
//
// Memory: the buffers that are live at each op. ir/StepBuffers.h defines which
// values share a buffer, and ir/Lifetimes.h contains the rules of lifetimes. A
// new parameter in a separate buffer is copied into the old buffer after the
// last read of the old value. Code generation places the buffers of its
// instructions by the same rules; the estimate and the arena agree within 2 %
// (tested).
//
// Memory of a pipeline with several live micro-batches: a value that crosses
// phases of a chunk is in the frame of the chunk. Each micro-batch that the
// schedule keeps alive has a frame, which is live throughout the loop. A value
// that is live in only one phase is in a gap of the frame if it fits. The
// buffer of a received message is live throughout the loop because the message
// may arrive at any time. If only one micro-batch is alive at a time, there are
// no frames.
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

/// The number of communications per step, by kind, axes and bytes.
using TrafficSums =
    std::map<std::tuple<cost::Collective, std::vector<std::string>, double>,
             double>;
/// Adds `more` to `sums`, multiplied by `times`.
void addTraffic(TrafficSums &sums, const TrafficSums &more, double times = 1);

/// Predicted time of all chunks of a stage for one micro-batch.
struct StageTime {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0;
  /// Seconds per step in which the stage waits for other stages.
  double idleSeconds = 0;
};

/// Predicted time of one step of one rank. For a pipeline, seconds are those of
/// the stage with the most computation, and bytes those of the stage that sends
/// the most bytes.
struct StepTime {
  double seconds = 0;
  double computeSeconds = 0;
  double exposedCommunicationSeconds = 0; ///< Includes exposed transfers.
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  /// The idle fraction of a step, averaged over the stages.
  double bubbleFraction = 0;
  /// Bytes that one rank sends per step, by level of the cluster.
  std::vector<double> bytesPerLevel;
  TrafficSums traffic;           ///< The traffic of all stages.
  std::vector<StageTime> stages; ///< The stages of a pipeline.
  /// See cost::Evaluation. Empty for a pipeline.
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

/// estimateTime for a pipeline.
Expected<StepTime> estimatePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                    const cost::Cluster &cluster,
                                    StepRecord *record = nullptr);

/// The owner of the buffers that are counted: a software, or the plan.
struct MemoryOwner {
  const cost::Software *software =
      nullptr;      ///< Null: the plan owns the buffers.
  int64_t zero = 0; ///< ZeRO stage
  double ranks = 1; ///< the number of ranks that ZeRO shards over
};

/// The peak of live bytes in the device memory of one rank that runs `step`,
/// without the memory that the software holds in addition (cost::heldMemory).
cost::MemoryPeak estimateMemory(mlir::func::FuncOp step,
                                const MemoryOwner &owner = {});

/// Live bytes at each op of opsInOrder(step), and after the last op. The
/// largest total is the peak.
std::vector<cost::MemoryBreakdown>
memoryOverStep(mlir::func::FuncOp step, const MemoryOwner &owner = {});

/// Live bytes at the ops of a step function of one chunk.
struct MemoryProfile {
  struct Moment {
    Phase phase = Phase::forward;
    /// Equal for ops with the same name and types. Aligns two profiles.
    size_t kind = 0;
    cost::MemoryBreakdown bytes; ///< Bytes outside the frame.
  };
  std::vector<Moment> moments; ///< One per op that does not communicate.
  /// The bytes of one micro-batch's frame and the phases that access the frame;
  /// empty without frames.
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

/// Memory profiles without frames (`inLine`) and with frames (`framed`).
struct MemoryProfiles {
  MemoryProfile inLine, framed;
};
/// Computes the requested profiles and leaves the others empty.
MemoryProfiles profileMemory(mlir::func::FuncOp step, bool inLine, bool framed,
                             const MemoryOwner &owner = {});

/// `phases` are the phases that access the frame of `chunk`. Returns the
/// largest number of micro-batches that are alive between the first and the
/// last of these phases.
int64_t countSlots(const std::vector<cost::ScheduleStep> &table, int64_t chunk,
                   const std::set<Phase> &phases);

/// Bytes that a rank keeps outside device memory.
struct OffloadedBytes {
  int64_t host = 0, disk = 0;
};
OffloadedBytes offloadedBytes(mlir::func::FuncOp step);

/// The entries of `dpc.schedule`. Without the attribute, each micro-batch runs
/// forward and backward before the next micro-batch starts.
std::vector<cost::ScheduleStep> scheduleOf(mlir::func::FuncOp step);

/// The ops of `step` without its terminator, in execution order.
llvm::SmallVector<mlir::Operation *> opsInOrder(mlir::func::FuncOp step);

/// The number of micro-batches of a step.
int64_t microBatchesOf(mlir::func::FuncOp step);

/// Whether `op` runs on the copy queue.
bool isTransfer(mlir::Operation *op);
} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPESTIMATE_H
