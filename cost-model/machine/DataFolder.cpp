//===- DataFolder.cpp - Data files of devices and software ----------------===//

#include "cost-model/machine/DataFolder.h"
#include "runtime/base/ReadFile.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace dpc::cost {

using nlohmann::json;

std::string DataFolder::path() const {
  const char *fromUser = std::getenv(variable);
  if (fromUser && *fromUser)
    return fromUser;
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  fs::path installed =
      bin.parent_path() / "share/dpc" / fs::path(builtIn).filename();
  return fs::is_directory(installed, error) ? installed.string() : builtIn;
}

std::vector<std::string> DataFolder::names() const {
  std::vector<std::string> names;
  if (*always)
    names.emplace_back(always);
  std::error_code error;
  std::filesystem::directory_iterator it(path(), error);
  for (; !error && it != std::filesystem::directory_iterator();
       it.increment(error))
    if (it->path().extension() == ".json")
      names.push_back(it->path().stem().string());
  std::ranges::sort(names);
  return names;
}

Expected<std::pair<std::string, json>>
DataFolder::read(const std::string &name) const {
  std::vector<std::string> known = names();
  if (std::ranges::find(known, name) == known.end()) {
    std::string message =
        std::string("unknown ") + kind + " '" + name + "'; expected one of";
    for (const std::string &entry : known)
      message += " " + entry;
    if (known.empty())
      message += " the files in " + path() + ", which is empty; set " +
                 variable + " to the " + kind + " folder";
    return Error{message};
  }
  std::string file = std::filesystem::path(path()) / (name + ".json");
  Expected<std::string> text =
      readTextFile(file, std::string("a ") + kind + " file");
  if (!text)
    return Error{text.message()};
  Expected<json> root = parseJson(*text, file);
  if (!root)
    return Error{root.message()};
  return std::pair{file, std::move(*root)};
}

} // namespace dpc::cost
