//===- DeepSpeed.cpp - ds_config.json -------------------------------------===//
//
// Written for DeepSpeed 0.19. Sources: deepspeed/runtime/config.py,
// pipe/engine.py, zero/config.py and module_inject/auto_ep_folding.py.
// ReadDeepSpeed.cpp reads the file back.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace dpc::exports {

using cost::Strategy;
using nlohmann::ordered_json;

static const char *const kWhose = "DeepSpeed";

static bool hasPipeline(const Job &job) { return job.strategy.pp > 1; }

static Rules pipelineRules() {
  return {
      saying(onlyIf(zeros("", {0, 1}), hasPipeline),
             "DeepSpeed's pipelines run with ZeRO 0 or 1 (pipe/engine.py)"),
      saying(onlyIf(noTensor(""), hasPipeline),
             "DeepSpeed's AutoTP has no pipelines: tp=1 with pp > 1"),
      saying(onlyIf(noContext(""), hasPipeline),
             "DeepSpeed's pipelines have no context parallelism: cp=1 with "
             "pp > 1"),
      saying(onlyIf(noExperts(""), hasPipeline),
             "DeepSpeed's AutoEP has no pipelines: ep=1 with pp > 1"),
  };
}

static Rules offloadRules() {
  return {
      strategyRule(
          "DeepSpeed offloads the optimizer with ZeRO 1, 2 or 3 "
          "(offload_optimizer)",
          [](const Strategy &s) {
            return s.offload != cost::Offload::Optimizer || s.zero >= 1;
          },
          [](Strategy &s) { s.zero = 1; }),
      strategyRule(
          "DeepSpeed offloads parameters with ZeRO 3 (offload_param)",
          [](const Strategy &s) {
            return (s.offload != cost::Offload::Parameters &&
                    s.offload != cost::Offload::All) ||
                   s.zero == 3;
          },
          [](Strategy &s) {
            if (s.pp > 1) // DeepSpeed excludes pp > 1 with ZeRO 3
              s.offload = cost::Offload::Optimizer;
            else
              s.zero = 3;
          }),
      strategyRule(
          "DeepSpeed offloads to disk with ZeRO 3 (nvme)",
          [](const Strategy &s) {
            return s.offload == cost::Offload::None ||
                   s.offloadTo == cost::OffloadTarget::Host || s.zero == 3;
          },
          [](Strategy &s) { s.offloadTo = cost::OffloadTarget::Host; }),
  };
}

static Rules expertRules() {
  auto hasBoth = [](const Job &job) {
    return job.strategy.ep > 1 && job.strategy.tp.ranks > 1;
  };
  return {
      saying(
          onlyIf({"", [](const Job &job) { return !job.splitsEachExpert(); },
                  noExperts("").mend},
                 hasBoth),
          "DeepSpeed's AutoEP does not shard an expert "
          "(expert_tensor_parallel_size=1): with tp > 1, ep must be tp times a "
          "divisor of dp and must not divide dp"),
      saying(onlyIf(offloads("", {"none"}), hasBoth),
             "DeepSpeed does not offload with AutoEP and AutoTP"),
  };
}

static Rules deepSpeedRules() {
  Rules rules = {
      trainingOnly(kWhose),
      precisions(kWhose, {"fp32", "bf16", "fp16"}),
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose),
      noSequenceParallel(kWhose),
      contextKind(kWhose, cost::CpKind::Ulysses),
      saying(onlyIf(noContext(""),
                    [](const Job &job) { return job.strategy.tp.ranks > 1; }),
             "DeepSpeed has AutoTP or Ulysses, not both: cp=1 with tp > 1"),
      noChunks(kWhose),
      schedules(kWhose, {"1f1b"}),
      noHybrid(kWhose),
      recomputes(kWhose, {"none", "full"}),
  };
  for (auto *more : {pipelineRules, offloadRules, expertRules})
    for (Rule &rule : more())
      rules.push_back(std::move(rule));
  return rules;
}

static ordered_json offloadTo(const Strategy &strategy) {
  bool isDisk = strategy.offloadTo == cost::OffloadTarget::Disk;
  ordered_json json = {{"device", isDisk ? "nvme" : "cpu"},
                       {"pin_memory", true}};
  if (isDisk)
    json["nvme_path"] = "/local_nvme";
  return json;
}

static ordered_json zeroOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  ordered_json zero = {{"stage", strategy.zero}};
  if (strategy.zero == 0)
    return zero;
  zero["overlap_comm"] = true;
  zero["contiguous_gradients"] = true;
  if (strategy.zero == 2)
    zero["reduce_scatter"] = true;
  if (strategy.zero == 3)
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
  if (strategy.offload == cost::Offload::Optimizer ||
      strategy.offload == cost::Offload::All)
    zero["offload_optimizer"] = offloadTo(strategy);
  if (strategy.offload == cost::Offload::Parameters ||
      strategy.offload == cost::Offload::All)
    zero["offload_param"] = offloadTo(strategy);
  return zero;
}

static ordered_json optimizerOf(const OptimizerChoice &optimizer) {
  if (optimizer.name == "sgd")
    return {{"type", "SGD"},
            {"params",
             {{"lr", optimizer.lr},
              {"momentum", optimizer.momentum},
              {"weight_decay", optimizer.weightDecay}}}};
  return {{"type", "AdamW"},
          {"params",
           {{"lr", optimizer.lr},
            {"betas", {optimizer.beta1, optimizer.beta2}},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weightDecay}}}};
}

