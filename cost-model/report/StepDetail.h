//===- StepDetail.h - The simulated step ------------------------*- C++ -*-===//
//
// The details of the chosen plan for the report. Tests check that they agree
// with the prediction: the last phase ends at the predicted time, the largest
// MemoryMoment is the predicted peak, and on each level the largest traffic of
// a stage is the predicted traffic.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/solve/PeakMemory.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dpc::cost {

/// A queue is busy from `begin` to `end`, in seconds since the phase began.
struct BusyInterval {
  double begin = 0, end = 0;
  int64_t label = -1; ///< Index in StepDetail::labels; -1 = computation.
};

/// A phase of a stage for one micro-batch.
struct DetailPhase {
  std::string name; ///< "forward"; "forward.1" for later virtual stages.
  double seconds = 0;
  std::vector<BusyInterval> compute, communication, copy;
  /// When the phase waits for other stages, in seconds since the phase began.
  double waitBegin = 0, waitEnd = 0;
};

/// One execution of a phase; `begin` is in seconds since the step began.
struct DetailEntry {
  int64_t phase = 0;
  int64_t microBatch = 0;
  double begin = 0;
};

struct DetailStage {
  std::vector<DetailPhase> phases;
  std::vector<DetailEntry> entries;
};

/// The messages of one kind along the same axes that one rank of a stage sends
/// in a step.
struct DetailTraffic {
  int64_t stage = 0;
  int64_t label = 0; ///< Index in StepDetail::labels.
  double times = 0;
  double seconds = 0; ///< The transfer time, hidden or exposed.
  std::vector<double> bytesPerLevel;
};

struct MemoryMoment {
  double at = 0; ///< In seconds, if phases ran one after another.
  MemoryBreakdown bytes;
};

/// The sharding of an operator with a weight, or of an attention operator.
struct OperatorSharding {
  std::string name;  ///< The weight's name; "*" for the number of a layer.
  int64_t count = 1; ///< How many operators have the same sharding.
  std::string op;    ///< "matmul"
  /// "column parallel (tp)", "row parallel (tp)", "replicated", ...
  std::string kind;
  std::string shape;  ///< "4096 x 1024"
  std::string stored; ///< The stored sharding: "[dp, tp]"
  /// The sharding of the weight, or of the queries, that the operator reads.
  std::string used;
  std::string result; ///< The sharding of the result: "[dp, -, tp]", "...
                      ///< partial over tp"
};

struct StepDetail {
  double stepSeconds = 0;
  double hostSeconds = 0;          ///< Host time after the last entry.
  std::vector<std::string> labels; ///< "all_reduce over tp"
  std::vector<DetailStage> stages;
  std::vector<DetailTraffic> traffic;
  int64_t fullestStage = 0;
  std::vector<MemoryMoment> memory; ///< Of the fullest stage.
  std::vector<OperatorSharding> operators;
  double fp8Share = 0; ///< The fraction of FLOPs in fp8, over all ranks.

  bool empty() const { return stages.empty(); }
};

/// Returns "timeline", "traffic", "memory" and "operators" of report.json.
/// Times are whole numbers of "tick_seconds". A long timeline omits stages in
/// the middle and joins intervals that are close to each other.
nlohmann::ordered_json detailToJson(const StepDetail &detail,
                                    const Cluster &cluster);

} // namespace dpc::cost
