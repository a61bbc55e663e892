//===- WriteReport.h - report.json and report.html --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_WRITEREPORT_H
#define DPC_TOOLS_DRIVER_WRITEREPORT_H

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace dpc {

/// The text of report.json: one value per line, and the simulated step in one
/// line.
std::string reportText(const nlohmann::ordered_json &report);

/// Writes report.json and report.html (codegen/report) into `dir`. Returns ""
/// or a one-line error.
std::string writeReportFiles(const nlohmann::ordered_json &report,
                             const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_WRITEREPORT_H
