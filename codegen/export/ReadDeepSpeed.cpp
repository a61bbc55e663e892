//===- ReadDeepSpeed.cpp - A strategy from ds_config.json -----------------===//
#include "codegen/export/StrategyReader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace dpc::exports {

using nlohmann::json;

namespace {

class DeepSpeedReader : StrategyReader {
public:
  DeepSpeedReader(const json &config, int64_t devices)
      : StrategyReader("ds_config: ", devices), config(config) {}
  Expected<Imported> read();

private:
  const json &config;

  void refuseOthers();
  void readDegrees();
  void readZero();
  void readOffload();
  void readBatch();
  void readRecompute();
  void readPrecision();
  void readSizes();
  void listIgnored();
  void listIgnored(const json &section, const std::string &prefix,
                   const std::set<std::string> &read);
  /// "", "host" or "disk".
  std::string placeOf(const json &section);
  /// Returns the integer at `key`, which must be at least `least`. Returns
  /// `missing` if the key is missing or "auto".
  int64_t number(const json &section, const char *key, int64_t missing,
                 int64_t least = 1);
};

} // namespace

static const json &sectionOf(const json &config, const char *key) {
  static const json none = json::object();
  auto it = config.find(key);
  return it != config.end() && it->is_object() ? *it : none;
}

/// Whether a section exists and is enabled. "auto" counts as enabled.
static bool isOn(const json &config, const char *key) {
  const json &section = sectionOf(config, key);
  if (section.empty())
    return false;
  auto enabled = section.find("enabled");
  return enabled == section.end() || *enabled == true || *enabled == "auto";
}

int64_t DeepSpeedReader::number(const json &section, const char *key,
                                int64_t missing, int64_t least) {
  auto it = section.find(key);
  if (it == section.end() || *it == "auto")
    return missing;
  if (it->is_number_integer() && it->get<int64_t>() > kMost) {
    fail(std::string(key) + "=" + it->dump() +
         " is too large; expected at most " + std::to_string(kMost));
    return missing;
  }
  if (it->is_number_integer() && it->get<int64_t>() >= least)
    return it->get<int64_t>();
  fail(std::string(key) + "=" + it->dump() +
       "; expected a whole number >= " + std::to_string(least));
  return missing;
}

/// Refuses settings that --strategy cannot express.
void DeepSpeedReader::refuseOthers() {
  if (isOn(config, "elasticity"))
    fail("elasticity changes the number of ranks at run time; expected "
         "elasticity.enabled=false");
  if (isOn(config, "autotuning"))
    fail("autotuning has not chosen the strategy yet; expected the "
         "configuration that autotuning found");
  int64_t partition = number(sectionOf(config, "zero_optimization"),
                             "zero_hpz_partition_size", 1);
  if (partition > 1)
    fail("zero_hpz_partition_size=" + std::to_string(partition) +
         " keeps a second copy of the parameters in each node, and no key of "
         "--strategy does; expected 1");
  for (const char *key : {"tp", "tensor_parallel"})
    if (sectionOf(config, "tensor_parallel").contains(key))
      fail(std::string("tensor_parallel.") + key +
           " is for inference; expected tensor_parallel.autotp_size");
}

void DeepSpeedReader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  int64_t tp =
      number(sectionOf(config, "tensor_parallel"), "autotp_size", 1, 0);
  int64_t pp = number(sectionOf(config, "pipeline"), "stages", 1);
  int64_t cp = number(config, "sequence_parallel_size", 1);
  int64_t ep = number(sectionOf(config, "expert_parallel"), "autoep_size", 1);
  setDegrees(std::max<int64_t>(1, tp), pp, cp);
  if (cp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  if (isOn(config, "expert_parallel"))
    strategy.ep = ep;
}

std::string DeepSpeedReader::placeOf(const json &section) {
  auto it = section.find("device");
  if (it == section.end() || it->is_null() || *it == "none")
    return "";
  if (*it == "cpu" || *it == "nvme")
    return *it == "cpu" ? "host" : "disk";
  fail("offload device " + it->dump() +
       "; expected \"cpu\", \"nvme\" or \"none\"");
  return "";
}

void DeepSpeedReader::readOffload() {
  const json &zero = sectionOf(config, "zero_optimization");
  const json &section = sectionOf(zero, "offload_optimizer");
  std::string optimizer = placeOf(section);
  std::string parameters = placeOf(sectionOf(zero, "offload_param"));
  if (optimizer.empty() && parameters.empty())
    return;
  if (!optimizer.empty() && !parameters.empty() && optimizer != parameters)
    fail("offload_optimizer and offload_param name different devices; "
         "expected one device");
  cost::Strategy &strategy = result.strategy;
  strategy.offload = parameters.empty()  ? cost::Offload::Optimizer
                     : optimizer.empty() ? cost::Offload::Parameters
                                         : cost::Offload::All;
  strategy.offloadTo = *symbolize<cost::OffloadTarget>(
      parameters.empty() ? optimizer : parameters);
  if (auto ratio = section.find("ratio");
      ratio != section.end() && *ratio != 1.0)
    fail("offload_optimizer.ratio=" + ratio->dump() + "; expected 1");
}

