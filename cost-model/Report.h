//===- Report.h - report.json and the strategy table ------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_REPORT_H
#define DPC_COST_MODEL_REPORT_H

#include "cost-model/Search.h"

namespace dpc::cost {

/// What only the caller knows.
struct ReportContext {
  std::string model;                ///< Name or path of the model.
  std::vector<std::string> trained; ///< Parameter names.
  std::vector<std::string> frozen;  ///< Parameter names.
  std::vector<std::string> remarks; ///< Warnings worth reading.
};

/// Version of report.json.
inline constexpr int reportVersion = 1;

/// report.json: {"version", "model", "cluster", "chosen": {"strategy",
/// "predicted", "binding_constraint"}, "candidates", "baselines", "search"},
/// and "parameters": {"trained", "frozen"} and "remarks". What is predicted of
/// a pipeline has "stages": seconds of each phase for one micro-batch, idle
/// seconds of a step, memory.
nlohmann::ordered_json reportToJson(const Cluster &cluster,
                                    const SearchResult &result,
                                    const ReportContext &context);

/// The table for a terminal of `width` columns: winner, runners-up, baselines,
/// and why each loses.
std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context, int width = 100);

/// "1.50 GiB", "12.0 MiB", "812 B".
std::string formatBytes(double bytes);
/// "1.23 s", "4.56 ms", "7.89 us".
std::string formatSeconds(double seconds);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_REPORT_H
