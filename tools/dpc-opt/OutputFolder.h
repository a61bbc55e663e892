//===- OutputFolder.h - Written beside, then renamed -------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_OPT_OUTPUTFOLDER_H
#define DPC_TOOLS_DPC_OPT_OUTPUTFOLDER_H

#include <filesystem>
#include <string>

namespace dpc {

/// A folder that appears at its place only when it is complete. Until commit()
/// an existing folder there is untouched; without commit() nothing remains.
class OutputFolder {
public:
  /// Makes the temporary folder beside `target`. On failure `error` is set:
  /// the parent cannot be written, or `target` is something other than a plan
  /// folder (which is never replaced).
  OutputFolder(std::filesystem::path target, std::string &error);
  ~OutputFolder();
  OutputFolder(const OutputFolder &) = delete;
  OutputFolder &operator=(const OutputFolder &) = delete;

  /// Where to write.
  const std::filesystem::path &path() const { return temporary; }
  /// Puts the folder in place; returns an error message or "".
  std::string commit();

private:
  std::filesystem::path target, temporary;
};

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_OUTPUTFOLDER_H
