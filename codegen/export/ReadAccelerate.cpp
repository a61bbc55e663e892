//===- ReadAccelerate.cpp - A strategy from Accelerate's YAML -------------===//
//
// Reads the configuration of `accelerate launch`: DistributedDataParallel,
// FSDP, and the plugins for DeepSpeed and Megatron-LM. The script of the user
// sets the batch.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

namespace {

class AccelerateReader : StrategyReader {
public:
  using StrategyReader::StrategyReader;
  Expected<Imported> read();

private:
  void readRanks();
  void readFsdp();
  void readFsdpKind();
  void readDeepSpeed();
  void readMegatron();
  void readMegatronRecompute();
  void readPrecision();
  cost::Offload readOffload();
};

} // namespace

void AccelerateReader::readRanks() {
  if (auto ranks = findNumber("num_processes"))
    setDevices("num_processes", *ranks);
}

/// Sets zero and hybrid_shard. Version 1 of FSDP has a strategy, version 2
/// states whether parameters are freed after the forward pass.
void AccelerateReader::readFsdpKind() {
  cost::Strategy &strategy = result.strategy;
  const std::string key = "fsdp_config.fsdp_sharding_strategy";
  const std::string reshard = "fsdp_config.fsdp_reshard_after_forward";
  std::string kind = word(has(key) ? key : reshard, "FULL_SHARD");
  const std::pair<const char *, const char *> numbers[] = {
      {"1", "FULL_SHARD"},         {"2", "SHARD_GRAD_OP"},
      {"3", "NO_SHARD"},           {"4", "HYBRID_SHARD"},
      {"5", "HYBRID_SHARD_ZERO2"}, {"true", "FULL_SHARD"},
      {"false", "SHARD_GRAD_OP"}};
  for (auto [number, name] : numbers)
    if (kind == number)
      kind = name;
  bool isHybrid = kind.starts_with("HYBRID_SHARD");
  if (kind == "FULL_SHARD" || kind == "HYBRID_SHARD")
    strategy.zero = 3;
  else if (kind == "SHARD_GRAD_OP" || kind == "HYBRID_SHARD_ZERO2")
    strategy.zero = 2;
  else if (kind != "NO_SHARD")
    fail(has(key) ? key : reshard,
         "; expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
         "HYBRID_SHARD_ZERO2");
  int64_t machines = number("num_machines", 1);
  if (isHybrid && machines > 1 && strategy.dp % machines == 0)
    strategy.hybridShard = strategy.dp / machines;
}

