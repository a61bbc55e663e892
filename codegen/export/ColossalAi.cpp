//===- ColossalAi.cpp - Plugins of Colossal-AI ----------------------------===//
//
// Writes keyword arguments for booster/plugin/*.py of colossalai 0.5, as JSON
// and as an Open-Sora configuration. The strategy decides which plugin is used.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace dpc::exports {

using cost::Strategy;
using nlohmann::ordered_json;

static const char *const kWhose = "Colossal-AI";

namespace {
enum class Plugin { hybrid, lowLevelZero, gemini };
} // namespace

static Plugin pluginOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  if (strategy.zero == 3)
    return Plugin::gemini;
  bool isData = strategy.dp == strategy.ranks();
  return isData && strategy.zero >= 1 ? Plugin::lowLevelZero : Plugin::hybrid;
}

static std::function<bool(const Job &)> on(Plugin plugin) {
  return [plugin](const Job &job) { return pluginOf(job) == plugin; };
}

static Rules hybridRules() {
  const char *whose = "HybridParallelPlugin";
  return {
      saying(onlyIf(zeros("", {0, 1}),
                    [](const Job &job) { return job.strategy.pp > 1; }),
             "HybridParallelPlugin runs pipelines with ZeRO 0 or 1"),
      schedules(whose, {"1f1b", "interleaved"}),
      wholeRounds(whose),
      noHybrid(whose),
      strategyRule(
          "HybridParallelPlugin has sequence parallelism or context "
          "parallelism, not both: sp=false with cp > 1",
          [](const Strategy &s) { return s.cp == 1 || !s.sp; },
          [](Strategy &s) { s.sp = false; }),
      strategyRule(
          "HybridParallelPlugin offloads the optimizer with ZeRO 1 or 2",
          [](const Strategy &s) {
            return s.offload == cost::Offload::None ||
                   (s.offload == cost::Offload::Optimizer && s.zero > 0);
          },
          [](Strategy &s) {
            s.offload = cost::Offload::Optimizer;
            s.zero = std::max<int64_t>(1, s.zero);
          }),
  };
}

static Rules colossalAiRules() {
  Rules rules = {
      trainingOnly(kWhose), precisions("Colossal-AI", {"fp32", "bf16", "fp16"}),
      noGrid(kWhose), evenShares(kWhose), evenBatch(kWhose),
      usualPlacement(kWhose, {"tp.cp.pp.dp"}),
      noExperts("dpc's export for Colossal-AI"), hostOnly(kWhose),
      recomputes(kWhose, {"none", "full"}),
      // Colossal-AI checks the precision only when training begins.
      saying(onlyIf(precisions("", {"bf16", "fp16"}),
                    [](const Job &job) { return job.strategy.zero > 0; }),
             "Colossal-AI's ZeRO computes in bf16 or fp16 (--precision)")};
  auto append = [&](Plugin plugin, Rules more) {
    for (Rule &rule : more)
      rules.push_back(onlyIf(std::move(rule), on(plugin)));
  };
  append(Plugin::hybrid, hybridRules());
  const char *gemini = "GeminiPlugin (ZeRO 3)";
  append(Plugin::gemini,
         {noPipeline(gemini), noContext(gemini),
          saying(offloads("", {"none", "optimizer", "all"}),
                 "GeminiPlugin offloads the optimizer, or also parameters")});
  append(Plugin::lowLevelZero,
         {offloads("LowLevelZeroPlugin", {"none", "optimizer"})});
  return rules;
}

static ordered_json hybridOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  ordered_json kwargs = {{"tp_size", strategy.tp.ranks},
                         {"pp_size", strategy.pp},
                         {"zero_stage", strategy.zero}};
  // By default, the plugin places pp inside dp.
  kwargs["dp_outside"] = isPlacedAs(job, "tp.cp.pp.dp");
  if (strategy.sp || strategy.cp > 1)
    kwargs["enable_sequence_parallelism"] = true;
  if (strategy.sp) {
    kwargs["sequence_parallelism_mode"] = "split_gather";
  } else if (strategy.cp > 1) {
    kwargs["sp_size"] = strategy.cp;
    kwargs["sequence_parallelism_mode"] =
        strategy.cpKind == cost::CpKind::Ring ? "ring_attn" : "all_to_all";
  }
  if (strategy.pp > 1) {
    kwargs["microbatch_size"] = job.microBatch();
    kwargs["pp_style"] = strategy.vpp > 1 ? "interleaved" : "1f1b";
    kwargs["num_model_chunks"] = strategy.vpp;
  }
  if (strategy.pp > 1 && strategy.vpp == 1 && job.hasUnevenStages())
    kwargs["num_layers_per_stage"] = job.stageLayers;
  if (strategy.offload == cost::Offload::Optimizer)
    kwargs["cpu_offload"] = true;
  return kwargs;
}

