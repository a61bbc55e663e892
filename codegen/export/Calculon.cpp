//===- Calculon.cpp - An execution for Calculon ---------------------------===//
//
// Writes the inputs of calculon/llm/llm.py (1.0, February 2024): the execution,
// in which no field may be missing, and the application, which is the model.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <nlohmann/json.hpp>

namespace dpc::exports {

using nlohmann::ordered_json;

static const char *const kWhose = "Calculon";

static bool dividesModel(const Job &job) {
  int64_t tp = job.strategy.tp.ranks;
  const ModelShape &model = job.model;
  return model.hidden % tp == 0 && model.feedForward % tp == 0 &&
         model.heads % tp == 0 &&
         (!job.strategy.sp || model.sequence * job.microBatch() % tp == 0);
}

/// Divides tp until dividesModel() holds, and multiplies dp by the same factor.
static bool mendSizes(Job &job) {
  int64_t tp = job.strategy.tp.ranks;
  Job fewer = job;
  while (fewer.strategy.tp.ranks > 1 && !dividesModel(fewer))
    fewer.strategy.tp = largestDivisor(tp, fewer.strategy.tp.ranks - 1);
  int64_t dp = job.strategy.dp * (tp / fewer.strategy.tp.ranks);
  if (job.globalBatch % dp != 0)
    return false;
  int64_t micro = job.microBatch();
  job.strategy.tp = fewer.strategy.tp.ranks;
  job.strategy.dp = dp;
  job.strategy.microBatch = largestDivisor(job.localBatch(), micro);
  return true;
}

static Rules calculonRules() {
  return {
      {"Calculon estimates transformers: the graph must show the layers, the "
       "heads, and the hidden and feed-forward size",
       [](const Job &job) { return job.model.isTransformer(); }, nullptr,
       /*isOfJob=*/true},
      precisions(kWhose, {"fp32", "bf16", "fp16"}),
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose, {"tp.pp.dp", "tp.cp.pp.dp"}),
      noContext(kWhose),
      noExperts(kWhose),
      schedules(kWhose, {"1f1b", "interleaved"}),
      zeros(kWhose, {0, 1}),
      noHybrid(kWhose),
      evenLayers(kWhose),
      hostOnly(kWhose),
      {"Calculon shards the hidden size, the feed-forward size and the heads "
       "evenly over tp",
       dividesModel, mendSizes},
  };
}

static Exported writeCalculon(const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  auto network = [&](const char *axis) {
    auto level = job.levels.find(axis);
    return level == job.levels.end() ? 0 : level->second;
  };
  bool isSelective = strategy.recompute == cost::Recompute::Selective;
  bool all = strategy.offload == cost::Offload::All;
  ordered_json execution = {
      {"num_procs", job.ranks()},
      {"tensor_par", strategy.tp.ranks},
      {"pipeline_par", strategy.pp},
      {"data_par", strategy.dp},
      {"tensor_par_net", network("tp")},
      {"pipeline_par_net", network("pp")},
      {"data_par_net", network("dp")},
      {"batch_size", job.globalBatch},
      {"microbatch_size", job.microBatch()},
      {"datatype", job.precision == "fp32" ? "float32" : "float16"},
      {"fused_activation", true},
      {"attention_type", job.model.kvHeads == 1 && job.model.heads > 1
                             ? "multiquery"
                             : "multihead"},
      {"activation_recompute", !job.trains ? "none"
                               : isSelective
                                   ? "attn_only"
                                   : cost::printValue(strategy.recompute)},
      {"pipeline_interleaving", strategy.vpp},
      {"optimizer_sharding", strategy.zero == 1 && strategy.dp > 1},
      {"tensor_par_comm_type", strategy.sp ? "rs_ag" : "ar"},
      {"tensor_par_overlap", "none"},
      {"seq_par_ag_redo", false},
      {"data_par_overlap", job.trains && strategy.dp > 1},
      {"weight_offload", all || strategy.offload == cost::Offload::Parameters},
      {"activations_offload", false},
      {"optimizer_offload",
       job.trains && (all || strategy.offload == cost::Offload::Optimizer)},
      {"training", job.trains}};
  const ModelShape &model = job.model;
  ordered_json application = {
      {"hidden", model.hidden},      {"feedforward", model.feedForward},
      {"seq_size", model.sequence},  {"attn_heads", model.heads},
      {"attn_size", model.headSize}, {"num_blocks", model.layers}};
  Exported result;
  result.files.push_back({"calculon-execution.json", execution.dump(2) + "\n"});
  result.files.push_back(
      {"calculon-application.json", application.dump(2) + "\n"});
  remarkOnSettings(result, job, {});
  if (model.kvHeads > 1 && model.kvHeads < model.heads)
    result.remarks.emplace_back(
        "calculon-execution.json: Calculon has no grouped-query attention; it "
        "counts one key head per query head");
  return result;
}

const Target calculon = {"calculon", kWhose, calculonRules, writeCalculon};

} // namespace dpc::exports
