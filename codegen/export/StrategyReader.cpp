//===- StrategyReader.cpp - Base of the configuration readers -------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

using nlohmann::json;

const json *StrategyReader::find(const std::string &key) {
  used.insert(key);
  const FileSetting *setting = file.find(key);
  if (!setting || setting->value.is_null() || setting->value == "auto")
    return nullptr;
  auto isSame = [&](const FileSetting &other) { return other.key == key; };
  if (file.syntax == Syntax::Python &&
      std::ranges::count_if(file.settings, isSame) > 1)
    fail(key, "is not the only value of this setting in the file; expected a "
              "file with one configuration");
  return &setting->value;
}

static std::string textOf(const json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string StrategyReader::word(const std::string &key,
                                 const std::string &missing) {
  const json *value = find(key);
  if (!value)
    return missing;
  if (value->is_array() && file.syntax == Syntax::Flags)
    return textOf(value->front());
  return textOf(*value);
}

bool StrategyReader::isTrue(const std::string &key, bool missing) {
  const json *value = find(key);
  if (!value)
    return missing;
  // Words that follow a flag without a value are arguments of the command.
  if (file.syntax == Syntax::Flags && !value->is_boolean())
    return true;
  json flag = value->is_string() ? scalarOf(value->get<std::string>()) : *value;
  if (!flag.is_boolean())
    fail(key, "; expected true or false");
  return flag == true;
}

std::optional<int64_t> StrategyReader::findNumber(const std::string &key,
                                                  int64_t least) {
  const json *value = find(key);
  if (value && value->is_array() && file.syntax == Syntax::Flags)
    value = &value->front();
  if (!value || !value->is_number_integer() || value->get<int64_t>() < least)
    return std::nullopt;
  return value->get<int64_t>();
}

int64_t StrategyReader::number(const std::string &key, int64_t missing,
                               int64_t least) {
  if (!has(key))
    return missing;
  std::optional<int64_t> value = findNumber(key, least);
  if (!value)
    fail(key, "; expected a whole number >= " + std::to_string(least));
  if (value > kMost) {
    fail(key, " is too large; expected at most " + std::to_string(kMost));
    return missing;
  }
  return value.value_or(missing);
}

void StrategyReader::useSection(const std::string &key) {
  for (const FileSetting &setting : file.settings)
    if (setting.key == key || setting.key.starts_with(key + "."))
      used.insert(setting.key);
}

void StrategyReader::fail(const std::string &why) {
  if (error.empty())
    error = why;
}

void StrategyReader::fail(const std::string &key, const std::string &why) {
  const FileSetting *setting = file.find(key);
  bool isFlag = file.syntax == Syntax::Flags;
  std::string text = (isFlag ? "--" : "") + key;
  if (setting && !(isFlag && setting->value == true))
    text += (isFlag ? " " : "=") + (isFlag && setting->value.is_array()
                                        ? textOf(setting->value.front())
                                        : textOf(setting->value));
  std::string line =
      setting ? "line " + std::to_string(setting->line) + ": " : "";
  fail(line + text + (why.starts_with(';') ? "" : " ") + why);
}

void StrategyReader::refuse(const std::string &key,
                            const std::string &strategyKey,
                            const std::string &why) {
  if (!isAsked(strategyKey))
    fail(key, why + " (or state the key after the file: --strategy=@FILE," +
                  strategyKey + "=VALUE)");
}

void StrategyReader::setDevices(const std::string &key, int64_t ranks) {
  if (isAsked("ranks"))
    return;
  if (ranks > asked.devices)
    fail(key, "starts " + std::to_string(ranks) +
                  " processes; expected at most the " +
                  std::to_string(asked.devices) + " devices of the cluster");
  else
    devices = ranks;
}

void StrategyReader::readTorchrun() {
  int64_t nodes = number("nnodes", 1), each = number("nproc-per-node", 0);
  if (each > 0)
    setDevices("nproc-per-node", nodes * each);
}

void StrategyReader::setDegrees(int64_t tp, int64_t pp, int64_t cp) {
  auto askedOr = [&](const char *key, int64_t ofFile) {
    auto found = asked.keys.find(key);
    if (found == asked.keys.end())
      return ofFile;
    auto degree = cost::parseValue<cost::TensorDegree>(key, found->second);
    if (!degree)
      fail(degree.message());
    return degree ? degree->ranks : ofFile;
  };
  cost::Strategy &strategy = result.strategy;
  strategy.tp = tp = askedOr("tp", tp);
  strategy.pp = pp = askedOr("pp", pp);
  strategy.cp = cp = askedOr("cp", cp);
  devices = askedOr("ranks", devices);
  // dp is at least 1 even after an error, because later steps divide by dp.
  strategy.dp = askedOr("dp", std::max<int64_t>(1, devices / (tp * pp * cp)));
  if (strategy.dp * tp * pp * cp != devices && !isAsked("dp"))
    fail("the product of tp=" + std::to_string(tp) +
         ", pp=" + std::to_string(pp) + " and cp=" + std::to_string(cp) +
         " does not divide the " + std::to_string(devices) + " devices");
}

void StrategyReader::checkExpertTensor(const std::string &key, int64_t ranks) {
  const cost::Strategy &strategy = result.strategy;
  if (strategy.ep == 1 || strategy.tp.ranks == 1)
    return;
  int64_t expected = strategy.dp % strategy.ep == 0 ? strategy.tp.ranks : 1;
  if (ranks == expected)
    return;
  refuse(key, "ep",
         "shards each expert over " + std::to_string(ranks) +
             " ranks with ep=" + std::to_string(strategy.ep) + "; expected " +
             std::to_string(expected) +
             ", because --strategy shards each expert over tp only if ep "
             "divides dp");
}

void StrategyReader::setBatch(int64_t global, int64_t micro, int64_t steps) {
  int64_t dp = result.strategy.dp;
  int64_t product = micro * steps * dp;
  if (micro == 0 && global > 0 && steps > 0 && global % (steps * dp) == 0)
    micro = global / (steps * dp);
  result.strategy.microBatch = micro;
  result.globalBatch = global > 0 ? global : product;
  if (micro == 0)
    result.microBatches = steps;
}

/// Lists the settings that no reader asked for, and whole sections by name.
void StrategyReader::listOthers() {
  auto isUsed = [&](const std::string &section) {
    return std::ranges::any_of(used, [&](const std::string &key) {
      return file.find(key) &&
             (key == section || key.starts_with(section + "."));
    });
  };
  for (const FileSetting &setting : file.settings) {
    if (used.count(setting.key))
      continue;
    size_t end = setting.key.find('.');
    while (end != std::string::npos && isUsed(setting.key.substr(0, end)))
      end = setting.key.find('.', end + 1);
    std::string name =
        (file.syntax == Syntax::Flags ? "--" : "") + setting.key.substr(0, end);
    if (std::ranges::find(result.ignored, name) == result.ignored.end())
      result.ignored.push_back(name);
  }
}

Expected<Imported> StrategyReader::finish() {
  if (!error.empty())
    return Error{error};
  listOthers();
  return std::move(result);
}

} // namespace dpc::exports
