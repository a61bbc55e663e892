//===- ReadDeepSpeed.cpp - A strategy from ds_config.json -----------------===//
#include "codegen/export/Import.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dpc::exports {

using nlohmann::json;

namespace {

/// Reads one configuration; what was read is left out of what is ignored.
class Reader {
public:
  Reader(const json &config, int64_t devices)
      : config(config), devices(devices) {}
  Expected<Imported> run();

private:
  const json &config;
  int64_t devices;
  Imported result;

  Status readDegrees();
  Status readZero();
  Status readOffload(const json &zero);
  Status readBatch();
  Status readRecompute();
  Status refuseOthers() const;
  void readPrecision();
  void readSizes();
  void listIgnored();
  /// A whole number of at least `least`; `missing` where there is none, or
  /// "auto".
  Expected<int64_t> number(const json &section, const char *key,
                           int64_t missing, int64_t least = 1) const;
};

} // namespace

static Error wrong(const std::string &what) {
  return Error{"ds_config: " + what};
}

static const json &sectionOf(const json &config, const char *key) {
  static const json none = json::object();
  auto it = config.find(key);
  return it != config.end() && it->is_object() ? *it : none;
}

/// A section that is there and not switched off. "auto" is for the program that
/// reads the file to say: who wrote the section wants it.
static bool isOn(const json &config, const char *key) {
  const json &section = sectionOf(config, key);
  if (section.empty())
    return false;
  auto enabled = section.find("enabled");
  return enabled == section.end() || *enabled == true || *enabled == "auto";
}

Expected<int64_t> Reader::number(const json &section, const char *key,
                                 int64_t missing, int64_t least) const {
  auto it = section.find(key);
  if (it == section.end() || *it == "auto")
    return missing;
  if (!it->is_number_integer() || it->get<int64_t>() < least)
    return wrong(std::string(key) + "=" + it->dump() +
                 " is no whole number >= " + std::to_string(least));
  return it->get<int64_t>();
}

/// What splits work in ways that --strategy has no keys for.
Status Reader::refuseOthers() const {
  if (isOn(config, "elasticity"))
    return wrong("elasticity changes the number of ranks while it runs; "
                 "expected it switched off");
  if (isOn(config, "autotuning"))
    return wrong("autotuning leaves the strategy open; expected the "
                 "configuration that it found");
  const json &zero = sectionOf(config, "zero_optimization");
  if (auto hpz = number(zero, "zero_hpz_partition_size", 1); !hpz)
    return Error{hpz.message()};
  else if (*hpz > 1)
    return wrong("zero_hpz_partition_size=" + std::to_string(*hpz) +
                 ": copies of parameters inside a node besides those that are "
                 "split; expected 1 (hybrid_shard splits states too)");
  const json &tensor = sectionOf(config, "tensor_parallel");
  for (const char *key : {"tp", "tensor_parallel"})
    if (tensor.contains(key))
      return wrong(std::string("tensor_parallel.") + key +
                   " is for inference; expected autotp_size");
  return Status();
}

