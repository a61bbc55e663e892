//===- Accelerate.cpp - Hugging Face Accelerate's YAML --------------------===//
//
// Written for accelerate 1.15. Sources: commands/config/config_args.py (which
// refuses unknown keys at the top level), parallelism_config.py and
// utils/launch.py. The strategy decides which of the four engines of Accelerate
// is used.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Megatron.h"
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <yaml-cpp/yaml.h>

namespace dpc::exports {

static const char *const kWhose = "Accelerate";

namespace {
enum class Engine { ddp, fsdp, deepSpeed, megatron };
} // namespace

static Engine engineOf(const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  bool splitsModel = strategy.tp.ranks > 1 || strategy.cp > 1;
  bool isUlysses = strategy.cp > 1 && strategy.cpKind == cost::CpKind::Ulysses;
  if (isUlysses && strategy.zero >= 1 && strategy.tp.ranks == 1 &&
      strategy.pp == 1 && strategy.ep == 1)
    return Engine::deepSpeed;
  if (strategy.pp > 1 || strategy.ep > 1 || strategy.sp ||
      (splitsModel && strategy.zero <= 1))
    return Engine::megatron;
  if (strategy.zero == 0)
    return Engine::ddp;
  return strategy.zero == 1 ? Engine::deepSpeed : Engine::fsdp;
}

static std::function<bool(const Job &)> on(Engine engine) {
  return [engine](const Job &job) { return engineOf(job) == engine; };
}

static void append(Rules &rules, Engine engine, Rules more) {
  for (Rule &rule : more) {
    std::string text = "Accelerate: " + rule.text;
    rules.push_back(saying(onlyIf(std::move(rule), on(engine)), text));
  }
}

static Rules accelerateRules() {
  const char *fsdp = "FSDP", *ddp = "DistributedDataParallel",
             *plugin = "its plugin for Megatron-LM";
  Rules rules = {trainingOnly(kWhose),
                 noGrid(kWhose),
                 evenShares(kWhose),
                 evenBatch(kWhose),
                 usualPlacement(kWhose),
                 noChunks(kWhose),
                 precisions(kWhose, {"fp32", "bf16", "fp16"})};
  append(rules, Engine::fsdp,
         {hostOnly(fsdp), offloads(fsdp, {"none", "all"}),
          recomputes(fsdp, {"none", "full"}),
          contextKind(fsdp, cost::CpKind::Ring)});
  append(rules, Engine::ddp,
         {offloads(ddp, {"none"}), recomputes(ddp, {"none"})});
  append(rules, Engine::deepSpeed, deepSpeed.rules());
  append(rules, Engine::megatron, megatronPlanRules());
  append(rules, Engine::megatron,
         {zeros(plugin, {0, 1}), noHybrid(plugin), evenLayers(plugin),
          contextKind(plugin, cost::CpKind::Ring)});
  return rules;
}

static YAML::Node parallelismOf(const cost::Strategy &strategy) {
  YAML::Node node;
  const std::string key = "parallelism_config_";
  bool isUlysses = strategy.cp > 1 && strategy.cpKind == cost::CpKind::Ulysses;
  int64_t shard = strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp;
  // With Ulysses, DeepSpeed (not Accelerate) groups the data-parallel ranks.
  node[key + "dp_replicate_size"] = isUlysses ? 1 : strategy.dp / shard;
  node[key + "dp_shard_size"] = isUlysses ? 1 : shard;
  node[key + "tp_size"] = strategy.tp.ranks;
  if (strategy.cp > 1 && isUlysses) {
    node[key + "sp_size"] = strategy.cp;
    node[key + "sp_backend"] = "deepspeed";
  } else {
    node[key + "cp_size"] = strategy.cp;
  }
  if (strategy.cp > 1 && !isUlysses) {
    node[key + "cp_backend"] = "torch";
    node[key + "cp_comm_strategy"] = "alltoall";
  }
  return node;
}

static YAML::Node fsdpOf(const cost::Strategy &strategy) {
  YAML::Node node;
  node["fsdp_version"] = 2;
  node["fsdp_reshard_after_forward"] = strategy.zero == 3;
  node["fsdp_auto_wrap_policy"] = "TRANSFORMER_BASED_WRAP";
  node["fsdp_offload_params"] = strategy.offload == cost::Offload::All;
  node["fsdp_activation_checkpointing"] =
      strategy.recompute == cost::Recompute::Full;
  node["fsdp_state_dict_type"] = "SHARDED_STATE_DICT";
  node["fsdp_cpu_ram_efficient_loading"] = true;
  return node;
}

static YAML::Node deepSpeedOf(const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  std::string device =
      strategy.offloadTo == cost::OffloadTarget::Disk ? "nvme" : "cpu";
  bool all = strategy.offload == cost::Offload::All;
  YAML::Node node;
  node["zero_stage"] = strategy.zero;
  node["gradient_accumulation_steps"] = job.microBatches();
  node["gradient_clipping"] = job.optimizer.clipGradNorm;
  node["offload_optimizer_device"] =
      all || strategy.offload == cost::Offload::Optimizer ? device : "none";
  node["offload_param_device"] =
      all || strategy.offload == cost::Offload::Parameters ? device : "none";
  if (strategy.offload != cost::Offload::None && device == "nvme") {
    node["offload_optimizer_nvme_path"] = "/local_nvme";
    node["offload_param_nvme_path"] = "/local_nvme";
  }
  node["zero3_init_flag"] = strategy.zero == 3;
  return node;
}

static YAML::Node megatronOf(const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  const std::string key = "megatron_lm_";
  YAML::Node node;
  node[key + "tp_degree"] = strategy.tp.ranks;
  node[key + "pp_degree"] = strategy.pp;
  node[key + "num_micro_batches"] = job.microBatches();
  node[key + "sequence_parallelism"] = strategy.sp;
  node[key + "use_distributed_optimizer"] = strategy.zero == 1;
  node[key + "gradient_clipping"] = job.optimizer.clipGradNorm;
  if (strategy.cp > 1)
    node[key + "context_parallel_size"] = strategy.cp;
  if (strategy.ep > 1) {
    node[key + "expert_model_parallel_size"] = strategy.ep;
    node[key + "expert_tensor_parallel_size"] =
        job.splitsEachExpert() ? strategy.tp.ranks : 1;
  }
  if (strategy.recompute != cost::Recompute::None)
    node[key + "recompute_granularity"] = cost::printValue(strategy.recompute);
  if (strategy.recompute == cost::Recompute::Full) {
    node[key + "recompute_method"] = "uniform";
    node[key + "recompute_num_layers"] = 1;
  }
  if (strategy.offload == cost::Offload::Optimizer) {
    node[key + "optimizer_cpu_offload"] = true;
    node[key + "use_precision_aware_optimizer"] = true;
  }
  return node;
}

static void addEngine(YAML::Node &config, const Job &job, Engine engine) {
  const cost::Strategy &strategy = job.strategy;
  if (engine == Engine::ddp) {
    config["distributed_type"] = strategy.dp > 1 ? "MULTI_GPU" : "NO";
  } else if (engine == Engine::fsdp) {
    config["distributed_type"] = "FSDP";
    config["fsdp_config"] = fsdpOf(strategy);
  } else if (engine == Engine::deepSpeed) {
    config["distributed_type"] = "DEEPSPEED";
    config["deepspeed_config"] = deepSpeedOf(job);
  } else {
    config["distributed_type"] = "MEGATRON_LM";
    config["megatron_lm_config"] = megatronOf(job);
  }
  if (engine == Engine::fsdp ||
      (engine == Engine::deepSpeed && strategy.cp > 1))
    config["parallelism_config"] = parallelismOf(strategy);
}

/// Emits `config`. YAML 1.1 reads the words "no" and "NO" as false unless they
/// are quoted.
static void emitSettings(YAML::Emitter &emitter, const YAML::Node &config) {
  emitter << YAML::BeginMap;
  for (const auto &entry : config) {
    emitter << YAML::Key << entry.first << YAML::Value;
    const YAML::Node &value = entry.second;
    if (value.IsScalar() && (value.Scalar() == "no" || value.Scalar() == "NO"))
      emitter << YAML::DoubleQuoted << value.Scalar();
    else
      emitter << value;
  }
  emitter << YAML::EndMap;
}

static Exported writeAccelerate(const Job &job) {
  Engine engine = engineOf(job);
  YAML::Node config;
  config["compute_environment"] = "LOCAL_MACHINE";
  addEngine(config, job, engine);
  std::set<Setting> expressed;
  if (engine == Engine::deepSpeed || engine == Engine::megatron)
    expressed.insert(Setting::clipping);
  config["mixed_precision"] = job.precision == "fp32" ? "no" : job.precision;
  config["num_machines"] = job.nodes();
  config["num_processes"] = job.ranks();
  config["machine_rank"] = 0;
  if (job.nodes() > 1) {
    config["main_process_ip"] = "MAIN_PROCESS_IP"; // for the user
    config["main_process_port"] = 29500;
  }
  config["main_training_function"] = "main";
  config["rdzv_backend"] = "static";
  config["same_network"] = true;
  config["use_cpu"] = false;
  YAML::Emitter emitter;
  emitter << YAML::Comment(
                 "accelerate launch --config_file; for the strategy " +
                 cost::stringifyStrategy(job.strategy))
          << YAML::Newline << YAML::Comment("Written by dpc-opt.");
  if (std::string text = notExpressed(job, expressed); !text.empty())
    emitter << YAML::Newline << YAML::Comment(text);
  emitSettings(emitter, config);
  Exported result;
  result.files.push_back(
      {"accelerate.yaml", std::string(emitter.c_str()) + "\n"});
  remarkOnSettings(result, job, expressed);
  if (job.nodes() > 1)
    result.remarks.emplace_back(
        "accelerate.yaml: fill in main_process_ip, and machine_rank on each of "
        "the " +
        std::to_string(job.nodes()) + " machines");
  std::string batch = "accelerate.yaml: the script sets the batch: " +
                      std::to_string(job.microBatch()) + " samples per process";
  if (engine != Engine::megatron)
    batch +=
        ", gradient_accumulation_steps=" + std::to_string(job.microBatches());
  result.remarks.push_back(batch);
  if (engine == Engine::deepSpeed &&
      job.strategy.recompute == cost::Recompute::Full)
    result.remarks.emplace_back(
        "accelerate.yaml: the model enables recomputation: "
        "gradient_checkpointing_enable()");
  return result;
}

const Target accelerate = {"accelerate", kWhose, accelerateRules,
                           writeAccelerate, "pytorch-fsdp-2024"};

} // namespace dpc::exports
