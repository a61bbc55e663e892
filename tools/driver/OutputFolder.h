//===- OutputFolder.h - Written beside, then renamed -------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_OUTPUTFOLDER_H
#define DPC_TOOLS_DRIVER_OUTPUTFOLDER_H

#include "codegen/export/Job.h"
#include "tools/driver/TargetForecast.h"

#include <filesystem>
#include <string>
#include <vector>

namespace dpc {

/// A folder that appears at its place only when it is complete. Until commit()
/// an existing folder there is untouched; without commit() nothing remains.
///
/// Only what dpc-opt wrote is ever deleted: plan.json, command.json,
/// report.json, program.mlir, annotated.onnx, constants.bin,
/// kernels/kernels.so, and what exports/index.json lists. A folder that holds
/// anything else is refused, and a plan is replaced by a plan only: a report
/// alone does not take its place.
class OutputFolder {
public:
  /// Why `target` cannot be replaced, "" when it can (or does not exist).
  static std::string refusal(const std::filesystem::path &target,
                             bool writesPlan);

  /// Makes the temporary folder beside `target`. On failure `error` is set: the
  /// parent cannot be written, or refusal() says why.
  OutputFolder(const std::filesystem::path &target, bool writesPlan,
               std::string &error);
  ~OutputFolder();
  OutputFolder(const OutputFolder &) = delete;
  OutputFolder &operator=(const OutputFolder &) = delete;

  /// Where to write.
  const std::filesystem::path &path() const { return temporary; }
  /// Puts the folder in place; returns an error message or "".
  std::string commit();

private:
  std::filesystem::path target, temporary;
  bool writesPlan;
};

/// Writes `files` into DIR/exports, with an index of them and of what is
/// expected of their targets there. Returns "" or a one-line error.
std::string
writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                   const std::string &strategy,
                   const std::filesystem::path &dir,
                   const std::vector<TargetForecast> &forecasts = {});

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_OUTPUTFOLDER_H
