#include "runtime/job/Writable.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace dpc {

Status checkWritable(const char *option, const std::string &path) {
  if (path.empty())
    return Status::success();
  auto error = [&](const std::string &why) {
    return Status::io(option, ": ", path, " cannot be written: ", why);
  };
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    return error("it is a folder");
  bool exists = std::filesystem::exists(path, code);
  std::FILE *file = std::fopen(path.c_str(), "ab");
  if (!file)
    return error(std::strerror(errno));
  std::fclose(file);
  if (!exists)
    std::filesystem::remove(path, code);
  return Status::success();
}

} // namespace dpc
