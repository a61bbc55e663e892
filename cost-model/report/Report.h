//===- Report.h - report.json and the strategy table ------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_REPORT_REPORT_H
#define DPC_COST_MODEL_REPORT_REPORT_H

#include "cost-model/search/BetterPlan.h"
#include "cost-model/search/Search.h"
#include "cost-model/report/StepDetail.h"
#include "cost-model/report/TextLines.h"
#include "cost-model/search/WhatIf.h"

#include <map>
#include <set>

namespace dpc::cost {

/// What was run in one process against one device before anything was written.
struct Verification {
  enum class Scope { none, full, shrunk };
  Scope scope = Scope::none;
  std::string why; ///< Of none: why nothing was run.
  /// Of what was run; of the shrunk model where that was run.
  Strategy strategy;
  int64_t ranks = 1, globalBatch = 1;
  bool inFp32 = false;       ///< A narrower compute type was replaced by fp32.
  int64_t outputs = 0;       ///< Compared outputs of all steps,
  int64_t tensors = 0;       ///< parameters, buffers and states.
  double outputError = 0;    ///< Largest of an output, relative to its largest.
  double toleranceShare = 0; ///< Largest error relative to its tolerance.
  /// Tolerances grew by what the model makes of rounding on one device.
  bool isSensitive = false;
  double seconds = 0;

  /// Of the shrunk model: tensors lie as for the large one's sizes; layers, and
  /// sizes of dimensions.
  bool keepsLayouts = true;
  struct Layers {
    int64_t ops, before, after;
  };
  std::vector<Layers> layers;
  std::map<int64_t, std::set<int64_t>> sizes; ///< New sizes by old size.
};

/// What only the caller knows.
struct ReportContext {
  std::string model;                ///< Name or path of the model.
  std::vector<std::string> trained; ///< Parameter names.
  std::vector<std::string> frozen;  ///< Parameter names.
  std::vector<std::string> remarks; ///< Warnings worth reading.
  Verification verification;
  StepDetail detail = {};                ///< Of the chosen plan; may be empty.
  std::vector<WhatIf> whatIfs = {};      ///< Of --what-if.
  std::optional<BetterPlan> better = {}; ///< Of --strategy=@FILE.
  std::string readAs = {};               ///< How that FILE was read.
};

/// Version of report.json.
inline constexpr int reportVersion = 1;

/// report.json: {"version", "model", "cluster", "chosen": {"strategy",
/// "predicted", "binding_constraint"}, "candidates", "baselines", "search"},
/// "step" says in "unit" what "tokens" counts: "tokens" or "samples".
/// "better" is what a free search finds beside the FILE of --strategy=@FILE.
/// "chosen" also has "devices", how many it uses, and "idle", why not all.
/// "changes": {"from", "plans"} are the plans from a baseline to the chosen
/// one, each with what it changes, seconds and bytes. "pareto" is a list of
/// "strategy", "method", "step_seconds" and "memory_bytes" by rising seconds
/// and falling memory. There are "parameters":
/// {"trained", "frozen"}, "remarks" and "verification":
/// {"scope": "full"|"shrunk"|"none", "why", "strategy", "ranks",
/// "global_batch", ...}. What is predicted of a pipeline has "stages": seconds
/// of each phase for one micro-batch, idle seconds of a step, memory. Unlike
/// shares of the batch have "batch_shares": {"even_step_seconds", "ranks"}.
/// "chosen" also has "detail" (StepDetail.h), and all is described in
/// codegen/report/README.md.
nlohmann::ordered_json reportToJson(const Cluster &cluster,
                                    const SearchResult &result,
                                    const ReportContext &context);

/// Model FLOP utilization: the operations of the unpartitioned step (nothing
/// that is computed again, and nothing twice) per second, as a part of the peak
/// of the devices that are used, in the type that the model computes in.
double mfuOf(const Cluster &cluster, const ModelTotals &totals,
             const Candidate &candidate);

/// The most lines of a report for a terminal of 100 columns or more; where it
/// is narrower, lines are broken.
inline constexpr size_t reportLines = 38;

/// The report for a terminal: the winner in sentences, a table of runners-up
/// and baselines with why each loses, what was verified, remarks. Of what is
/// too much for a screen the first are shown; report.html has all.
std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context,
                         const TextForm &form = {});

/// A sentence: what was verified, or why nothing was. A brief one does not list
/// the sizes of a shrunk model.
std::string verificationText(const Verification &verification,
                             bool isBrief = false);

/// What a sample of the model is counted in: "tokens", or "samples" where it is
/// no sequence of them.
std::string_view unitOf(const ModelTotals &totals);

/// "1.50 GiB", "12.0 MiB", "812 B".
std::string formatBytes(double bytes);
/// "1.23 s", "4.56 ms", "7.89 us".
std::string formatSeconds(double seconds);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_REPORT_H
