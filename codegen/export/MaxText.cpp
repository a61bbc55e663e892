//===- MaxText.cpp - A configuration of MaxText ---------------------------===//
//
// Written for MaxText 0.2.5 on GPUs: configs/base.yml, whose logical_axis_rules
// say which mesh axes shard what, configs/types.py, which checks the keys, and
// layers/pipeline.py. ReadMaxText.cpp reads the file back.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/MaxText.h"
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <cmath>
#include <numeric>

namespace dpc::exports {

using cost::Strategy;

static const char *const kWhose = "MaxText";

int64_t shardRanks(const Strategy &strategy) {
  return strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp;
}

/// The samples of one forward and backward pass of all ranks. With a pipeline,
/// a pass has all its micro-batches.
static int64_t samplesPerPass(const Job &job) {
  return job.strategy.pp > 1 ? job.globalBatch
                             : job.microBatch() * job.strategy.dp;
}

static int64_t passes(const Job &job) {
  return job.strategy.pp > 1 ? 1 : job.microBatches();
}

/// The data pipelines give each device whole samples. Below one sample per
/// device, they load one for each device, and training takes the first.
static bool loadsWholeSamples(const Job &job) {
  int64_t samples = samplesPerPass(job);
  return samples < job.ranks() || samples % job.ranks() == 0;
}

/// Changes the micro-batch to the nearest size for which `holds`.
static bool mendMicroBatch(Job &job, bool (*holds)(const Job &)) {
  int64_t before = job.microBatch(), local = job.localBatch();
  for (int64_t distance = 1; distance <= local; ++distance)
    for (int64_t micro : {before - distance, before + distance}) {
      job.strategy.microBatch = micro;
      if (micro > 0 && micro <= local && local % micro == 0 && holds(job))
        return true;
    }
  job.strategy.microBatch = before;
  return false;
}

namespace {

/// Of the mesh, outermost first. `nodes` is the part of the axis between nodes.
struct MeshAxis {
  const char *name;
  int64_t ranks;
  int64_t nodes = 1;
};

} // namespace

/// Returns the axes, or an empty list if the nodes are not whole parts of the
/// outer axes: MaxText numbers devices by node first.
static std::vector<MeshAxis> meshOf(const Job &job) {
  const Strategy &strategy = job.strategy;
  int64_t shards = strategy.zero == 3 ? shardRanks(strategy) : 1;
  std::vector<MeshAxis> axes = {
      {"pipeline", strategy.pp},
      {"data", strategy.dp / shards},
      {"fsdp", shards / strategy.ep},
      {"expert", strategy.ep},
      {"context", strategy.cp},
      {strategy.sp ? "tensor_sequence" : "tensor", strategy.tp.ranks}};
  int64_t nodes = job.nodes();
  if (job.ranks() % nodes != 0 ||
      (nodes > 1 && job.ranks() / nodes != job.devicesPerNode))
    return {};
  for (MeshAxis &axis : axes) {
    axis.nodes = std::gcd(axis.ranks, nodes);
    nodes /= axis.nodes;
    if (nodes > 1 && axis.nodes < axis.ranks)
      return {};
  }
  return axes;
}

static bool hasGPipe(const Strategy &strategy) {
  return strategy.pp == 1 || strategy.schedule == cost::ScheduleKind::GPipe ||
         strategy.vpp > 1;
}

static bool fillsStages(const Job &job) {
  return job.strategy.pp == 1 || job.microBatches() % job.strategy.pp == 0;
}

static Rules pipelineRules() {
  return {
      strategyRule(
          "MaxText's pipelines run all forward passes of micro-batches before "
          "the backward passes: schedule=gpipe, or vpp > 1",
          hasGPipe,
          [](Strategy &s) {
            s.schedule = cost::ScheduleKind::GPipe;
            s.vpp = 1;
          }),
      onlyIf(evenLayers(kWhose),
             [](const Job &job) { return job.strategy.pp > 1; }),
      {"MaxText's pipelines have a multiple of pp micro-batches "
       "(num_pipeline_microbatches)",
       fillsStages,
       [](Job &job) {
         return mendMicroBatch(job, fillsStages) || noPipeline("").mend(job);
       }},
      // The first stage of schedule=interleaved then does so too.
      {"MaxText's circular pipelines (num_pipeline_repeats) run all forward "
       "passes first: vpp > 1 needs exactly pp micro-batches",
       [](const Job &job) {
         return job.strategy.vpp == 1 || job.microBatches() == job.strategy.pp;
       },
       [](Job &job) {
         job.strategy.vpp = 1;
         job.strategy.schedule = cost::ScheduleKind::GPipe;
         return true;
       }},
  };
}

static void setFullSharding(Strategy &strategy) {
  strategy.zero = 3;
  strategy.hybridShard = 1;
}

static Rules shardingRules() {
  return {
      zeros(kWhose, {0, 1, 3}),
      saying(onlyIf(noHybrid(""),
                    [](const Job &job) { return job.strategy.zero == 1; }),
             "MaxText shards optimizer states over all data-parallel ranks "
             "(shard_optimizer_over_data: hybrid_shard=1 with zero=1)"),
      {"MaxText shards the states of AdamW only: zero=0 or 3 with SGD",
       [](const Job &job) {
         return job.strategy.zero != 1 || job.optimizer.name == "adamw";
       },
       [](Job &job) {
         job.strategy.zero = 0;
         return true;
       }},
      strategyRule(
          "MaxText shards parameters over the context-parallel and "
          "expert-parallel ranks: zero=3 with cp > 1 or ep > 1",
          [](const Strategy &s) {
            return (s.cp == 1 && s.ep == 1) || s.zero == 3;
          },
          setFullSharding),
      {"MaxText shards each expert over the tensor-parallel ranks: ep divides "
       "dp, or hybrid_shard",
       [](const Job &job) {
         const Strategy &strategy = job.strategy;
         return strategy.ep == 1 || shardRanks(strategy) % strategy.ep == 0;
       },
       noExperts("").mend},
  };
}

static Rules runRules() {
  return {
      trainingOnly(kWhose),
      precisions(kWhose, {"fp32", "bf16"}),
      {"MaxText's SGD has neither momentum nor weight decay",
       [](const Job &job) {
         const OptimizerChoice &optimizer = job.optimizer;
         return optimizer.name != "sgd" ||
                (optimizer.momentum == 0 && optimizer.weightDecay == 0);
       },
       nullptr, /*isOfJob=*/true},
  };
}

static Rules memoryRules() {
  return {
      strategyRule(
          "MaxText recomputes activations in every plan (remat_policy): "
          "recompute=selective or full",
          [](const Strategy &s) {
            return s.recompute != cost::Recompute::None;
          },
          [](Strategy &s) { s.recompute = cost::Recompute::Selective; }),
      hostOnly(kWhose),
      {"MaxText moves offloaded parameters to the device only in steps without "
       "gradient accumulation",
       [](const Job &job) {
         return passes(job) == 1 ||
                job.strategy.offload == cost::Offload::None ||
                job.strategy.offload == cost::Offload::Optimizer;
       },
       [](Job &job) {
         bool offloadsAll = job.strategy.offload == cost::Offload::All;
         job.strategy.offload =
             offloadsAll ? cost::Offload::Optimizer : cost::Offload::None;
         return true;
       }},
  };
}

static Rules batchRules() {
  return {
      {"MaxText's data pipelines give each device whole samples: dp times "
       "micro_batch, or the global batch of a pipeline, is a multiple of the "
       "ranks or less than them",
       loadsWholeSamples,
       [](Job &job) { return mendMicroBatch(job, loadsWholeSamples); }},
      {"MaxText divides each mesh axis between nodes (dcn_*) and within a node "
       "(ici_*): the outer axes, of stage, data, fsdp, expert, context and "
       "tensor, make up the nodes",
       [](const Job &job) { return !meshOf(job).empty(); }, nullptr},
  };
}

static Rules maxTextRules() {
  Rules all = runRules();
  auto add = [&](Rules rules) {
    for (Rule &rule : rules)
      all.push_back(std::move(rule));
  };
  add(maxTextModelRules());
  add({noGrid(kWhose), evenShares(kWhose), evenBatch(kWhose),
       usualPlacement(kWhose), contextKind(kWhose, cost::CpKind::Ring)});
  add(shardingRules());
  add(pipelineRules());
  add(maxTextSizeRules());
  add(memoryRules());
  add(batchRules());
  return all;
}

static MaxTextPart meshPart(const Job &job) {
  YAML::Node keys;
  std::vector<MeshAxis> axes = meshOf(job);
  for (const MeshAxis &axis : axes)
    keys[std::string("dcn_") + axis.name + "_parallelism"] = axis.nodes;
  for (const MeshAxis &axis : axes)
    keys[std::string("ici_") + axis.name + "_parallelism"] =
        axis.ranks / axis.nodes;
  const Strategy &strategy = job.strategy;
  keys["shard_optimizer_over_data"] = strategy.zero == 1;
  if (strategy.ep > 1 && strategy.cp * strategy.tp.ranks > 1) {
    // By default, expert-parallel ranks are the innermost.
    for (const char *axis :
         {"diloco", "data", "stage", "fsdp", "fsdp_transpose", "expert",
          "context", "context_usp_ulysses", "context_autoregressive", "tensor",
          "tensor_sequence", "autoregressive"})
      keys["mesh_axes"].push_back(axis);
    keys["mesh_axes"].SetStyle(YAML::EmitterStyle::Flow);
  }
  if (strategy.cp > 1) {
    keys["context_parallel_strategy"] = "ring";
    keys["context_parallel_load_balance"] = true;
    keys["attention"] = "cudnn_flash_te"; // the only ring of GPUs
    keys["packing"] = false;
  }
  if (strategy.pp > 1) {
    keys["num_pipeline_microbatches"] = job.microBatches();
    keys["num_pipeline_repeats"] = strategy.vpp;
    keys["num_layers_per_pipeline_stage"] = job.model.layers / job.stages();
    keys["scan_layers"] = true; // a stage of one layer fails without it
  }
  return {"The mesh: dcn_* between nodes, ici_* within a node", keys};
}

/// Returns the samples per device of a pass. MaxText multiplies them by the
/// number of devices and rounds down.
static double samplesPerDevice(const Job &job) {
  auto samples = static_cast<double>(samplesPerPass(job));
  auto devices = static_cast<double>(job.ranks());
  double each = samples / devices;
  while (each * devices < samples)
    each = std::nextafter(each, samples);
  return each;
}

static MaxTextPart batchPart(const Job &job) {
  using cost::Offload;
  const Strategy &strategy = job.strategy;
  Offload offload = strategy.offload;
  YAML::Node keys;
  keys["per_device_batch_size"] = yamlFloat(samplesPerDevice(job));
  keys["gradient_accumulation_steps"] = passes(job);
  keys["dtype"] = job.precision == "bf16" ? "bfloat16" : "float32";
  keys["weight_dtype"] = "float32";
  keys["grad_dtype"] = "float32";
  keys["remat_policy"] = strategy.recompute == cost::Recompute::Full
                             ? "full"
                             : "minimal_with_context";
  keys["optimizer_memory_host_offload"] =
      offload == Offload::Optimizer || offload == Offload::All;
  keys["parameter_memory_host_offload"] =
      offload == Offload::Parameters || offload == Offload::All;
  return {"The batch of a device, numbers and memory", keys};
}

static std::set<Setting> expressed() {
  return {Setting::optimizer, Setting::clipping, Setting::schedule};
}

static std::string launchText(const Job &job) {
  std::string command = "python3 -m maxtext.trainers.pre_train.train "
                        "maxtext.yml run_name=... base_output_directory=...";
  if (job.nodes() == 1)
    return command;
  return "JAX_COORDINATOR_IP=... JAX_COORDINATOR_PORT=... NNODES=" +
         std::to_string(job.nodes()) + " NODE_RANK=... " + command;
}

static std::string yamlOf(const Job &job) {
  YAML::Node start;
  start["base_config"] = "base.yml";
  start["hardware"] = "gpu";
  const MaxTextPart parts[] = {{"", start},
                               meshPart(job),
                               batchPart(job),
                               maxTextModel(job.model),
                               maxTextOptimizer(job)};
  YAML::Emitter emitter;
  emitter << YAML::Comment("MaxText 0.2.5 for the strategy " +
                           cost::stringifyStrategy(job.strategy))
          << YAML::Newline
          << YAML::Comment("Written by dpc-opt. Data, tokenizer, checkpoints "
                           "and steps are added on the command line:")
          << YAML::Newline << YAML::Comment(launchText(job));
  if (std::string text = commentOnSettings(job, expressed()); !text.empty())
    emitter << YAML::Newline << YAML::Comment(text.substr(2, text.size() - 3));
  emitter << YAML::BeginMap;
  for (const MaxTextPart &part : parts) {
    if (!part.comment.empty())
      emitter << YAML::Newline << YAML::Newline << YAML::Comment(part.comment);
    for (const auto &entry : part.keys)
      emitter << YAML::Key << entry.first << YAML::Value << entry.second;
  }
  emitter << YAML::EndMap;
  return std::string(emitter.c_str()) + "\n";
}

static Exported writeMaxText(const Job &job) {
  const Strategy &strategy = job.strategy;
  Exported result;
  result.files.push_back({"maxtext.yml", yamlOf(job)});
  remarkOnSettings(result, job, expressed());
  if (samplesPerPass(job) < job.ranks())
    result.remarks.push_back(
        "maxtext.yml: MaxText loads a sample for each device, and trains on " +
        std::to_string(samplesPerPass(job)) + " of " +
        std::to_string(job.ranks()));
  if (strategy.zero == 1 && passes(job) > 1)
    result.remarks.emplace_back("maxtext.yml: with shard_optimizer_over_data, "
                                "MaxText sums the gradients of its passes in "
                                "bf16");
  if (strategy.pp > 1)
    result.remarks.emplace_back(
        "maxtext.yml: MaxText keeps the embedding and the head on every "
        "stage, dpc's prediction on the first and the last");
  if (strategy.vpp > 1)
    result.remarks.emplace_back(
        "maxtext.yml: every stage of MaxText runs all its forward passes "
        "before the first backward pass, in dpc's prediction only the first "
        "stage: later ones hold up to pp - 1 chunks more");
  for (std::string &remark : maxTextModelRemarks(job))
    result.remarks.push_back(std::move(remark));
  return result;
}

const Target maxText = {"maxtext", kWhose, maxTextRules, writeMaxText,
                        "pytorch-fsdp-2024"};

} // namespace dpc::exports
