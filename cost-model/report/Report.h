//===- Report.h - report.json and the strategy table ------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_REPORT_REPORT_H
#define DPC_COST_MODEL_REPORT_REPORT_H

#include "cost-model/report/StepDetail.h"
#include "cost-model/report/TextLines.h"
#include "cost-model/search/BetterPlan.h"
#include "cost-model/search/Search.h"
#include "cost-model/search/WhatIf.h"

#include <map>
#include <set>

namespace dpc::cost {

/// The verification of a plan: a run in one process, compared with one device.
struct Verification {
  enum class Scope { none, full, shrunk };
  Scope scope = Scope::none;
  std::string why; ///< If the scope is none: why nothing ran.
  /// The strategy that ran. If the scope is shrunk, it ran on the shrunk model.
  Strategy strategy;
  int64_t ranks = 1, globalBatch = 1;
  bool inFp32 = false;       ///< fp32 replaced a narrower compute type.
  int64_t outputs = 0;       ///< Compared outputs of all steps.
  int64_t tensors = 0;       ///< Compared parameters, buffers and states.
  double outputError = 0;    ///< Largest error relative to the largest output.
  double toleranceShare = 0; ///< Largest error relative to its tolerance.
  /// The tolerances include the rounding errors of the model on one device.
  bool isSensitive = false;
  double seconds = 0;

  /// For a shrunk model: whether tensors have the layouts of the large model,
  /// and the layers and sizes of both models.
  bool keepsLayouts = true;
  struct Layers {
    int64_t ops, before, after;
  };
  std::vector<Layers> layers;
  std::map<int64_t, std::set<int64_t>> sizes; ///< New sizes by old size.
};

/// The contents of a report besides the search result.
struct ReportContext {
  std::string model;                ///< Name or path of the model.
  std::vector<std::string> trained; ///< Parameter names.
  std::vector<std::string> frozen;  ///< Parameter names.
  std::vector<std::string> remarks; ///< Warnings worth reading.
  Verification verification;
  StepDetail detail = {};                ///< The chosen plan; may be empty.
  std::vector<WhatIf> whatIfs = {};      ///< For --what-if.
  std::optional<BetterPlan> better = {}; ///< For --strategy=@FILE.
  std::string readAs = {};               ///< The interpretation of FILE.
};

/// Version of report.json.
inline constexpr int reportVersion = 1;

/// report.json; codegen/report/README.md describes all fields.
nlohmann::ordered_json reportToJson(const Cluster &cluster,
                                    const SearchResult &result,
                                    const ReportContext &context);

/// Model FLOPs utilization: the FLOPs per second of the unpartitioned step,
/// without recompute, relative to the peak of the used devices in the model's
/// compute type.
double mfuOf(const Cluster &cluster, const ModelTotals &totals,
             const Candidate &candidate);

/// The most lines of a report for a terminal of at least 100 columns.
inline constexpr size_t reportLines = 38;

/// The report for a terminal: the winner, a table of the other candidates and
/// the baselines with the reason why each loses, the verification, and remarks.
/// Long lists are cut; report.html has all items.
std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context,
                         const TextForm &form = {});

/// One sentence that describes the verification, or says why the plan was not
/// verified. If `isBrief`, the sentence does not list the sizes of a shrunk
/// model.
std::string verificationText(const Verification &verification,
                             bool isBrief = false);

/// The unit of throughput: "tokens" for models of sequences, else "samples".
std::string_view unitOf(const ModelTotals &totals);

/// "1.50 GiB", "12.0 MiB", "812 B".
std::string formatBytes(double bytes);
/// "1.23 s", "4.56 ms", "7.89 us".
std::string formatSeconds(double seconds);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_REPORT_H
