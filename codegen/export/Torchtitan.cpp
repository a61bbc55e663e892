//===- Torchtitan.cpp - A configuration of torchtitan ---------------------===//
//
// Up to v0.2.2, torchtitan reads TOML (torchtitan/config/job_config.py). Since
// 0.3.0 it reads Python (torchtitan/config/configs.py); the export is a
// function that adds the plan to the configuration of any model.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <toml++/toml.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace dpc::exports {

using cost::Strategy;

static const char *const kWhose = "torchtitan";

static int64_t shardDegree(const Strategy &strategy) {
  if (strategy.zero < 2)
    return 1;
  return strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp;
}

static void setFullSharding(Strategy &strategy) {
  strategy.zero = 3;
  strategy.hybridShard = 1;
}

/// PyTorch's interleaved schedule runs max(1, micro-batches / pp) equal rounds.
static bool hasWholeRounds(const Job &job) {
  int64_t rounds = std::max<int64_t>(1, job.microBatches() / job.strategy.pp);
  return job.strategy.vpp == 1 || job.microBatches() % rounds == 0;
}

static Rules shardingRules() {
  return {
      strategyRule(
          "torchtitan shards parameters over the context-parallel "
          "ranks: zero=2 or 3 with cp > 1",
          [](const Strategy &s) { return s.cp == 1 || s.zero >= 2; },
          setFullSharding),
      strategyRule(
          "torchtitan offloads everything that FSDP shards: "
          "offload=all with zero=2 or 3, or offload=none",
          [](const Strategy &s) {
            return s.offload == cost::Offload::None || s.zero >= 2;
          },
          setFullSharding),
      strategyRule(
          "torchtitan distributes experts over the FSDP, context-parallel and "
          "tensor-parallel ranks: ep divides their number",
          [](const Strategy &s) {
            return shardDegree(s) * s.cp * s.tp.ranks % s.ep == 0;
          },
          [](Strategy &s) {
            if (s.zero >= 2 && s.hybridShard == 1)
              s.ep = 1;
            setFullSharding(s);
          }),
      {"torchtitan does not shard an expert: with tp > 1, ep must be tp times "
       "a divisor of dp and must not divide dp",
       [](const Job &job) {
         return job.strategy.ep == 1 || job.strategy.tp.ranks == 1 ||
                !job.splitsEachExpert();
       },
       noExperts("").mend},
  };
}

static Rules torchtitanRules() {
  Rules rules = {
      trainingOnly(kWhose),
      precisions(kWhose, {"fp32", "bf16"}),
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose),
      contextKind(kWhose, cost::CpKind::Ring),
      zeros(kWhose, {0, 2, 3}),
      schedules(kWhose, {"1f1b", "gpipe", "interleaved"}),
      saying(onlyIf(evenLayers(""),
                    [](const Job &job) { return job.strategy.pp > 1; }),
             "torchtitan gives each stage the same number of layers "
             "(pipeline_parallel_layers_per_stage): pp times vpp divides the "
             "layers"),
      {"torchtitan's Interleaved1F1B needs micro-batches in whole rounds of at "
       "least pp",
       hasWholeRounds, wholeRounds("").mend},
      hostOnly(kWhose),
      offloads(kWhose, {"none", "all"}),
  };
  for (Rule &rule : shardingRules())
    rules.push_back(std::move(rule));
  return rules;
}

static Rules tomlRules() {
  return {
      {"v0.2.2 has tensor parallelism with sequence parallelism only (sp=true)",
       [](const Job &job) {
         return job.strategy.tp.ranks == 1 || job.strategy.sp;
       },
       nullptr},
      {"v0.2.2 combines unsharded parameters (zero=0) with data parallelism "
       "only",
       [](const Job &job) {
         const Strategy &strategy = job.strategy;
         return strategy.dp == 1 || strategy.zero >= 2 ||
                strategy.dp == strategy.ranks();
       },
       nullptr},
  };
}

static std::string pipelineOf(const Strategy &strategy) {
  if (strategy.schedule == cost::ScheduleKind::GPipe)
    return "GPipe";
  return strategy.vpp > 1 ? "Interleaved1F1B" : "1F1B";
}

namespace {

struct KeyValue {
  const char *key;
  std::variant<int64_t, bool, double, std::string> value;
};

} // namespace

