//===- ExternalFiles.cpp - Files with the weights of a model --------------===//
#include "frontends/onnx/ExternalFiles.h"
#include "frontends/onnx/ModelFile.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

namespace fs = std::filesystem;

namespace dpc::frontend {

std::vector<std::string> externalFiles(const ::onnx::GraphProto &graph) {
  std::set<std::string> files;
  for (const auto &tensor : graph.initializer())
    for (const auto &entry : tensor.external_data())
      if (entry.key() == "location")
        files.insert(entry.value());
  return {files.begin(), files.end()};
}

/// Whether the file `path` exists and is newer than `time`.
static bool isNewer(const fs::path &path, fs::file_time_type time) {
  std::error_code code;
  const fs::file_time_type own = fs::last_write_time(path, code);
  return !code && own > time;
}

/// Whether the model at `path` has weights in the external file `name`.
static bool namesFile(const fs::path &path, const std::string &name) {
  auto model = ModelFile::open(path.string());
  if (!model) {
    llvm::consumeError(model.takeError());
    return false;
  }
  const std::vector<std::string> files =
      externalFiles((*model)->model().graph());
  return std::find(files.begin(), files.end(), name) != files.end();
}

std::vector<std::string> overwrittenFiles(const ::onnx::GraphProto &graph,
                                          const std::string &path) {
  std::vector<std::string> lines;
  std::error_code code;
  const fs::file_time_type time = fs::last_write_time(path, code);
  if (code)
    return lines;
  const fs::path folder = fs::path(path).parent_path();
  std::vector<std::string> newer = externalFiles(graph);
  std::erase_if(newer, [&](const std::string &name) {
    return !isNewer(folder / name, time);
  });
  if (newer.empty())
    return lines;
  std::vector<fs::path> models;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder.empty() ? "." : folder, code))
    if (entry.path().extension() == ".onnx" && isNewer(entry.path(), time))
      models.push_back(entry.path());
  std::sort(models.begin(), models.end());
  for (const std::string &name : newer) {
    auto other =
        std::find_if(models.begin(), models.end(), [&](const fs::path &model) {
          return namesFile(model, name);
        });
    if (other != models.end())
      lines.push_back("the weights '" + name + "' are newer than '" +
                      fs::path(path).filename().string() + "', and '" +
                      other->filename().string() +
                      "', which is newer, too, has its weights there: did its "
                      "export overwrite them?");
  }
  return lines;
}

} // namespace dpc::frontend