/// DeepSpeed sets the rate of a step from the number of steps before the last
/// one, and dpc from the number of steps before this one. The parameters are
/// chosen so that rates after lateSteps are equal.
static ordered_json schedulerOf(const Job &job) {
  const RateSchedule &schedule = job.schedule;
  double lr = job.optimizer.lr;
  if (schedule.kind == "cosine")
    return {{"type", "WarmupCosineLR"},
            {"params",
             {{"warmup_num_steps", schedule.warmup},
              {"warmup_type", "linear"},
              {"total_num_steps", schedule.total},
              {"warmup_min_ratio", 0.0},
              {"cos_min_ratio", lr > 0 ? schedule.min / lr : 0}}}};
  bool isLinear = schedule.kind == "linear";
  // WarmupDecayLR falls to warmup_min_lr.
  double least = isLinear ? 0 : lr / static_cast<double>(schedule.warmup);
  ordered_json params = {{"warmup_num_steps", schedule.warmup - 1},
                         {"warmup_type", "linear"},
                         {"warmup_min_lr", least},
                         {"warmup_max_lr", lr}};
  if (isLinear)
    params["total_num_steps"] = schedule.total - 1;
  return {{"type", isLinear ? "WarmupDecayLR" : "WarmupLR"},
          {"params", params}};
}

static int64_t lateSteps(const RateSchedule &schedule) {
  return schedule.kind == "cosine" ? schedule.warmup + 1 : schedule.warmup;
}

/// Whether DeepSpeed can express the schedule. The warmup of its schedulers has
/// at least two steps, and WarmupDecayLR always falls to 0.
static bool hasScheduler(const RateSchedule &schedule) {
  return schedule.isPlain() ||
         (schedule.warmup >= 3 &&
          (schedule.kind != "linear" || schedule.min == 0));
}

/// initial_scale_power is an integer, so only powers of 2 can be expressed.
static bool hasLossScale(const LossScale &scale) {
  return scale.interval == 0 ||
         std::exp2(std::round(std::log2(scale.initial))) == scale.initial;
}

static ordered_json precisionOf(const Job &job) {
  ordered_json section = {{"enabled", true}};
  const LossScale &scale = job.lossScale;
  if (job.precision != "fp16" || !scale.isUsed)
    return section;
  section["loss_scale"] = scale.interval == 0 ? scale.initial : 0.0;
  if (scale.interval == 0)
    return section;
  if (hasLossScale(scale))
    section["initial_scale_power"] = std::llround(std::log2(scale.initial));
  section["loss_scale_window"] = scale.interval;
  section["hysteresis"] = 1;
  return section;
}

static void addDegrees(ordered_json &config, const Job &job) {
  const Strategy &strategy = job.strategy;
  bool isFull = strategy.recompute == cost::Recompute::Full;
  if (strategy.tp.ranks > 1)
    config["tensor_parallel"] = {{"autotp_size", strategy.tp.ranks}};
  if (strategy.cp > 1)
    config["sequence_parallel_size"] = strategy.cp;
  if (strategy.ep > 1)
    config["expert_parallel"] = {{"enabled", true},
                                 {"autoep_size", strategy.ep}};
  if (strategy.pp > 1)
    config["pipeline"] = {{"stages", strategy.pp},
                          {"activation_checkpoint_interval", isFull ? 1 : 0}};
  else if (isFull)
    config["activation_checkpointing"] = {
        {"partition_activations", false},
        {"number_checkpoints", std::max<int64_t>(1, job.model.layers)}};
}

static Exported writeDeepSpeed(const Job &job) {
  ordered_json config = {{"train_batch_size", job.globalBatch},
                         {"train_micro_batch_size_per_gpu", job.microBatch()},
                         {"gradient_accumulation_steps", job.microBatches()},
                         {"gradient_clipping", job.optimizer.clipGradNorm},
                         {"optimizer", optimizerOf(job.optimizer)},
                         {"zero_optimization", zeroOf(job)}};
  if (job.precision != "fp32")
    config[job.precision] = precisionOf(job);
  std::set<Setting> expressed = {Setting::optimizer, Setting::clipping};
  if (hasScheduler(job.schedule))
    expressed.insert(Setting::schedule);
  if (hasScheduler(job.schedule) && !job.schedule.isPlain())
    config["scheduler"] = schedulerOf(job);
  if (job.precision == "fp16" && hasLossScale(job.lossScale))
    expressed.insert(Setting::lossScale);
  addDegrees(config, job);
  Exported result;
  result.files.push_back({"ds_config.json", config.dump(2) + "\n"});
  remarkOnSettings(result, job, expressed);
  if (config.contains("scheduler"))
    remarkOnWarmup(result, job, kWhose, lateSteps(job.schedule));
  const Strategy &strategy = job.strategy;
  if (strategy.pp > 1)
    result.remarks.push_back(
        "ds_config.json: DeepSpeed needs a PipelineModule for pipelines: "
        "PipelineModule(layers, num_stages=" +
        std::to_string(strategy.pp) +
        (strategy.recompute == cost::Recompute::Full
             ? ", activation_checkpoint_interval=1)"
             : ")"));
  else if (strategy.recompute == cost::Recompute::Full)
    result.remarks.emplace_back(
        "ds_config.json: the model has to call "
        "deepspeed.checkpointing.checkpoint for every layer");
  if (strategy.offload != cost::Offload::None &&
      strategy.offloadTo == cost::OffloadTarget::Disk)
    result.remarks.emplace_back(
        "ds_config.json: nvme_path is /local_nvme; set yours");
  return result;
}

const Target deepSpeed = {"deepspeed", kWhose, deepSpeedRules, writeDeepSpeed,
                          "megatron-deepspeed-2022"};

} // namespace dpc::exports