Status Reader::readDegrees() {
  cost::Strategy &strategy = result.strategy;
  auto tp = number(sectionOf(config, "tensor_parallel"), "autotp_size", 1, 0);
  auto pp = number(sectionOf(config, "pipeline"), "stages", 1);
  auto cp = number(config, "sequence_parallel_size", 1);
  auto ep = number(sectionOf(config, "expert_parallel"), "autoep_size", 1);
  for (const auto *degree : {&tp, &pp, &cp, &ep})
    if (!*degree)
      return Error{degree->message()};
  strategy.tp = std::max<int64_t>(1, *tp);
  strategy.pp = *pp;
  strategy.cp = *cp;
  if (strategy.cp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  if (isOn(config, "expert_parallel"))
    strategy.ep = *ep;
  int64_t model = strategy.tp.ranks * strategy.pp * strategy.cp;
  if (devices % model != 0)
    return wrong("tp=" + std::to_string(strategy.tp.ranks) +
                 ",pp=" + std::to_string(strategy.pp) +
                 ",cp=" + std::to_string(strategy.cp) + " do not divide the " +
                 std::to_string(devices) + " devices of the cluster");
  strategy.dp = devices / model;
  return Status();
}

/// "", "host" or "disk"; an error on a device that is none of DeepSpeed's.
static Expected<std::string> placeOf(const json &section) {
  auto it = section.find("device");
  if (it == section.end() || it->is_null() || *it == "none")
    return std::string();
  if (*it == "cpu" || *it == "nvme")
    return std::string(*it == "cpu" ? "host" : "disk");
  return wrong("offload device " + it->dump() +
               "; expected \"cpu\", \"nvme\" or \"none\"");
}

Status Reader::readOffload(const json &zero) {
  auto optimizer = placeOf(sectionOf(zero, "offload_optimizer"));
  auto parameters = placeOf(sectionOf(zero, "offload_param"));
  if (!optimizer || !parameters)
    return Error{(optimizer ? parameters : optimizer).message()};
  cost::Strategy &strategy = result.strategy;
  if (optimizer->empty() && parameters->empty())
    return Status();
  if (!optimizer->empty() && !parameters->empty() && *optimizer != *parameters)
    return wrong("offload_optimizer and offload_param lie on different "
                 "devices; expected one for both");
  strategy.offload = parameters->empty()  ? cost::Offload::Optimizer
                     : optimizer->empty() ? cost::Offload::Parameters
                                          : cost::Offload::All;
  strategy.offloadTo = *symbolize<cost::OffloadTarget>(
      parameters->empty() ? *optimizer : *parameters);
  auto ratio = sectionOf(zero, "offload_optimizer").find("ratio");
  if (ratio != sectionOf(zero, "offload_optimizer").end() && *ratio != 1.0)
    return wrong("offload_optimizer.ratio=" + ratio->dump() +
                 "; expected 1: all of it");
  return Status();
}

Status Reader::readZero() {
  const json &zero = sectionOf(config, "zero_optimization");
  auto stage = number(zero, "stage", 0, 0);
  if (!stage)
    return Error{stage.message()};
  if (*stage > 3)
    return wrong("zero_optimization.stage=" + std::to_string(*stage) +
                 "; expected 0 to 3");
  result.strategy.zero = *stage;
  auto mics = number(zero, "mics_shard_size", 0, -1);
  if (!mics)
    return Error{mics.message()};
  if (*mics > 0 && *stage > 0 && *mics != result.strategy.dp)
    result.strategy.hybridShard = *mics;
  return readOffload(zero);
}

Status Reader::readBatch() {
  auto all = number(config, "train_batch_size", 0);
  auto micro = number(config, "train_micro_batch_size_per_gpu", 0);
  auto steps = number(config, "gradient_accumulation_steps", 0);
  for (const auto *each : {&all, &micro, &steps})
    if (!*each)
      return Error{each->message()};
  int64_t dp = result.strategy.dp;
  if (*micro == 0 && *all > 0 && *steps > 0 && *all % (*steps * dp) == 0)
    *micro = *all / (*steps * dp);
  result.strategy.microBatch = *micro;
  result.globalBatch = *all > 0                   ? *all
                       : *micro > 0 && *steps > 0 ? *micro * *steps * dp
                                                  : 0;
  if (*micro > 0 && *steps > 0 && *micro * *steps * dp != result.globalBatch)
    return wrong("train_batch_size=" + std::to_string(*all) + " is not " +
                 std::to_string(*micro) + " x " + std::to_string(*steps) +
                 " x dp=" + std::to_string(dp));
  return Status();
}

Status Reader::readRecompute() {
  auto interval = number(sectionOf(config, "pipeline"),
                         "activation_checkpoint_interval", 0, 0);
  auto checkpoints = number(sectionOf(config, "activation_checkpointing"),
                            "number_checkpoints", 0, 0);
  if (!interval || !checkpoints)
    return Error{(interval ? checkpoints : interval).message()};
  if (*interval > 0 || *checkpoints > 0)
    result.strategy.recompute = cost::Recompute::Full;
  return Status();
}

void Reader::readPrecision() {
  if (isOn(config, "bf16"))
    result.precision = "bf16";
  else if (isOn(config, "fp16"))
    result.precision = "fp16";
  auto type = sectionOf(config, "optimizer").find("type");
  result.usesSgd =
      type != sectionOf(config, "optimizer").end() && *type == "SGD";
}

/// All that a ds_config may say of the model is its vocabulary.
void Reader::readSizes() {
  auto words = number(config, "vocabulary_size", 0);
  if (words && *words > 0)
    result.sizes.push_back({"vocabulary_size", *words, &ModelShape::vocabulary,
                            /*isOfTokens=*/true});
}

void Reader::listIgnored() {
  const std::vector<std::string> read = {"train_batch_size",
                                         "train_micro_batch_size_per_gpu",
                                         "gradient_accumulation_steps",
                                         "sequence_parallel_size",
                                         "zero_optimization",
                                         "pipeline",
                                         "tensor_parallel",
                                         "expert_parallel",
                                         "vocabulary_size",
                                         "bf16",
                                         "fp16"};
  for (const auto &[key, value] : config.items())
    if (std::find(read.begin(), read.end(), key) == read.end() &&
        !(key == "activation_checkpointing" &&
          result.strategy.recompute == cost::Recompute::Full))
      result.ignored.push_back(key);
  const std::vector<std::string> ofZero = {"stage", "offload_optimizer",
                                           "offload_param", "mics_shard_size",
                                           "zero_hpz_partition_size"};
  for (const auto &[key, value] :
       sectionOf(config, "zero_optimization").items())
    if (std::find(ofZero.begin(), ofZero.end(), key) == ofZero.end())
      result.ignored.push_back("zero_optimization." + key);
}

Expected<Imported> Reader::run() {
  if (Status status = refuseOthers(); !status)
    return Error{status.message()};
  if (Status status = readDegrees(); !status)
    return Error{status.message()};
  if (Status status = readZero(); !status)
    return Error{status.message()};
  if (Status status = readBatch(); !status)
    return Error{status.message()};
  if (Status status = readRecompute(); !status)
    return Error{status.message()};
  readPrecision();
  readSizes();
  listIgnored();
  return std::move(result);
}

Expected<Imported> readDeepSpeed(const std::string &text, int64_t devices) {
  json config = json::parse(text, nullptr, /*allow_exceptions=*/false,
                            /*ignore_comments=*/true);
  if (!config.is_object())
    return wrong("not a JSON object");
  return Reader(config, devices).run();
}

} // namespace dpc::exports
