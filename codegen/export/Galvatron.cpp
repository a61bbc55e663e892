//===- Galvatron.cpp - A strategy of Galvatron ----------------------------===//
//
// Writes the JSON that galvatron/core/runtime/hybrid_parallel_config.py reads
// (June 2026), with one number per layer. Version 2.4 reads the same format,
// but has no ring attention.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Rules.h"
#include "codegen/export/Settings.h"

#include <nlohmann/json.hpp>

namespace dpc::exports {

using nlohmann::ordered_json;

static const char *const kWhose = "Galvatron";

static Rules galvatronRules() {
  return {
      trainingOnly(kWhose),
      {"Galvatron configures each layer: the model must have layers",
       [](const Job &job) { return job.model.layers > 0; }, nullptr,
       /*isOfJob=*/true},
      precisions(kWhose, {"fp32", "bf16", "fp16"}),
      noGrid(kWhose),
      evenShares(kWhose),
      evenBatch(kWhose),
      usualPlacement(kWhose),
      saying(onlyIf(contextKind("", cost::CpKind::Ring),
                    [](const Job &job) { return job.strategy.tp.ranks > 1; }),
             "Galvatron has tensor parallelism or Ulysses, not both: "
             "cp_kind=ring with tp > 1"),
      zeros(kWhose, {0, 2, 3}),
      noHybrid(kWhose),
      noChunks(kWhose),
      schedules(kWhose, {"gpipe", "1f1b"}),
      {"Galvatron puts at least one layer on each stage",
       [](const Job &job) { return job.strategy.pp <= job.model.layers; },
       [](Job &job) {
         giveToOthers(job, &cost::Strategy::pp,
                      largestDivisor(job.strategy.pp, job.model.layers));
         return true;
       }},
      recomputes(kWhose, {"none", "full"}),
      offloads(kWhose, {"none"}),
  };
}

/// Returns the number of layers in each stage. If the plan does not state them,
/// divides the layers evenly, and the first stages get the remaining layers.
static std::vector<int64_t> divisionOf(const Job &job) {
  bool isKnown =
      !job.stageLayers.empty() &&
      std::count(job.stageLayers.begin(), job.stageLayers.end(), 0) == 0;
  if (isKnown)
    return job.stageLayers;
  int64_t pp = job.strategy.pp;
  std::vector<int64_t> layers(static_cast<size_t>(pp), job.model.layers / pp);
  for (int64_t i = 0; i < job.model.layers % pp; ++i)
    ++layers[static_cast<size_t>(i)];
  return layers;
}

static Exported writeGalvatron(const Job &job) {
  const cost::Strategy &strategy = job.strategy;
  auto everyLayer = [&](int64_t value) {
    return joined(
        std::vector<int64_t>(static_cast<size_t>(job.model.layers), value),
        ",");
  };
  bool isUlysses = strategy.cp > 1 && strategy.cpKind == cost::CpKind::Ulysses;
  int64_t tp = isUlysses ? strategy.cp : strategy.tp.ranks;
  int64_t ring = isUlysses ? 1 : strategy.cp;
  bool isZero3 = strategy.zero == 3;
  ordered_json config = {
      {"pp_deg", strategy.pp},
      {"tp_sizes_enc", everyLayer(tp)},
      {"tp_consecutive_flags", everyLayer(1)},
      {"dp_types_enc", everyLayer(isZero3)},
      {"use_sp", everyLayer(isUlysses)},
      {"checkpoint", everyLayer(strategy.recompute == cost::Recompute::Full)},
      {"global_bsz", job.globalBatch},
      {"chunks", job.microBatches()},
      {"pp_division", joined(divisionOf(job), ",")},
      {"pipeline_type", strategy.schedule == cost::ScheduleKind::GPipe
                            ? "gpipe"
                            : "pipedream_flush"},
      {"default_dp_type", strategy.zero == 0 ? "ddp" : "zero2"},
      {"vtp", tp},
      {"vsp", isUlysses ? 1 : 0},
      {"embed_sdp", isZero3 ? 1 : 0},
      {"vocab_sdp", isZero3 ? 1 : 0}};
  if (ring > 1) {
    config["cp_sizes_enc"] = everyLayer(ring);
    config["vcp"] = ring;
  }
  if (strategy.ep > 1) {
    config["ep_sizes_enc"] = everyLayer(strategy.ep);
    config["tp_of_ep_sizes_enc"] =
        everyLayer(job.splitsEachExpert() ? strategy.tp.ranks : 1);
  }
  Exported result;
  result.files.push_back({"galvatron.json", config.dump(4) + "\n"});
  remarkOnSettings(result, job, {});
  if (strategy.tp.ranks > 1)
    result.remarks.push_back(
        std::string("galvatron.json: a runtime option controls sequence "
                    "parallelism; for this plan, turn it ") +
        (strategy.sp ? "on" : "off"));
  return result;
}

const Target galvatron = {"galvatron", kWhose, galvatronRules, writeGalvatron,
                          "megatron-core-2024"};

} // namespace dpc::exports
