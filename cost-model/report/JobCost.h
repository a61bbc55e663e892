//===- JobCost.h - Time, money and energy of a whole job --------*- C++ -*-===//
//
// A job processes a number of tokens, step by step, on all devices of a
// cluster. Devices fail independently of each other; the times between
// failures have an exponential distribution. A failure ends the job, which
// restarts from its last checkpoint.
//
// With the mean time M between failures of the job, d seconds per checkpoint, R
// seconds per restart and a checkpoint after every t seconds of work, work of W
// seconds takes (J. T. Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", FGCS 22, 2006, section 3)
//
//   M e^(R / M) (e^((t + d) / M) - 1) W / t
//
// seconds on average. Its derivative by t is zero where
//
//   e^(-(t + d) / M) = 1 - t / M
//
// which is close to sqrt(2 d M) (J. W. Young, CACM 17, 1974) if d is far below
// M.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/report/JobTerms.h"
#include "cost-model/report/TextLines.h"
#include "cost-model/search/PredictionErrors.h"
#include "cost-model/search/Search.h"
#include "cost-model/search/WhatIf.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace dpc::cost {

/// All values are means; their unit is the second unless a comment says
/// otherwise.
struct Failures {
  double between = 0; ///< Of the whole job.
  double checkpoint = 0;
  double restart = 0;
};

/// Returns the mean seconds that `work` seconds of steps take, with a
/// checkpoint after every `interval` seconds of steps. Infinite if failures are
/// too frequent for a double.
double secondsWithFailures(double work, double interval,
                           const Failures &failures);

/// Returns the seconds of steps between checkpoints that minimize
/// secondsWithFailures. `failures.checkpoint` must be above 0.
double bestCheckpointInterval(const Failures &failures);

struct JobCost {
  JobTerms terms;
  int64_t devices = 0; ///< All devices of the cluster, also idle ones.
  double steps = 0;
  double stepSeconds = 0; ///< Of all steps together.
  Failures failures;
  double checkpointInterval = 0; ///< Seconds of steps; 0: no checkpoints.
  double seconds = 0;            ///< With failures and checkpoints.
  ErrorInterval error;           ///< Factors of the times.
  /// The energy of all devices at their board power, without hosts, network and
  /// cooling; 0 if the board power of a device is unknown.
  double joules = 0;

  double deviceHours() const {
    return static_cast<double>(devices) * seconds / 3600;
  }
  /// The part of the time in which steps make progress.
  double goodput() const { return stepSeconds / seconds; }
  double price() const {
    return deviceHours() * terms.pricePerHour.value_or(0);
  }
};

/// Returns the cost of the job that `terms` describe, if a step takes
/// `stepSeconds`. Only the `ranks` devices of the plan fail and write
/// checkpoints; all devices of the cluster are paid. Inference has no
/// checkpoints, and failures cost it nothing.
JobCost costOfJob(const JobTerms &terms, const Cluster &cluster,
                  const ModelTotals &totals, double stepSeconds, int64_t ranks);

/// A cluster, the plan for it and the cost of the job.
struct ClusterAnswer {
  int64_t nodes = 0, devices = 0;
  WhatIf plan; ///< `change` names the cluster.
  std::optional<JobCost> job;
};

/// The answer to --deadline.
struct DeadlineAnswer {
  double seconds = 0; ///< The deadline.
  std::string why;    ///< Why no cluster meets it, or "".
  ClusterAnswer cluster;
};

/// "15T", "300B", "1.5M", "2K" or a number as a number above 0.
std::optional<double> parseAmount(const std::string &word);
/// "30d", "12h", "10m" or "90s" as seconds above 0.
std::optional<double> parseDuration(const std::string &word);
/// "41.2 days", "3.1 h", "18 min", "42 s": at most three digits.
std::string formatDuration(double seconds);
/// "15T", "1.25B": at most three digits.
std::string formatAmount(double amount);

/// Returns a sentence about the cost. `unit`: "tokens" or "samples".
std::string jobText(const JobCost &job, std::string_view unit);
std::string deadlineText(const DeadlineAnswer &answer);
/// Returns a table with a line for each cluster.
Block clustersBlock(const std::vector<ClusterAnswer> &answers,
                    std::string_view unit, const TextForm &form);

nlohmann::ordered_json jobToJson(const JobCost &job);
nlohmann::ordered_json clusterAnswerToJson(const ClusterAnswer &answer);
nlohmann::ordered_json deadlineToJson(const DeadlineAnswer &answer);

} // namespace dpc::cost