void AccelerateReader::readFsdp() {
  cost::Strategy &strategy = result.strategy;
  const std::string section = "parallelism_config.parallelism_config_";
  int64_t sp = number(section + "sp_size", 1);
  setDegrees(number(section + "tp_size", 1), 1,
             number(section + "cp_size", 1) * sp);
  if (sp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  readFsdpKind();
  int64_t replicas = number(section + "dp_replicate_size", 1);
  int64_t shards = number(section + "dp_shard_size", 1);
  if (replicas > 1 && shards > 1 && strategy.dp % replicas == 0)
    strategy.hybridShard = strategy.dp / replicas;
  if (replicas > 1 && shards == 1)
    strategy.zero = 0;
  if (isTrue("fsdp_config.fsdp_offload_params"))
    strategy.offload = cost::Offload::All;
  if (isTrue("fsdp_config.fsdp_activation_checkpointing"))
    strategy.recompute = cost::Recompute::Full;
}

cost::Offload AccelerateReader::readOffload() {
  std::string places[2];
  const char *keys[] = {"deepspeed_config.offload_optimizer_device",
                        "deepspeed_config.offload_param_device"};
  for (int i = 0; i < 2; ++i) {
    places[i] = word(keys[i], "none");
    if (places[i] != "none" && places[i] != "cpu" && places[i] != "nvme")
      fail(keys[i], "; expected cpu, nvme or none");
  }
  bool optimizer = places[0] != "none", parameters = places[1] != "none";
  if (optimizer && parameters && places[0] != places[1])
    refuse(keys[0], "offload_to",
           "is another device than offload_param_device; expected one device");
  if (places[0] == "nvme" || places[1] == "nvme")
    result.strategy.offloadTo = cost::OffloadTarget::Disk;
  return optimizer && parameters ? cost::Offload::All
         : optimizer             ? cost::Offload::Optimizer
         : parameters            ? cost::Offload::Parameters
                                 : cost::Offload::None;
}

void AccelerateReader::readDeepSpeed() {
  cost::Strategy &strategy = result.strategy;
  if (has("deepspeed_config.deepspeed_config_file"))
    fail("deepspeed_config.deepspeed_config_file",
         "has the strategy; expected --strategy=@ with this file");
  const std::string section = "parallelism_config.parallelism_config_";
  setDegrees(number(section + "tp_size", 1), 1, number(section + "sp_size", 1));
  if (strategy.cp > 1)
    strategy.cpKind = cost::CpKind::Ulysses;
  strategy.zero = number("deepspeed_config.zero_stage", 2, 0);
  if (strategy.zero > 3)
    fail("deepspeed_config.zero_stage", "; expected 0 to 3");
  strategy.offload = readOffload();
  setBatch(0, 0, number("deepspeed_config.gradient_accumulation_steps", 0));
}

void AccelerateReader::readMegatronRecompute() {
  const std::string section = "megatron_lm_config.megatron_lm_";
  std::string kind =
      word(section + "recompute_granularity",
           isTrue(section + "recompute_activations") ? "selective" : "none");
  auto recompute = symbolize<cost::Recompute>(kind);
  if (!recompute)
    fail(section + "recompute_granularity", "; expected full or selective");
  result.strategy.recompute = recompute.value_or(cost::Recompute::None);
  if (result.strategy.recompute != cost::Recompute::Full)
    return;
  if (word(section + "recompute_method", "uniform") != "uniform" ||
      number(section + "recompute_num_layers", 1) != 1)
    refuse(section + "recompute_method", "recompute",
           "recomputes groups of layers or some layers only; expected uniform "
           "with recompute_num_layers=1");
}

void AccelerateReader::readMegatron() {
  cost::Strategy &strategy = result.strategy;
  const std::string section = "megatron_lm_config.megatron_lm_";
  setDegrees(number(section + "tp_degree", 1), number(section + "pp_degree", 1),
             number(section + "context_parallel_size", 1));
  strategy.sp =
      isTrue(section + "sequence_parallelism") && strategy.tp.ranks > 1;
  strategy.ep = number(section + "expert_model_parallel_size", 1);
  checkExpertTensor(
      section + "expert_tensor_parallel_size",
      number(section + "expert_tensor_parallel_size", strategy.tp.ranks));
  strategy.zero = isTrue(section + "use_distributed_optimizer") ? 1 : 0;
  if (isTrue(section + "use_custom_fsdp"))
    strategy.zero = 3;
  if (isTrue(section + "optimizer_cpu_offload"))
    strategy.offload = cost::Offload::Optimizer;
  readMegatronRecompute();
  setBatch(0, 0, number(section + "num_micro_batches", 1));
}

void AccelerateReader::readPrecision() {
  std::string precision = word("mixed_precision", "no");
  if (precision == "no")
    precision = "fp32";
  if (precision != "fp32" && precision != "bf16" && precision != "fp16" &&
      precision != "fp8")
    fail("mixed_precision", "; expected no, bf16, fp16 or fp8");
  result.precision = precision;
}

Expected<Imported> AccelerateReader::read() {
  readRanks();
  std::string kind = word("distributed_type", "NO");
  if (kind == "FSDP")
    readFsdp();
  else if (kind == "DEEPSPEED")
    readDeepSpeed();
  else if (kind == "MEGATRON_LM")
    readMegatron();
  else if (kind == "NO" || kind.starts_with("MULTI_"))
    setDegrees(1, 1, 1);
  else
    fail("distributed_type",
         "; expected NO, MULTI_GPU, MULTI_CPU, FSDP, DEEPSPEED or MEGATRON_LM");
  readPrecision();
  return finish();
}

static bool isAccelerate(const FileSettings &file) {
  return (file.syntax == Syntax::Yaml || file.syntax == Syntax::Json) &&
         file.has("distributed_type");
}

const ReaderOf accelerateReader = {
    "a configuration of Accelerate", isAccelerate,
    [](const FileSettings &file, const AskedStrategy &asked) {
      return AccelerateReader(file, asked).read();
    }};

} // namespace dpc::exports
