//===- Megatron.cpp - Flags of Megatron-LM --------------------------------===//
//
// Writes flags for megatron/training/arguments.py and
// megatron/core/transformer/transformer_config.py (August 2026).
// ReadMegatron.cpp reads them back.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Megatron.h"
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <algorithm>
#include <sstream>

namespace dpc::exports {

static const char *const kWhose = "Megatron-LM";

/// GEMM sizes on a rank must be multiples of 16. Unknown sizes (0) pass.
static bool takesFp8(const Job &job) {
  constexpr int64_t kMultiple = 16;
  const ModelShape &model = job.model;
  const cost::Strategy &strategy = job.strategy;
  int64_t kvHeads = model.kvHeads > 0 ? model.kvHeads : model.heads;
  int64_t tokens = job.microBatch() * model.sequence / strategy.cp;
  const int64_t sizes[] = {model.heads * model.headSize / strategy.tp.ranks,
                           (model.heads + 2 * kvHeads) * model.headSize /
                               strategy.tp.ranks,
                           model.feedForward / strategy.tp.ranks, model.hidden,
                           strategy.sp ? tokens / strategy.tp.ranks : tokens};
  return std::ranges::all_of(
      sizes, [](int64_t size) { return size % kMultiple == 0; });
}

static Rule overlapNeedsSequence() {
  Rule rule = strategyRule(
      "Megatron-LM overlaps tensor-parallel communication only with sequence "
      "parallelism (tp_overlap=chunked needs sp=true)",
      [](const cost::Strategy &s) {
        return s.tpOverlap == cost::TpOverlap::None || s.tp.ranks == 1 || s.sp;
      },
      [](cost::Strategy &s) { s.sp = true; });
  rule.key = "tp_overlap";
  return rule;
}

Rules megatronPlanRules() {
  auto hasFsdp = [](const Job &job) { return job.strategy.zero >= 2; };
  auto hasExperts = [](const Job &job) { return job.strategy.ep > 1; };
  auto cannotLayOut = [](const Job &job) {
    bool willBeKnown = job.cutsStagesFreely && job.model.layers > 0;
    return job.stageLayers.empty() && !willBeKnown;
  };
  return {
      trainingOnly(kWhose),
      {"Megatron-LM's scripts train decoders (pretrain_gpt.py) and encoders "
       "(pretrain_bert.py) that predict tokens: the model must embed tokens, "
       "have attention that is causal in all layers or in none, and end in a "
       "cross entropy over the vocabulary for each token",
       [](const Job &job) { return job.model.kind != ModelKind::other; },
       nullptr, /*isOfJob=*/true},
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose, {"tp.cp.pp.dp"}),
      schedules(kWhose, {"1f1b", "interleaved"}),
      saying(onlyIf(zeros("", {0, 1}),
                    [](const Job &job) { return job.strategy.pp > 1; }),
             "Megatron-LM shards gradients and parameters (Megatron-FSDP) only "
             "without pipeline stages: zero=0 or 1 with pp > 1"),
      onlyIf(evenLayers(kWhose), cannotLayOut),
      wholeRounds(kWhose),
      overlapNeedsSequence(),
      onlyIf(
          strategyRule(
              "Megatron-LM needs sequence parallelism (sp=true) "
              "with expert parallelism and tp > 1",
              [](const cost::Strategy &s) { return s.tp.ranks == 1 || s.sp; },
              [](cost::Strategy &s) { s.sp = true; }),
          hasExperts),
      saying(onlyIf(noHybrid(""),
                    [=](const Job &job) {
                      return hasExperts(job) && hasFsdp(job);
                    }),
             "Megatron-FSDP with experts shards over all data-parallel ranks "
             "(hybrid_shard=1)"),
      saying(onlyIf(precisions("", {"fp32", "bf16", "fp16"}), hasExperts),
             "Megatron-LM computes experts of an fp8 model in fp8, dpc does "
             "not (--precision=bf16)"),
      onlyIf({"Transformer Engine computes fp8 GEMMs whose sizes on a rank are "
              "multiples of 16: the hidden size, the sizes of heads and "
              "feed-forward layers over tp, and the tokens of a micro-batch "
              "(--precision=bf16)",
              takesFp8, nullptr},
             [](const Job &job) { return job.precision == "fp8"; }),
      hostOnly(kWhose),
      offloads(kWhose, {"none", "optimizer"}),
      saying(onlyIf(offloads("", {"none"}), hasFsdp),
             "Megatron-FSDP offloads nothing: zero=0 or 1 with "
             "offload=optimizer, or offload=none"),
  };
}