static std::vector<KeyValue> parallelismOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  int64_t shard = shardDegree(strategy);
  std::vector<KeyValue> settings = {
      {"data_parallel_replicate_degree", strategy.dp / shard},
      {"data_parallel_shard_degree", shard},
      {"tensor_parallel_degree", strategy.tp.ranks},
      {"context_parallel_degree", strategy.cp},
      {"pipeline_parallel_degree", strategy.pp},
      {"expert_parallel_degree", strategy.ep}};
  if (strategy.zero >= 2)
    settings.push_back({"fsdp_reshard_after_forward",
                        std::string(strategy.zero == 3 ? "always" : "never")});
  if (strategy.pp > 1) {
    settings.push_back({"pipeline_parallel_schedule", pipelineOf(strategy)});
    settings.push_back({"pipeline_parallel_microbatch_size", job.microBatch()});
    settings.push_back({"pipeline_parallel_layers_per_stage",
                        job.model.layers / job.stages()});
    settings.push_back(
        {"pipeline_parallel_first_stage_less_layers", int64_t(0)});
    settings.push_back(
        {"pipeline_parallel_last_stage_less_layers", int64_t(0)});
  }
  return settings;
}

/// Returns the settings of [training]. With pipeline parallelism,
/// local_batch_size is the whole batch of a rank, otherwise one micro-batch.
static std::vector<KeyValue> trainingOf(const Job &job) {
  std::vector<KeyValue> settings = {
      {"local_batch_size",
       job.strategy.pp > 1 ? job.localBatch() : job.microBatch()},
      {"global_batch_size", job.globalBatch},
      {"enable_cpu_offload", job.strategy.offload == cost::Offload::All},
      {"mixed_precision_param",
       std::string(job.precision == "bf16" ? "bfloat16" : "float32")}};
  // The default clips to 1.0.
  double most = job.optimizer.clipGradNorm;
  settings.push_back(
      {"max_norm", most > 0 ? most : std::numeric_limits<double>::infinity()});
  if (job.model.sequence > 0 && job.model.kind != ModelKind::other)
    settings.push_back({"seq_len", job.model.sequence});
  return settings;
}

/// By default, torchtitan warms up for 200 steps and decays the rate to 0.
static std::vector<KeyValue> scheduleOf(const Job &job) {
  const RateSchedule &schedule = job.schedule;
  std::vector<KeyValue> settings = {{"warmup_steps", schedule.warmup}};
  if (schedule.kind == "constant") {
    settings.push_back({"decay_ratio", 0.0});
    return settings;
  }
  double lr = job.optimizer.lr;
  settings.push_back({"total_steps", schedule.total});
  settings.push_back({"decay_type", schedule.kind});
  settings.push_back({"min_lr_factor", lr > 0 ? schedule.min / lr : 0});
  return settings;
}

static std::set<Setting> expressedOf(const Job &job) {
  std::set<Setting> expressed = {Setting::clipping, Setting::schedule};
  if (job.optimizer.name == "adamw")
    expressed.insert(Setting::optimizer);
  return expressed;
}

static toml::table tableOf(const std::vector<KeyValue> &settings) {
  toml::table table;
  for (const KeyValue &setting : settings)
    std::visit([&](const auto &value) { table.insert(setting.key, value); },
               setting.value);
  return table;
}

static std::string tomlOf(const Job &job) {
  const OptimizerChoice &optimizer = job.optimizer;
  toml::table activations{{"mode", stringify(job.strategy.recompute)}};
  if (job.strategy.recompute == cost::Recompute::Selective)
    activations.insert("selective_ac_option", "op");
  toml::table config{{"parallelism", tableOf(parallelismOf(job))},
                     {"training", tableOf(trainingOf(job))},
                     {"lr_scheduler", tableOf(scheduleOf(job))},
                     {"activation_checkpoint", activations}};
  if (optimizer.name == "adamw")
    config.insert("optimizer",
                  toml::table{{"name", "AdamW"},
                              {"lr", optimizer.lr},
                              {"beta1", optimizer.beta1},
                              {"beta2", optimizer.beta2},
                              {"eps", optimizer.eps},
                              {"weight_decay", optimizer.weightDecay}});
  std::ostringstream text;
  text << "# torchtitan up to v0.2.2, for the strategy "
       << cost::stringifyStrategy(job.strategy)
       << "\n# Written by dpc-opt. [model], data and steps are yours.\n"
       << commentOnSettings(job, expressedOf(job)) << config << "\n";
  return text.str();
}

static void writeNumber(std::ostream &text, double number) {
  if (std::isinf(number))
    text << "float(\"inf\")";
  else
    text << number;
}