static ordered_json lowLevelZeroOf(const Strategy &strategy) {
  ordered_json kwargs = {{"stage", strategy.zero}, {"master_weights", true}};
  if (strategy.hybridShard > 1)
    kwargs["extra_dp_size"] = strategy.dp / strategy.hybridShard;
  if (strategy.offload == cost::Offload::Optimizer)
    kwargs["cpu_offload"] = true;
  return kwargs;
}

static ordered_json geminiOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  ordered_json kwargs = {{"placement_policy", "static"},
                         {"shard_param_frac", 1.0},
                         {"tp_size", strategy.tp.ranks}};
  if (job.microBatches() > 1)
    kwargs["enable_gradient_accumulation"] = true;
  if (strategy.offload != cost::Offload::None)
    kwargs["offload_optim_frac"] = 1.0;
  if (strategy.offload == cost::Offload::All)
    kwargs["offload_param_frac"] = 1.0;
  if (strategy.sp)
    kwargs["enable_sequence_parallelism"] = true;
  if (strategy.hybridShard > 1)
    kwargs["extra_dp_size"] = strategy.dp / strategy.hybridShard;
  return kwargs;
}

/// If min_scale equals max_scale, the loss scale stays fixed.
static void addLossScale(ordered_json &kwargs, const Job &job) {
  const LossScale &scale = job.lossScale;
  if (!scale.isUsed || job.precision != "fp16")
    return;
  kwargs["initial_scale"] = scale.initial;
  if (scale.interval > 0) {
    kwargs["growth_interval"] = scale.interval;
    return;
  }
  kwargs["min_scale"] = scale.initial;
  kwargs["max_scale"] = scale.initial;
}

static std::set<Setting> expressedOf(const Job &job) {
  std::set<Setting> expressed = {Setting::clipping};
  if (job.precision == "fp16")
    expressed.insert(Setting::lossScale);
  return expressed;
}

/// The plugin divides the batch of a pipeline into micro-batches.
static int64_t batchOf(const Job &job) {
  return job.strategy.pp > 1 ? job.localBatch() : job.microBatch();
}

static std::string pythonOf(const ordered_json &value) {
  if (value.is_boolean())
    return value.get<bool>() ? "True" : "False";
  return value.dump();
}

static std::string openSoraOf(const Job &job, const ordered_json &kwargs) {
  bool isHybrid = pluginOf(job) == Plugin::hybrid;
  std::ostringstream text;
  text << "# Open-Sora (create_colossalai_plugin), for the strategy "
       << cost::stringifyStrategy(job.strategy)
       << "\n# Written by dpc-opt; to be merged into a training "
          "configuration.\n"
       << commentOnSettings(job, expressedOf(job)) << "plugin = \""
       << (isHybrid ? "hybrid" : "zero" + std::to_string(job.strategy.zero))
       << "\"\n"
       << "dtype = \"" << job.precision << "\"\n"
       << "grad_clip = " << job.optimizer.clipGradNorm << "\n"
       << "batch_size = " << batchOf(job) << "\n"
       << "accumulation_steps = "
       << (job.strategy.pp > 1 ? 1 : job.microBatches()) << "\n"
       << "grad_checkpoint = "
       << (job.strategy.recompute == cost::Recompute::Full ? "True" : "False")
       << "\n"
       << "plugin_config = dict(\n";
  for (const auto &[key, value] : kwargs.items())
    if (key != "precision" && key != "max_norm" && key != "stage")
      text << "    " << key << "=" << pythonOf(value) << ",\n";
  text << ")\n";
  return text.str();
}

static Exported writeColossalAi(const Job &job) {
  Plugin plugin = pluginOf(job);
  ordered_json kwargs = plugin == Plugin::hybrid ? hybridOf(job)
                        : plugin == Plugin::gemini
                            ? geminiOf(job)
                            : lowLevelZeroOf(job.strategy);
  kwargs["precision"] = job.precision;
  kwargs["max_norm"] = job.optimizer.clipGradNorm;
  addLossScale(kwargs, job);
  const char *name = plugin == Plugin::hybrid   ? "HybridParallelPlugin"
                     : plugin == Plugin::gemini ? "GeminiPlugin"
                                                : "LowLevelZeroPlugin";
  bool hasPipeline = job.strategy.pp > 1;
  ordered_json config = {
      {"strategy", cost::stringifyStrategy(job.strategy)},
      {"plugin", name},
      {"kwargs", kwargs},
      {"batch_size", batchOf(job)},
      {"accumulation_steps", hasPipeline ? 1 : job.microBatches()},
      {"gradient_checkpointing",
       job.strategy.recompute == cost::Recompute::Full}};
  Exported result;
  result.files.push_back({"colossalai.json", config.dump(2) + "\n"});
  remarkOnSettings(result, job, expressedOf(job));
  if (plugin != Plugin::gemini && job.precision != "fp32")
    result.files.push_back({"opensora.py", openSoraOf(job, kwargs)});
  return result;
}

const Target colossalAi = {"colossalai", kWhose, colossalAiRules,
                           writeColossalAi, "pytorch-fsdp-2024"};

} // namespace dpc::exports
