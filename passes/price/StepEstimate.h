//===- StepEstimate.h - What the program of one rank costs ------*- C++ -*-===//
//
// Two estimates from `@step`, or from `@step.0`, `@step.1`, ... of a pipeline
// (local altitude, kernels formed):
//
// Time: a simulation of the three queues of a rank. A computation starts when
// the one before it has ended and every collective whose results it reads has;
// a collective when the one before it and what makes its operands have; a
// gather, for which there is room no earlier, when all computations before it
// have. A transfer between memory spaces starts when all computations before it
// have, and what it reads is there; computations wait for what it fetches, and
// so do collectives. With M
// micro-batches the forward and backward phases count M times.
//
// Time of a pipeline: each phase of each chunk is run alone like that, then
// `simulateSchedule` runs the stages' tables (`dpc.schedule`), after setup. A
// message is under way from its send, behind the producer, until its recv,
// before the first reader, for the time of its bytes on the worst link between
// a rank and its peer. Update starts on a stage when its table has ended; from
// the first op on that waits for other stages, all stages go on together.
//
// Memory: which buffers are live at each op. A value has a buffer unless
//   * it is a reshape or marked `dpc.view` (part of its operand's buffer);
//   * it is an updated parameter or state (the argument's buffer);
//   * it is an all_reduce whose operand nobody reads later (that buffer);
//   * it is a gather of a parameter's next value, in one piece, and nobody
//     reads the old one later (the argument's buffer);
//   * it is a sum over micro-batches that a product adds up (the product's
//     result, which lies where the sum lies);
// accumulated values live from setup on; buffers of a collective stay until a
// computation has waited for it. A new parameter in a buffer of its own is
// copied into the old one as soon as nobody reads that. Code generation lays
// out its arena from its instructions, by other code: the two must agree
// (tested).
//
// Memory of several micro-batches at once (pipelines): a value that one phase
// of a chunk makes and another reads lies in the chunk's frame, of which there
// is one per micro-batch that the schedule keeps alive, all through the loop; a
// value of one phase only lies in a gap of its frame where it fits. A message
// that comes in has its buffer through all of the loop, as it comes when it
// likes. Where one micro-batch is alive at a time there are no frames.
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

/// What ranks send in a step: how often, by kind, axes and bytes.
using TrafficSums =
    std::map<std::tuple<cost::Collective, std::vector<std::string>, double>,
             double>;
/// Adds `times` times what is in `more`.
void addTraffic(TrafficSums &sums, const TrafficSums &more, double times = 1);

/// Predicted time of a rank stage: its phases for one micro-batch, all chunks.
struct StageTime {
  double forwardSeconds = 0;
  double backwardSeconds = 0;
  double weightSeconds = 0;
  double idleSeconds = 0; ///< Per step, waiting for other stages.
};

/// Predicted time of one step of one rank: of a pipeline that of the stage with
/// most computation, and bytes of the one that sends most.
struct StepTime {
  double seconds = 0;
  double computeSeconds = 0;
  double exposedCommunicationSeconds = 0; ///< Transfers count as well.
  double transferSeconds = 0; ///< Between memory spaces, hidden or not.
  /// Idle share of a step, mean over the stages.
  double bubbleFraction = 0;
  /// Sent by one rank per step, by level of the cluster.
  std::vector<double> bytesPerLevel;
  TrafficSums traffic;           ///< Of all stages.
  std::vector<StageTime> stages; ///< Of a pipeline.
  /// As in cost::Evaluation; of one stage.
  std::vector<cost::LoopSeconds> groupSeconds;
};

/// Copies what is predicted of time.
void setTime(cost::Evaluation &evaluation, const StepTime &time);

struct StepRecord;

/// Simulates the step functions of all stages on `cluster`. An error where the
/// stages would wait for each other for ever. Fills `record` (StepRecord.h).
Expected<StepTime> estimateTime(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                const cost::Cluster &cluster,
                                StepRecord *record = nullptr);

/// The same where there are several stages.
Expected<StepTime> estimatePipeline(llvm::ArrayRef<mlir::func::FuncOp> steps,
                                    const cost::Cluster &cluster,
                                    StepRecord *record = nullptr);

/// Whose buffers are counted.
struct MemoryOwner {
  const cost::Software *software = nullptr; ///< Null: the plan's own.
  int64_t zero = 0;                         ///< ZeRO stage,
  double ranks = 1;                         ///< and the ranks it splits over.
};

/// The peak of live bytes of one rank that runs `step`, in the device's memory;
/// what software holds besides is not in it (cost::heldMemory).
cost::MemoryPeak estimateMemory(mlir::func::FuncOp step,
                                const MemoryOwner &owner = {});

/// Live bytes by op of opsInOrder(step), and behind them all: the largest sum
/// is the peak.
std::vector<cost::MemoryBreakdown>
memoryOverStep(mlir::func::FuncOp step, const MemoryOwner &owner = {});

/// Live bytes of a step function of one chunk over its ops.
struct MemoryProfile {
  struct Moment {
    Phase phase = Phase::forward;
    /// Equal for ops of one kind: to find the places where two profiles agree.
    size_t kind = 0;
    cost::MemoryBreakdown bytes; ///< Without the frame.
  };
  std::vector<Moment> moments; ///< Of ops that do not communicate.
  /// One micro-batch's slot of the frame, and the phases that touch it; nothing
  /// where one micro-batch follows the other.
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

/// One micro-batch after the other, and several at once.
struct MemoryProfiles {
  MemoryProfile inLine, framed;
};
/// Those that are wanted; others are empty.
MemoryProfiles profileMemory(mlir::func::FuncOp step, bool inLine, bool framed,
                             const MemoryOwner &owner = {});

/// Slots of a frame that `phases` of `chunk` touch: micro-batches alive between
/// the first of them and the last.
int64_t countSlots(const std::vector<cost::ScheduleStep> &table, int64_t chunk,
                   const std::set<Phase> &phases);

/// What a rank that runs `step` keeps outside of it.
struct OffloadedBytes {
  int64_t host = 0, disk = 0;
};
OffloadedBytes offloadedBytes(mlir::func::FuncOp step);

/// The table of a step function: `dpc.schedule`, or forward and backward of one
/// micro-batch after the other.
std::vector<cost::ScheduleStep> scheduleOf(mlir::func::FuncOp step);

/// The ops of `step` without its terminator, in the order in which they run.
llvm::SmallVector<mlir::Operation *> opsInOrder(mlir::func::FuncOp step);

/// Micro-batches of a step.
int64_t microBatchesOf(mlir::func::FuncOp step);

/// True for ops that the copy queue runs.
bool isTransfer(mlir::Operation *op);
} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPESTIMATE_H
