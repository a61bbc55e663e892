#include "runtime/plan/PlanCommand.h"

#include "runtime/base/Json.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/ReadFile.h"
#include "runtime/base/WriteFile.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dpc::rt {

using Json = nlohmann::ordered_json;

static constexpr int kCommandVersion = 1;
static constexpr int64_t kMaxBytes = 1 << 20;
static constexpr std::string_view kLocal = "local:";

/// dpc-opt's options except those for the strategy and for output files.
static constexpr std::string_view kStepOptions[] = {
    "bind",         "global-batch", "frozen",         "trainable",
    "seed",         "loss",         "init",           "train",
    "infer",        "lr",           "beta1",          "beta2",
    "eps",          "lr-schedule",  "momentum",       "clip-grad-norm",
    "precision",    "loss-scale",   "bucket-mb",      "compress-gradients",
    "weight-decay", "device-file",  "objective",      "compress-weights",
    "verify",       "target-cpu",   "target-gpu",     "attention",
    "loss-output",  "init-partial", "balance-experts"};

bool isStepOption(std::string_view name) {
  return std::find(std::begin(kStepOptions), std::end(kStepOptions), name) !=
         std::end(kStepOptions);
}

static std::string fileIn(const std::string &dir) {
  return dir + "/command.json";
}

Status writePlanCommand(const PlanCommand &command, const std::string &dir) {
  Json json = {{"version", kCommandVersion},
               {"model", command.model},
               {"cluster", command.cluster},
               {"words", command.words}};
  try {
    return writeDurably(fileIn(dir), json.dump(1) + "\n");
  } catch (const Json::type_error &) {
    // Replacing the invalid bytes would name another file.
    return Status::invalid(fileIn(dir), ": the path of the model ",
                           oneLine(command.model),
                           ", or another path "
                           "in the command, is not UTF-8");
  }
}

/// Returns whether `json` can be an argument of a process: text without '\0'.
static bool isWord(const Json &json) {
  return json.is_string() &&
         json.get_ref<const std::string &>().find('\0') == std::string::npos;
}

static bool isStepWord(const Json &json) {
  if (!isWord(json))
    return false;
  const auto &word = json.get_ref<const std::string &>();
  return word.rfind("--", 0) == 0 &&
         isStepOption(std::string_view(word).substr(2, word.find('=') - 2));
}

static bool isPath(const Json &json) {
  return isWord(json) && json.get_ref<const std::string &>().rfind('/', 0) == 0;
}

static bool isCluster(const Json &json) {
  return isPath(json) ||
         (isWord(json) &&
          json.get_ref<const std::string &>().rfind(kLocal, 0) == 0);
}

/// Returns the reason to reject the command, or "".
static std::string fault(const Json &json) {
  for (const char *key : {"version", "model", "cluster", "words"})
    if (!json.contains(key))
      return std::string("has no '") + key + "'";
  if (json["version"] != kCommandVersion)
    return concat("version ", json["version"].dump(), "; this build reads ",
                  kCommandVersion);
  if (!isPath(json["model"]))
    return "model " + json["model"].dump() + " is not an absolute path";
  if (!isCluster(json["cluster"]))
    return "cluster " + json["cluster"].dump() +
           " is neither an absolute path nor local:N";
  if (!json["words"].is_array())
    return "words is not a list";
  for (const Json &word : json["words"])
    if (!isStepWord(word))
      return "word " + word.dump() +
             " is not an option that describes the computation of a step";
  return "";
}

Expected<PlanCommand> readPlanCommand(const std::string &dir) {
  std::string path = fileIn(dir);
  Expected<std::string> text = readFile(path, kMaxBytes);
  if (!text)
    return Status(text.status().code(),
                  text.status().message() +
                      "; dpc-opt writes it with every plan");
  Json json = nestsTooDeep(*text)
                  ? Json()
                  : Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Status::invalid(path,
                           ": is not the JSON object that dpc-opt writes");
  if (std::string why = fault(json); !why.empty())
    return Status::invalid(path, ": ", oneLine(why));
  return PlanCommand{json["model"], json["cluster"],
                     json["words"].get<std::vector<std::string>>()};
}

std::vector<std::string> wordsFor(const PlanCommand &command, int64_t devices) {
  std::string count = std::to_string(devices);
  std::vector<std::string> words = command.words;
  words.insert(words.begin(), command.model);
  if (command.cluster.rfind(kLocal, 0) == 0) {
    words.push_back("--cluster=" + std::string(kLocal) + count);
  } else {
    words.push_back("--cluster=" + command.cluster);
    words.push_back("--strategy=ranks=" + count);
  }
  return words;
}

} // namespace dpc::rt