static Rules megatronRules() {
  Rules rules = megatronPlanRules();
  for (Rule &rule : megatronModelRules())
    rules.push_back(std::move(rule));
  return rules;
}

/// Returns "Et*3|t*4|...|t*3L": E is the embedding, t a layer and L the loss.
static std::string layoutOf(const std::vector<int64_t> &stageLayers) {
  std::string text = "E";
  for (size_t stage = 0; stage < stageLayers.size(); ++stage) {
    if (stage > 0)
      text += "|";
    if (int64_t layers = stageLayers[stage]; layers > 0)
      text += "t*" + std::to_string(layers);
  }
  return "\"" + text + "L\"";
}

static void addStages(Command &command, const Job &job) {
  if (job.strategy.pp == 1)
    return;
  if (job.hasUnevenStages())
    command.add("pipeline-model-parallel-layout", layoutOf(job.stageLayers));
  else if (job.strategy.vpp > 1)
    command.add("num-virtual-stages-per-pipeline-rank", job.strategy.vpp);
}

static void addData(Command &command, const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  if (strategy.zero >= 1) {
    command.add("use-distributed-optimizer");
    command.add("overlap-grad-reduce");
    command.add("overlap-param-gather");
  }
  if (strategy.zero >= 2) {
    command.add("use-megatron-fsdp");
    command.add("data-parallel-sharding-strategy",
                strategy.zero == 2 ? "optim_grads" : "optim_grads_params");
    command.add("ckpt-format", "fsdp_dtensor");
  }
  if (strategy.hybridShard > 1)
    command.add("num-distributed-optimizer-instances",
                strategy.dp / strategy.hybridShard);
  if (strategy.offload == cost::Offload::Optimizer) {
    command.add("optimizer-cpu-offload");
    command.add("use-precision-aware-optimizer");
  }
}

static void addParallelism(Command &command, const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  command.add("tensor-model-parallel-size", strategy.tp.ranks);
  command.add("pipeline-model-parallel-size", strategy.pp);
  if (strategy.sp)
    command.add("sequence-parallel");
  if (strategy.tpOverlap == cost::TpOverlap::Chunked && strategy.tp > 1)
    command.add("tp-comm-overlap");
  if (strategy.cp > 1) {
    command.add("context-parallel-size", strategy.cp);
    command.add("cp-comm-type",
                strategy.cpKind == cost::CpKind::Ring ? "p2p" : "a2a");
  }
  if (strategy.ep > 1) {
    command.add("expert-model-parallel-size", strategy.ep);
    command.add("expert-tensor-parallel-size",
                job.splitsEachExpert() ? strategy.tp.ranks : 1);
  }
  addStages(command, job);
  addData(command, job);
  if (!isPlacedAs(job, "auto"))
    command.add("use-tp-pp-dp-mapping");
  command.add("micro-batch-size", job.microBatch());
  command.add("global-batch-size", job.globalBatch);
  if (strategy.recompute != cost::Recompute::None)
    command.add("recompute-granularity", cost::printValue(strategy.recompute));
  if (strategy.recompute == cost::Recompute::Full) {
    command.add("recompute-method", "uniform");
    command.add("recompute-num-layers", 1);
  }
}

