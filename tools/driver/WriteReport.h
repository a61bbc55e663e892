//===- WriteReport.h - report.json and report.html --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_WRITEREPORT_H
#define DPC_TOOLS_DRIVER_WRITEREPORT_H

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace dpc {

/// report.json as text: a line for each value, but what is there to be drawn in
/// one.
std::string reportText(const nlohmann::ordered_json &report);

/// report.html as text: all that it needs is in it (report/README.md).
std::string reportPage(const nlohmann::ordered_json &report);

/// Writes both into `dir`; returns "" or a one-line error.
std::string writeReportFiles(const nlohmann::ordered_json &report,
                             const std::filesystem::path &dir);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_WRITEREPORT_H
