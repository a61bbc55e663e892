//===- OutputFolder.cpp - Written beside, then renamed --------------------===//
#include "tools/dpc-opt/OutputFolder.h"

#include <unistd.h>

namespace fs = std::filesystem;

namespace dpc {

static fs::path besides(const fs::path &target, const char *what) {
  fs::path result = target;
  result += std::string(".") + what + "." + std::to_string(getpid());
  return result;
}

/// Whether replacing `path` loses nothing but an older result.
static bool isReplaceable(const fs::path &path) {
  if (!fs::is_directory(path))
    return false;
  return fs::is_empty(path) || fs::exists(path / "plan.json") ||
         fs::exists(path / "report.json");
}

OutputFolder::OutputFolder(fs::path wanted, std::string &error)
    : target(std::move(wanted)) {
  if (!target.has_filename()) // "plan/"
    target = target.parent_path();
  std::error_code code;
  if (fs::exists(target, code) && !isReplaceable(target)) {
    error = target.string() +
            ": exists and is not a plan folder; name another one with -o";
    return;
  }
  fs::create_directories(target.has_parent_path() ? target.parent_path() : ".",
                         code);
  temporary = besides(target, "writing");
  fs::remove_all(temporary, code);
  fs::create_directories(temporary / "kernels", code);
  if (code) {
    error = temporary.string() + ": cannot be written: " + code.message();
    temporary.clear();
  }
}

OutputFolder::~OutputFolder() {
  std::error_code code;
  if (!temporary.empty())
    fs::remove_all(temporary, code);
}

std::string OutputFolder::commit() {
  std::error_code code;
  fs::path old = besides(target, "old");
  bool replaces = fs::exists(target, code);
  if (replaces)
    fs::rename(target, old, code);
  if (!code)
    fs::rename(temporary, target, code);
  if (code) {
    std::error_code ignored;
    if (replaces && !fs::exists(target, ignored))
      fs::rename(old, target, ignored);
    return target.string() + ": cannot be put in place: " + code.message();
  }
  temporary.clear();
  if (replaces)
    fs::remove_all(old, code);
  return "";
}

} // namespace dpc