void DeepSpeedReader::readZero() {
  const json &zero = sectionOf(config, "zero_optimization");
  int64_t stage = number(zero, "stage", 0, 0);
  if (stage > 3)
    fail("zero_optimization.stage=" + std::to_string(stage) +
         "; expected 0 to 3");
  result.strategy.zero = stage;
  int64_t shard = number(zero, "mics_shard_size", 0, -1);
  if (shard > 0 && stage > 0 && shard != result.strategy.dp)
    result.strategy.hybridShard = shard;
}

void DeepSpeedReader::readBatch() {
  int64_t all = number(config, "train_batch_size", 0);
  int64_t micro = number(config, "train_micro_batch_size_per_gpu", 0);
  int64_t steps = number(config, "gradient_accumulation_steps", 0);
  int64_t dp = result.strategy.dp;
  if (micro == 0 && all > 0 && steps > 0 && all % (steps * dp) == 0)
    micro = all / (steps * dp);
  int64_t product = micro * steps * dp;
  result.strategy.microBatch = micro;
  result.globalBatch = all > 0 ? all : product;
  if (product > 0 && product != result.globalBatch)
    fail("train_batch_size=" + std::to_string(all) + "; expected " +
         std::to_string(product) +
         ", which is train_micro_batch_size_per_gpu=" + std::to_string(micro) +
         " x gradient_accumulation_steps=" + std::to_string(steps) +
         " x dp=" + std::to_string(dp));
}

void DeepSpeedReader::readRecompute() {
  int64_t interval = number(sectionOf(config, "pipeline"),
                            "activation_checkpoint_interval", 0, 0);
  int64_t checkpoints = number(sectionOf(config, "activation_checkpointing"),
                               "number_checkpoints", 0, 0);
  if (interval > 0 || checkpoints > 0)
    result.strategy.recompute = cost::Recompute::Full;
}

void DeepSpeedReader::readPrecision() {
  auto isTrue = [&](const char *key) {
    return isOn(config, key) &&
           sectionOf(config, key).value("enabled", json(true)) == true;
  };
  if (isTrue("bf16") && isTrue("fp16"))
    fail("bf16 and fp16 are both enabled; expected one of them");
  if (isTrue("bf16") || (isOn(config, "bf16") && !isTrue("fp16")))
    result.precision = "bf16";
  else if (isOn(config, "fp16"))
    result.precision = "fp16";
  result.usesSgd =
      sectionOf(config, "optimizer").value("type", json()) == "SGD";
}

/// The vocabulary is the only model size that a ds_config states.
void DeepSpeedReader::readSizes() {
  auto words = config.find("vocabulary_size");
  if (words != config.end() && words->is_number_integer() &&
      words->get<int64_t>() >= 1)
    result.sizes.push_back({"vocabulary_size", words->get<int64_t>(),
                            &ModelShape::vocabulary, /*isOfTokens=*/true});
}

/// Lists each key that is not read, with its section, except in sections that
/// are off.
void DeepSpeedReader::listIgnored() {
  std::set<std::string> read = {"train_batch_size",
                                "train_micro_batch_size_per_gpu",
                                "gradient_accumulation_steps",
                                "sequence_parallel_size",
                                "vocabulary_size",
                                "zero_optimization.stage",
                                "zero_optimization.mics_shard_size",
                                "zero_optimization.zero_hpz_partition_size",
                                "zero_optimization.offload_optimizer.device",
                                "zero_optimization.offload_optimizer.ratio",
                                "zero_optimization.offload_param.device",
                                "pipeline.stages",
                                "pipeline.activation_checkpoint_interval",
                                "activation_checkpointing.number_checkpoints",
                                "tensor_parallel.autotp_size",
                                "expert_parallel.enabled",
                                "expert_parallel.autoep_size",
                                "elasticity.enabled",
                                "autotuning.enabled",
                                "bf16.enabled",
                                "fp16.enabled"};
  if (result.usesSgd)
    read.insert("optimizer.type");
  listIgnored(config, "", read);
}

void DeepSpeedReader::listIgnored(const json &section,
                                  const std::string &prefix,
                                  const std::set<std::string> &read) {
  for (const auto &[key, value] : section.items()) {
    std::string path = prefix + key;
    auto first = read.lower_bound(path + ".");
    bool isSection = first != read.end() && first->starts_with(path + ".");
    if (isSection && value.is_object()) {
      if (value.value("enabled", json(true)) != false)
        listIgnored(value, path + ".", read);
    } else if (!read.count(path)) {
      result.ignored.push_back(path);
    }
  }
}

Expected<Imported> DeepSpeedReader::read() {
  for (auto step :
       {&DeepSpeedReader::refuseOthers, &DeepSpeedReader::readDegrees,
        &DeepSpeedReader::readZero, &DeepSpeedReader::readOffload,
        &DeepSpeedReader::readBatch, &DeepSpeedReader::readRecompute})
    if ((this->*step)(); !error.empty())
      return Error{error};
  readPrecision();
  readSizes();
  listIgnored();
  return finish();
}

Expected<Imported> readDeepSpeed(const std::string &text, int64_t devices) {
  json config = json::parse(text, nullptr, /*allow_exceptions=*/false,
                            /*ignore_comments=*/true);
  if (!config.is_object())
    return Error{"ds_config: not a JSON object"};
  return DeepSpeedReader(config, devices).read();
}

} // namespace dpc::exports
