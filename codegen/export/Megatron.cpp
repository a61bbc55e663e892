//===- Megatron.cpp - Flags of Megatron-LM --------------------------------===//
//
// Of megatron/training/arguments.py and megatron/core/transformer/
// transformer_config.py of August 2026. ReadMegatron.cpp reads them back.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"
#include "codegen/export/Targets.h"

#include <sstream>

namespace dpc::exports {

static const char *const kWhose = "Megatron-LM";

/// What is not known of the model is taken for one.
static bool takesFp8(const Job &job) {
  constexpr int64_t kMultiple = 16;
  const ModelShape &model = job.model;
  const cost::Strategy &strategy = job.strategy;
  int64_t kvHeads = model.kvHeads > 0 ? model.kvHeads : model.heads;
  int64_t tokens = job.microBatch() * model.sequence / strategy.cp;
  for (int64_t size :
       {model.heads * model.headSize / strategy.tp.ranks,
        (model.heads + 2 * kvHeads) * model.headSize / strategy.tp.ranks,
        model.feedForward / strategy.tp.ranks, model.hidden,
        strategy.sp ? tokens / strategy.tp.ranks : tokens})
    if (size % kMultiple != 0)
      return false;
  return true;
}

std::vector<Rule> megatronRules() {
  auto hasFsdp = [](const Job &job) { return job.strategy.zero >= 2; };
  auto hasExperts = [](const Job &job) { return job.strategy.ep > 1; };
  auto cannotLayOut = [](const Job &job) {
    bool willBeKnown = job.cutsStagesFreely && job.model.layers > 0;
    return job.stageLayers.empty() && !willBeKnown;
  };
  return {
      trainingOnly(kWhose),
      {"Megatron-LM's scripts train decoders (pretrain_gpt.py) and encoders "
       "(pretrain_bert.py) that predict tokens: the model has to embed tokens, "
       "attend in layers that are all causal or all not, and end in a cross "
       "entropy over the vocabulary for each",
       [](const Job &job) { return job.model.kind != ModelKind::other; },
       nullptr, /*isOfJob=*/true},
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose, {"tp.cp.pp.dp"}),
      schedules(kWhose, {"1f1b", "interleaved"}),
      saying(onlyIf(zeros("", {0, 1}),
                    [](const Job &job) { return job.strategy.pp > 1; }),
             "Megatron-LM splits gradients and parameters (Megatron-FSDP) in "
             "programs without pipeline stages only: zero=0 or 1 with pp > 1"),
      onlyIf(evenLayers(kWhose), cannotLayOut),
      wholeRounds(kWhose),
      saying(onlyIf({"",
                     [](const Job &job) {
                       return job.strategy.tp.ranks == 1 || job.strategy.sp;
                     },
                     [](Job &job) { return job.strategy.sp = true; }},
                    hasExperts),
             "Megatron-LM needs sequence parallelism (sp=true) where experts "
             "are spread and tp > 1"),
      saying(onlyIf(noHybrid(""),
                    [](const Job &job) {
                      return job.strategy.ep > 1 && job.strategy.zero >= 2;
                    }),
             "Megatron-FSDP with experts splits over all data-parallel ranks "
             "(hybrid_shard=1)"),
      saying(onlyIf(precisions("", {"fp32", "bf16", "fp16"}), hasExperts),
             "Megatron-LM's experts are of fp8 in a model of fp8, those of "
             "dpc are not (--precision=bf16)"),
      onlyIf({"Transformer Engine multiplies codes of fp8 where all sizes on a "
              "rank are multiples of 16: the hidden size, those of heads and "
              "of the feed-forward over tp, and tokens of a micro-batch "
              "(--precision=bf16)",
              takesFp8, [](Job &) { return false; }},
             [](const Job &job) { return job.precision == "fp8"; }),
      hostOnly(kWhose),
      offloads(kWhose, {"none", "optimizer"}),
      saying(onlyIf(offloads("", {"none"}), hasFsdp),
             "Megatron-FSDP offloads nothing: zero=0 or 1 with "
             "offload=optimizer, or offload=none"),
  };
}

