//===- StalePlan.cpp - The plan before a command with an error ------------===//
#include "tools/dpc-opt/StalePlan.h"

#include "tools/driver/OutputFolder.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace dpc {

/// Returns the folder into which the words would write a plan, or "". Knows
/// only the options that decide this; the other words may be wrong.
static std::string planFolderOf(int argc, char **argv) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::string output, explain;
  std::vector<std::string> emit, diff;
  bool printsPipeline = false;
  app.add_option("-o,--output", output)->take_last();
  app.add_option("--emit", emit)->delimiter(',');
  app.add_option("--explain", explain)->take_last();
  app.add_option("--diff", diff)->expected(2);
  app.add_flag("--print-pipeline", printsPipeline);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error &) {
    return "";
  }
  bool emitsPlan =
      emit.empty() || std::find(emit.begin(), emit.end(), "plan") != emit.end();
  if (!emitsPlan || printsPipeline || app.count("--explain") ||
      app.count("--diff"))
    return "";
  for (const std::string &word : app.remaining()) {
    std::filesystem::path model = word;
    bool isModel = model.extension() == ".onnx" ||
                   model.extension() == ".pt2" || model.extension() == ".mlir";
    if (output.empty() && isModel && !word.starts_with("-"))
      output = model.replace_extension(".plan").string();
  }
  return output;
}

std::string setPlanOfWordsAside(int argc, char **argv) {
  std::string folder = planFolderOf(argc, argv), error;
  if (folder.empty())
    return "";
  std::string note =
      OutputFolder::noteOf(OutputFolder::setPlanAside(folder, error));
  note = error.empty() ? note : error;
  return note.empty() ? "" : "; " + note;
}

} // namespace dpc