/// Always states the schedule: Megatron-LM decays the rate to 0 by default.
static void addSchedule(Command &command, const Job &job) {
  const RateSchedule &schedule = job.schedule;
  command.add("lr-decay-style", schedule.kind);
  command.addSize("lr-warmup-iters", schedule.warmup);
  if (schedule.kind == "constant")
    return;
  command.add("lr-decay-iters", schedule.total);
  command.add("min-lr", schedule.min);
}

/// Returns all settings that the command expresses.
static std::set<Setting> addLossScale(Command &command, const Job &job) {
  std::set<Setting> expressed = {Setting::optimizer, Setting::clipping,
                                 Setting::schedule};
  const LossScale &scale = job.lossScale;
  if (!scale.isUsed || job.precision == "fp32")
    return expressed;
  expressed.insert(Setting::lossScale);
  if (scale.interval == 0) {
    command.add("loss-scale", scale.initial);
    return expressed;
  }
  command.add("initial-loss-scale", scale.initial);
  command.add("loss-scale-window", scale.interval);
  command.add("hysteresis", 1); // each overflow halves the scale
  return expressed;
}

static void addOptimizer(Command &command, const Job &job) {
  const OptimizerChoice &optimizer = job.optimizer;
  bool isSgd = optimizer.name == "sgd";
  command.add("optimizer", isSgd ? "sgd" : "adam");
  command.add("lr", optimizer.lr);
  command.add("weight-decay", optimizer.weightDecay);
  if (isSgd) {
    command.add("sgd-momentum", optimizer.momentum);
  } else {
    command.add("adam-beta1", optimizer.beta1);
    command.add("adam-beta2", optimizer.beta2);
    command.add("adam-eps", optimizer.eps);
  }
  command.add("clip-grad", optimizer.clipGradNorm);
  if (job.precision == "fp8") { // one scale per tensor
    command.add("bf16");
    command.add("fp8-format", "hybrid");
    command.add("fp8-recipe", "tensorwise");
  } else if (job.precision != "fp32") {
    command.add(job.precision);
  }
  addSchedule(command, job);
}

static Exported writeMegatron(const Job &job) {
  Command command;
  addParallelism(command, job);
  addMegatronModel(command, job);
  addOptimizer(command, job);
  std::set<Setting> expressed = addLossScale(command, job);
  bool hasFsdp = job.strategy.zero >= 2;
  int64_t processes = std::min(job.devicesPerNode, job.ranks());
  std::ostringstream text;
  text << "#!/usr/bin/env bash\n"
       << "# Megatron-LM for the strategy "
       << cost::stringifyStrategy(job.strategy) << "\n"
       << "# Written by dpc-opt. Data, tokenizer, checkpoints and iterations "
          "are added on the command line.\n"
       << commentOnSettings(job, expressed) << "set -euo pipefail\n"
       << (hasFsdp ? "unset CUDA_DEVICE_MAX_CONNECTIONS # FSDP overlaps\n"
                   : "export CUDA_DEVICE_MAX_CONNECTIONS=1\n")
       << "exec torchrun --nnodes " << job.nodes() << " --nproc-per-node "
       << processes
       << " --node-rank \"${NODE_RANK:-0}\" --master-addr "
          "\"${MASTER_ADDR:-localhost}\" --master-port "
          "\"${MASTER_PORT:-29500}\" \\\n"
       << "  \"${MEGATRON:-.}/pretrain_"
       << (job.model.kind == ModelKind::encoder ? "bert" : "gpt") << ".py\""
       << command.str() << " \\\n  \"$@\"\n";
  Exported result;
  result.files.push_back({"megatron.sh", text.str()});
  remarkOnSettings(result, job, expressed);
  if (job.strategy.recompute == cost::Recompute::Selective)
    result.remarks.emplace_back(
        "megatron.sh: selective recomputation of Megatron-LM covers attention "
        "only; that of dpc covers more");
  for (std::string &remark : megatronModelRemarks(job))
    result.remarks.push_back(std::move(remark));
  return result;
}

const Target megatron = {"megatron",           kWhose,
                         megatronRules,        writeMegatron,
                         "megatron-core-2024", /*isFitted=*/true};

} // namespace dpc::exports
