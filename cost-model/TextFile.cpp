//===- TextFile.cpp - Whole files -----------------------------------------===//
#include "cost-model/TextFile.h"

#include <filesystem>
#include <fstream>

namespace dpc::cost {

static constexpr uintmax_t kMaxMebibytes = 64;

Result<std::string> readTextFile(const std::string &path,
                                 const std::string &expected) {
  // Looked at before it is opened: a named pipe would be waited for.
  std::error_code error;
  bool isFile = std::filesystem::is_regular_file(path, error);
  uintmax_t bytes = isFile ? std::filesystem::file_size(path, error) : 0;
  if (isFile && !error && bytes > kMaxMebibytes << 20)
    return Error{path + ": has " + std::to_string(bytes) + " bytes; expected " +
                 expected + " of at most " + std::to_string(kMaxMebibytes) +
                 " MiB"};
  std::string text(bytes, '\0');
  std::ifstream stream;
  if (isFile && !error)
    stream.open(path, std::ios::binary);
  if (!stream.is_open() ||
      !stream.read(text.data(), static_cast<std::streamsize>(bytes)))
    return Error{path + ": cannot be read; expected " + expected};
  return text;
}

} // namespace dpc::cost