static std::string argumentsOf(const std::vector<KeyValue> &settings) {
  std::ostringstream text;
  text.precision(17);
  for (const KeyValue &setting : settings) {
    text << "            " << setting.key << "=";
    if (const auto *number = std::get_if<int64_t>(&setting.value))
      text << *number;
    else if (const auto *measure = std::get_if<double>(&setting.value))
      writeNumber(text, *measure);
    else if (const auto *flag = std::get_if<bool>(&setting.value))
      text << (*flag ? "True" : "False");
    else
      text << '"' << std::get<std::string>(setting.value) << '"';
    text << ",\n";
  }
  return text.str();
}

/// Returns "" if torchtitan does not have the optimizer.
static std::string optimizerOf(const OptimizerChoice &optimizer) {
  if (optimizer.name != "adamw")
    return "";
  std::ostringstream text;
  text.precision(10);
  text << "        optimizer=OptimizersContainer.Config(\n"
       << "            param_groups=[\n"
       << "                ParamGroupConfig(\n"
       << "                    pattern=r\".*\",\n"
       << "                    optimizer_name=\"AdamW\",\n"
       << "                    optimizer_kwargs={\"lr\": " << optimizer.lr
       << ", \"betas\": (" << optimizer.beta1 << ", " << optimizer.beta2
       << "), \"eps\": " << optimizer.eps
       << ", \"weight_decay\": " << optimizer.weightDecay << "},\n"
       << "                ),\n            ],\n        ),\n";
  return text.str();
}

static std::string recipeOf(const Job &job) {
  cost::Recompute recompute = job.strategy.recompute;
  std::string kind =
      recompute == cost::Recompute::Full ? "FullAC" : "SelectiveAC";
  std::vector<KeyValue> parallelism = parallelismOf(job);
  parallelism.push_back({"enable_sequence_parallel", job.strategy.sp});
  std::ostringstream text;
  text
      << "\"\"\"torchtitan 0.3 for the strategy "
      << cost::stringifyStrategy(job.strategy) << "\n\n"
      << "Written by dpc-opt. In a config_registry.py:\n\n"
      << "    def my_run() -> Trainer.Config:\n"
      << "        return with_plan(llama3_8b())\n\"\"\"\n"
      << commentOnSettings(job, expressedOf(job)) << "import dataclasses\n\n"
      << "from torchtitan.components.optimizer import "
      << (job.optimizer.name == "adamw"
              ? "LRSchedulersContainer, OptimizersContainer, ParamGroupConfig\n"
              : "LRSchedulersContainer\n")
      << "from torchtitan.config import ParallelismConfig\n";
  if (recompute != cost::Recompute::None)
    text << "from torchtitan.distributed.activation_checkpoint import " << kind
         << "\n";
  text << "\n\ndef with_plan(config):\n"
       << "    \"\"\"The same model's Trainer.Config with this plan.\"\"\"\n"
       << "    return dataclasses.replace(\n        config,\n"
       << "        training=dataclasses.replace(\n            "
          "config.training,\n"
       << argumentsOf(trainingOf(job)) << "        ),\n"
       << optimizerOf(job.optimizer)
       << "        lr_scheduler=LRSchedulersContainer.Config(\n"
       << argumentsOf(scheduleOf(job)) << "        ),\n"
       << "        parallelism=ParallelismConfig(\n"
       << argumentsOf(parallelism) << "        ),\n"
       << "        activation_checkpoint="
       << (recompute == cost::Recompute::None ? "None" : kind + ".Config()")
       << ",\n    )\n";
  return text.str();
}

static Exported writeTorchtitan(const Job &job) {
  Exported result;
  result.files.push_back({"torchtitan.py", recipeOf(job)});
  Legality legality = checkLegality(job, tomlRules());
  if (legality.ok())
    result.files.push_back({"torchtitan.toml", tomlOf(job)});
  else
    result.remarks.push_back("torchtitan.toml is not written, only "
                             "torchtitan.py for version 0.3: " +
                             legality.rule);
  remarkOnSettings(result, job, expressedOf(job));
  remarkOnWarmup(result, job, kWhose, job.schedule.warmup);
  if (job.hasUnevenStages())
    result.remarks.emplace_back(
        "torchtitan: all stages get the same number of layers, but the plan "
        "has uneven stages");
  return result;
}

const Target torchtitan = {"torchtitan",        kWhose,
                           torchtitanRules,     writeTorchtitan,
                           "pytorch-fsdp-2024", /*isFitted=*/true};

} // namespace dpc::exports