namespace {

/// Lines of a command, each flag with its values.
class Command {
public:
  void add(const std::string &flag) { text << " \\\n  --" << flag; }
  template <typename T> void add(const std::string &flag, const T &value) {
    text << " \\\n  --" << flag << " " << value;
  }
  /// Where it is known.
  void addSize(const std::string &flag, int64_t size) {
    if (size > 0)
      add(flag, size);
  }
  std::string str() const { return text.str(); }

private:
  std::ostringstream text;
};

} // namespace

/// "Ettt|tttt|...|tttL": E the embedding, t a layer, L the loss.
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

static void addModel(Command &command, const ModelShape &model) {
  command.addSize("num-layers", model.layers);
  command.addSize("hidden-size", model.hidden);
  command.addSize("ffn-hidden-size", model.feedForward);
  command.addSize("num-attention-heads", model.heads);
  if (model.heads > 0 && model.headSize * model.heads != model.hidden)
    command.addSize("kv-channels", model.headSize);
  if (model.kvHeads != model.heads) {
    command.add("group-query-attention");
    command.addSize("num-query-groups", model.kvHeads);
  }
  command.addSize("seq-length", model.sequence);
  command.addSize("max-position-embeddings", model.sequence);
  if (model.experts > 1)
    command.addSize("num-experts", model.experts);
  if (model.hasSwiglu)
    command.add("swiglu");
  if (model.hasRmsNorm)
    command.add("normalization", "RMSNorm");
  if (model.hasRope)
    command.add("position-embedding-type", "rope");
}

/// What the graph does not say in Megatron's words.
static std::vector<std::string> modelRemarks(const ModelShape &model) {
  std::vector<std::string> remarks;
  if (!model.isTransformer())
    remarks.emplace_back(
        "megatron.sh: sizes of the model that its graph does not show are left "
        "to you (--num-layers, --hidden-size, ...)");
  bool isEncoder = model.kind == ModelKind::encoder;
  remarks.emplace_back(
      "megatron.sh: " +
      std::string(isEncoder
                      ? "pretrain_bert.py builds an encoder of these sizes and "
                        "kinds; whether it has a head for the next sentence "
                        "(--bert-no-binary-head), "
                      : "pretrain_gpt.py builds a decoder of these sizes and "
                        "kinds; ") +
      "whether its head is tied (--untie-embeddings-and-output-weights)" +
      std::string(model.hasBias ? "" : ", products without biases") +
      " and what else your model has of its own is yours to add");
  if (model.experts > 1)
    remarks.emplace_back("megatron.sh: how tokens choose among the " +
                         std::to_string(model.experts) +
                         " experts is yours to add (--moe-router-topk, "
                         "--moe-token-dispatcher-type)");
  return remarks;
}

/// Its schedule falls to 0 unless it is told not to.
static void addSchedule(Command &command, const Job &job) {
  const RateSchedule &schedule = job.schedule;
  command.add("lr-decay-style", schedule.kind);
  command.addSize("lr-warmup-iters", schedule.warmup);
  if (schedule.kind == "constant")
    return;
  command.add("lr-decay-iters", schedule.total);
  command.add("min-lr", schedule.min);
}

/// Of fp16, and fixed of bf16: where it computes in fp32 nothing is scaled.
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
  command.add("hysteresis", 1); // Every overflow halves it.
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
  if (job.precision == "fp8") { // Each tensor scaled by what it holds.
    command.add("bf16");
    command.add("fp8-format", "hybrid");
    command.add("fp8-recipe", "tensorwise");
  } else if (job.precision != "fp32") {
    command.add(job.precision);
  }
  addSchedule(command, job);
}

Exported writeMegatron(const Job &job) {
  Command command;
  addParallelism(command, job);
  addModel(command, job.model);
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
        "megatron.sh: Megatron's selective recomputation is that of attention "
        "alone; what dpc makes again besides, it keeps");
  for (std::string &remark : modelRemarks(job.model))
    result.remarks.push_back(std::move(remark));
  return result;
}

} // namespace dpc::exports
