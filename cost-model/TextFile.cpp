//===- TextFile.cpp - Whole files -----------------------------------------===//
#include "cost-model/TextFile.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace dpc::cost {

Result<std::string> readTextFile(const std::string &path,
                                 const std::string &expected) {
  std::error_code error;
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  // A folder can be opened; reading from it throws.
  if (!stream || std::filesystem::is_directory(path, error))
    return Error{path + ": cannot be read; expected " + expected};
  text << stream.rdbuf();
  if (stream.bad())
    return Error{path + ": cannot be read; expected " + expected};
  return text.str();
}

} // namespace dpc::cost
