//===- Report.h - report.json and the strategy table ------------*- C++ -*-===//
#pragma once

#include "cost-model/report/ExpertLoads.h"
#include "cost-model/report/Intervals.h"
#include "cost-model/report/JobCost.h"
#include "cost-model/report/ModelParts.h"
#include "cost-model/report/StepDetail.h"
#include "cost-model/report/TextLines.h"
#include "cost-model/search/BetterPlan.h"
#include "cost-model/search/Search.h"
#include "cost-model/search/WhatIf.h"

#include <map>
#include <set>

namespace dpc::cost {

/// The result of verification: the plan ran in one process and was compared
/// with one device.
struct Verification {
  enum class Scope { none, full, shrunk };
  Scope scope = Scope::none;
  std::string why; ///< Why nothing ran, if the scope is none.
  /// The strategy that ran: on the shrunk model if the scope is shrunk.
  Strategy strategy;
  int64_t ranks = 1, globalBatch = 1;
  bool inFp32 = false;       ///< fp32 replaced a narrower compute type.
  int64_t outputs = 0;       ///< Number of compared outputs.
  int64_t tensors = 0;       ///< Number of compared parameters and states.
  double outputError = 0;    ///< Largest error relative to the largest output.
  double toleranceShare = 0; ///< Largest error relative to its tolerance.
  /// The tolerances include the rounding errors of the model on one device.
  bool isSensitive = false;
  double seconds = 0;

  /// Whether the tensors of the shrunk model have the layouts of the large one.
  bool keepsLayouts = true;
  struct Layers {
    int64_t ops, before, after;
  };
  std::vector<Layers> layers;
  std::map<int64_t, std::set<int64_t>> sizes; ///< New sizes by old size.
};

struct ReportContext {
  std::string model;                ///< Name or path of the model.
  std::vector<std::string> trained; ///< Parameter names.
  std::vector<std::string> frozen;  ///< Parameter names.
  std::vector<std::string> remarks;
  Verification verification;
  StepDetail detail = {};           ///< May be empty.
  std::vector<WhatIf> whatIfs = {}; ///< For --what-if.
  /// Of times and memory; null: unknown.
  std::shared_ptr<const Intervals> intervals = {};
  std::optional<JobCost> job = {}; ///< For --tokens.
  std::optional<DeadlineAnswer> deadline = {};
  std::vector<ClusterAnswer> clusters = {}; ///< If there are several.
  std::optional<BetterPlan> better = {};    ///< For --strategy=@FILE.
  /// Why the precision is what it is, if the user did not choose it.
  std::string whyPrecision = {};
  std::string readAs = {}; ///< How FILE was interpreted.
  std::string loss = {};   ///< The output that is trained; "" for inference.
  std::optional<ExpertLoads> experts = {};
  ModelParts parts = {};
  size_t notices = 0; ///< The first remarks, which a terminal always shows.
  /// The first line: which software the times and the memory are of; may be "".
  std::string software = {};
};

inline constexpr int reportVersion = 1;

/// Returns report.json. codegen/report/README.md describes its fields.
nlohmann::ordered_json reportToJson(const Cluster &cluster,
                                    const SearchResult &result,
                                    const ReportContext &context);

/// Returns the model FLOPs utilization: the FLOPs per second of the
/// unpartitioned step, without recompute, relative to the peak of the used
/// devices in the model's compute type.
double mfuOf(const Cluster &cluster, const ModelTotals &totals,
             const Candidate &candidate);

/// The most lines of a report on a terminal of at least 100 columns.
inline constexpr size_t reportLines = 38;

/// Returns the report for a terminal. Long lists are cut.
std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context,
                         const TextForm &form = {});

/// Returns one sentence that describes the verification, or says why there was
/// no verification. If `isBrief`, the sentence does not list the sizes of a
/// shrunk model.
std::string verificationText(const Verification &verification,
                             bool isBrief = false);

/// Returns "tokens" for models of sequences, else "samples".
std::string_view unitOf(const ModelTotals &totals);

/// Returns the bytes that the fullest rank of a plan may use if it leaves no
/// headroom.
double usableBytesOf(const SearchResult &result, const Candidate &candidate);

/// "1.50 GiB", "12.0 MiB", "812 B".
std::string formatBytes(double bytes);
/// "5 %", "2.5 %".
std::string formatShare(double share);
/// "1.23 s", "4.56 ms", "7.89 us".
std::string formatSeconds(double seconds);

} // namespace dpc::cost
