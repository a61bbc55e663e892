//===- OutputFolder.h - A folder that appears when complete ----*- C++ -*-===//
#pragma once

#include <filesystem>
#include <string>

namespace dpc {

/// An output folder that appears at its path only when it is complete. An
/// existing folder is not changed before commit(), except by setPlanAside().
/// Without commit(), no files remain.
///
/// Only files of dpc-opt are ever deleted: plan.json (also as
/// rt::kPreviousPlan), command.json, report.json, program.mlir, annotated.onnx,
/// constants.bin, kernels/kernels.so and the files that exports/index.json
/// lists. If the existing folder holds any other file, it is not replaced. A
/// report without a plan does not replace a plan.
class OutputFolder {
public:
  /// Returns why `target` cannot be replaced, or "" if it can be or does not
  /// exist.
  static std::string refusal(const std::filesystem::path &target,
                             bool writesPlan);

  /// Renames the plan.json of an earlier compile in `target` to
  /// rt::kPreviousPlan, so that a compile that fails or is killed leaves no
  /// plan that could pass for its result. Changes no other file, so that the
  /// name restores the plan, and works in folders with files of others too.
  /// Returns the new path, or "" if `target` has no plan of dpc-opt or after an
  /// error.
  static std::string setPlanAside(const std::filesystem::path &target,
                                  std::string &error);
  /// Says in an error that setPlanAside() returned `previous`, if not "".
  static std::string noteOf(const std::string &previous);

  /// Creates the temporary folder next to `target`. Sets `error` if the parent
  /// cannot be written, or to the text of refusal().
  OutputFolder(const std::filesystem::path &target, bool writesPlan,
               std::string &error);
  ~OutputFolder();
  OutputFolder(const OutputFolder &) = delete;
  OutputFolder &operator=(const OutputFolder &) = delete;

  /// The folder to write into.
  const std::filesystem::path &path() const { return temporary; }
  /// Returns "" or an error.
  std::string commit();

private:
  std::filesystem::path target, temporary;
  bool writesPlan;
};

inline constexpr const char *kExports = "exports",
                            *kExportIndex = "exports/index.json";

/// Returns "" or a one-line error.
std::string writeText(const std::filesystem::path &path,
                      const std::string &text);

} // namespace dpc
