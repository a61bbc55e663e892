//===- StepDetail.h - What the simulated step looks like --------*- C++ -*-===//
//
// What a reader of the report wants to see of the chosen plan beside its sums:
// the schedule of every stage, what its phases do on which queue, the fullest
// rank's memory over them, who sends what over which level, and how operators
// are split. All of it is what the predicted numbers were summed up from: the
// last end is the step's seconds, the largest moment the peak, the most that a
// stage sends the bytes of a level (tested).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_REPORT_STEPDETAIL_H
#define DPC_COST_MODEL_REPORT_STEPDETAIL_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// A queue is busy from `begin` to `end`, in seconds since the phase began.
struct BusyInterval {
  double begin = 0, end = 0;
  int64_t label = -1; ///< Of what, in StepDetail::labels; -1: computation.
};

/// A phase of a stage for one micro-batch.
struct DetailPhase {
  std::string name; ///< "forward", of later chunks "forward.1"
  double seconds = 0;
  std::vector<BusyInterval> compute, communication, copy;
  /// From when to when it waits for other stages.
  double waitBegin = 0, waitEnd = 0;
};

/// A run of a phase, in seconds since the step began.
struct DetailEntry {
  int64_t phase = 0;
  int64_t microBatch = 0;
  double begin = 0;
};

struct DetailStage {
  std::vector<DetailPhase> phases;
  std::vector<DetailEntry> entries;
};

/// What one rank of a stage sends in a step, of one kind along the same axes.
struct DetailTraffic {
  int64_t stage = 0;
  int64_t label = 0; ///< Index in StepDetail::labels.
  double times = 0;
  double seconds = 0; ///< On the wire, hidden or not.
  std::vector<double> bytesPerLevel;
};

/// What a rank holds at a time.
struct MemoryMoment {
  double at = 0; ///< Seconds since the first phase, one after the other.
  MemoryBreakdown bytes;
};

/// How an operator of the model with a weight, or an attention, is split.
struct OperatorSharding {
  std::string name;  ///< Of its weight; "*" where layers differ by a number.
  int64_t count = 1; ///< Of operators that are alike.
  std::string op;    ///< "matmul"
  /// "column parallel (tp)", "row parallel (tp)", "replicated", ...
  std::string kind;
  std::string shape;  ///< "4096 x 1024"
  std::string stored; ///< How a rank keeps it: "[dp, tp]"
  std::string used;   ///< How the operator reads it.
  std::string result; ///< What it makes: "[dp, -, tp]", "... partial over tp"
};

struct StepDetail {
  double stepSeconds = 0;
  double hostSeconds = 0;          ///< Of these, behind all entries.
  std::vector<std::string> labels; ///< "all_reduce over tp"
  std::vector<DetailStage> stages;
  std::vector<DetailTraffic> traffic;
  int64_t fullestStage = 0;
  std::vector<MemoryMoment> memory; ///< Of the fullest stage.
  std::vector<OperatorSharding> operators;
  double fp8Share = 0; ///< Of the operations of all ranks: those in fp8.

  bool empty() const { return stages.empty(); }
};

/// "timeline", "traffic", "memory" and "operators" of report.json. Times are
/// whole numbers of "tick_seconds". Where there is too much to draw, entries of
/// stages in the middle, and gaps between collectives of one kind, are left
/// out.
nlohmann::ordered_json detailToJson(const StepDetail &detail,
                                    const Cluster &cluster);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_STEPDETAIL_H
