#include "tools/driver/WriteCommand.h"

#include "runtime/plan/PlanCommand.h"

#include <CLI/CLI.hpp>

#include <filesystem>

namespace fs = std::filesystem;

namespace dpc {

/// The file itself where the working folder is gone.
static std::string absolute(const std::string &file) {
  std::error_code code;
  fs::path path = fs::absolute(file, code);
  return code ? file : path.string();
}

static bool namesFile(const std::string &option, const std::string &value) {
  bool isRule =
      value == "zeros" || value == "random" || value.starts_with("random:");
  return option == "init" && !isRule;
}

/// Options that are written as what they came to: --strategy=@FILE sets the
/// first three, --calibrate makes the last.
static bool isResolved(const std::string &option) {
  return option == "global-batch" || option == "precision" ||
         option == "train" || option == "device-file";
}

std::vector<std::string> stepWords(const CLI::App &app) {
  std::vector<std::string> words;
  for (const CLI::Option *option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty())
      continue;
    std::string name = option->get_lnames().front();
    if (!rt::isStepOption(name) || isResolved(name))
      continue;
    bool isFlag = option->get_expected_max() == 0;
    if (isFlag && !option->as<bool>()) // --infer=false
      continue;
    std::string value = CLI::detail::join(option->results(), ",");
    if (namesFile(name, value))
      value = absolute(value);
    words.push_back("--" + name + (isFlag ? "" : "=" + value));
  }
  return words;
}

Status writeCommand(const CompileOptions &options, const std::string &dir) {
  rt::PlanCommand command;
  command.model = absolute(options.model);
  // What --calibrate wrote was used in place of these.
  bool isMeasured = !options.calibrate.empty();
  bool hasLinks = !options.links.empty();
  bool isLocal = options.cluster.starts_with("local:");
  std::string cluster =
      isMeasured && hasLinks ? options.calibrate : options.cluster;
  command.cluster = isLocal ? cluster : absolute(cluster);
  command.words = options.words;
  if (options.globalBatch > 0)
    command.words.push_back("--global-batch=" +
                            std::to_string(options.globalBatch));
  command.words.push_back("--precision=" + options.precision);
  if (!options.train.empty())
    command.words.push_back("--train=" + options.train);
  std::string device =
      isMeasured && !hasLinks ? options.calibrate : options.device;
  if (isLocal && !device.empty())
    command.words.push_back("--device-file=" + absolute(device));
  return rt::writePlanCommand(command, dir);
}

} // namespace dpc
