#include "runtime/plan/RunSettings.h"

#include "runtime/base/OneLine.h"

namespace dpc::rt {

static bool isHashOfGraph(const std::string &name) {
  return name == kGraph || name == kGraphConstants || name == kEvalGraph ||
         name == kEvalConstants;
}

std::string settingOf(const std::vector<Setting> &settings,
                      const std::string &name) {
  for (const Setting &setting : settings)
    if (setting.name == name)
      return setting.value;
  return "";
}

std::string differencesFrom(const std::vector<Setting> &before,
                            const std::vector<Setting> &now,
                            bool hasSameBatch) {
  if (before.empty() || now.empty())
    return "";
  std::string text;
  auto add = [&](const std::string &what) {
    text += (text.empty() ? "" : ", ") + what;
  };
  auto shown = [](const std::string &value) {
    return value.empty() ? "none" : oneLine(value);
  };
  auto compare = [&](const std::string &name) {
    std::string old = settingOf(before, name), own = settingOf(now, name);
    if (old != own)
      add(oneLine(name) + " " + shown(own) + " instead of " + shown(old));
  };
  for (const Setting &setting : now)
    if (!isHashOfGraph(setting.name))
      compare(setting.name);
  for (const Setting &setting : before)
    if (!isHashOfGraph(setting.name) && settingOf(now, setting.name).empty())
      compare(setting.name);
  // The seed is a constant of the graph, which dropout alone reads.
  bool hasSameSeed =
      settingOf(before, kDropoutSeed) == settingOf(now, kDropoutSeed);
  const char *constants = hasSameSeed ? kGraphConstants : kEvalConstants;
  if (settingOf(before, kGraph) != settingOf(now, kGraph))
    add("another graph of the model");
  else if (hasSameBatch &&
           settingOf(before, constants) != settingOf(now, constants))
    add("other constants in the graph of the model");
  return text;
}

bool hasSameLoss(const Plan &training, const Plan &evaluation,
                 bool hasSameBatch) {
  auto matches = [&](const char *trained, const char *own) {
    std::string first = settingOf(training.settings, trained);
    std::string second = settingOf(evaluation.settings, own);
    return first.empty() || second.empty() || first == second;
  };
  return matches(kEvalGraph, kGraph) &&
         (!hasSameBatch || matches(kEvalConstants, kGraphConstants));
}

std::string describeSettings(const std::vector<Setting> &settings) {
  std::string text;
  for (const Setting &setting : settings)
    if (!isHashOfGraph(setting.name))
      text += (text.empty() ? "" : ", ") + oneLine(setting.name) + " " +
              oneLine(setting.value);
  return text;
}

} // namespace dpc::rt
