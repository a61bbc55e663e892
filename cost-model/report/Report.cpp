//===- Report.cpp - report.json -------------------------------------------===//

#include "cost-model/report/Report.h"
#include "cost-model/machine/ComputeCost.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>

namespace dpc::cost {

using nlohmann::ordered_json;

static std::string format(const char *pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), pattern, value);
  return buffer;
}

static std::string threeDigits(double value) {
  double size = std::abs(value);
  return format(size >= 99.95   ? "%.0f"
                : size >= 9.995 ? "%.1f"
                                : "%.2f",
                value);
}

std::string formatBytes(double bytes) {
  constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024)
    return format("%.0f B", bytes);
  double value = bytes / 1024;
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return threeDigits(value) + " " + units[unit];
}

double usableBytesOf(const SearchResult &result, const Candidate &candidate) {
  double limit = candidate.evaluation.memoryLimitBytes > 0
                     ? candidate.evaluation.memoryLimitBytes
                     : result.memoryLimitBytes;
  return limit / (1 - result.headroom);
}

std::string formatShare(double share) { return format("%.3g %%", 100 * share); }

std::string formatSeconds(double seconds) {
  double size = std::abs(seconds);
  if (size >= 1 || size == 0)
    return threeDigits(seconds) + " s";
  if (size >= 1e-3)
    return threeDigits(seconds * 1e3) + " ms";
  return threeDigits(seconds * 1e6) + " us";
}

std::string_view unitOf(const ModelTotals &totals) {
  return totals.tokensPerSample > 1 ? "tokens" : "samples";
}

/// Returns the peak FLOP/s of the first `ranks` devices, each in the type that
/// replaces `wanted` on this device.
static double peakOf(const Cluster &cluster, int64_t ranks, DType wanted) {
  double peak = 0;
  for (const NodeGroup &group : cluster.groups) {
    int64_t used = std::min(ranks, group.numDevices());
    peak += double(used) * group.device.peak(computeType(group.device, wanted));
    ranks -= used;
  }
  return peak;
}

static ordered_json memoryToJson(const MemoryBreakdown &memory) {
  ordered_json json = {{"peak", std::llround(memory.total())}};
  for (int i = 0; i < numMemoryCategories; ++i) {
    auto category = static_cast<MemoryCategory>(i);
    json[std::string(stringifyMemoryCategory(category))] =
        std::llround(memory[category]);
  }
  return json;
}

static ordered_json stagesToJson(const Evaluation &evaluation) {
  ordered_json stages = ordered_json::array();
  for (const StageEvaluation &stage : evaluation.stages) {
    stages.push_back({{"forward_seconds", stage.forwardSeconds},
                      {"backward_seconds", stage.backwardSeconds},
                      {"weight_seconds", stage.weightSeconds},
                      {"idle_seconds", stage.idleSeconds},
                      {"memory_bytes", std::llround(stage.memoryBytes)}});
    if (stage.device.empty())
      continue;
    stages.back()["device"] = stage.device;
    stages.back()["usable_bytes"] = std::llround(stage.memoryLimitBytes);
  }
  return stages;
}

static ordered_json placementToJson(const Cluster &cluster,
                                    const Evaluation &evaluation) {
  ordered_json axes = ordered_json::array();
  for (const RankAxis &axis : evaluation.decisions.order) {
    GroupPlacement group =
        placeGroup(cluster, evaluation.decisions.order, {axis.name});
    ordered_json levels = ordered_json::object();
    for (size_t i = 0; i < group.ranksPerLevel.size(); ++i)
      if (group.ranksPerLevel[i] > 1)
        levels[cluster.levels[i].name] = group.ranksPerLevel[i];
    axes.push_back(
        {{"axis", axis.name}, {"ranks", axis.size}, {"levels", levels}});
  }
  return axes;
}

static ordered_json sharesToJson(const Evaluation &evaluation) {
  ordered_json json = {{"even_step_seconds", evaluation.evenSeconds},
                       {"ranks", ordered_json::array()}};
  for (const ShareOfRanks &share : evaluation.shares)
    json["ranks"].push_back({{"device", share.device},
                             {"data_ranks", share.dataRanks},
                             {"micro_batches", share.microBatches},
                             {"micro_batch_seconds", share.seconds}});
  return json;
}

double mfuOf(const Cluster &cluster, const ModelTotals &totals,
             const Candidate &candidate) {
  const Evaluation &evaluation = candidate.evaluation;
  double peak = peakOf(cluster, candidate.strategy.ranks(), totals.computeType);
  return evaluation.stepSeconds > 0
             ? evaluation.flops / (evaluation.stepSeconds * peak)
             : 0;
}

static ordered_json predictedToJson(const Cluster &cluster,
                                    const ModelTotals &totals,
                                    const Candidate &candidate) {
  const Evaluation &evaluation = candidate.evaluation;
  double step = evaluation.stepSeconds;
  double tokens = totals.tokensPerStep();
  ordered_json levels = ordered_json::object();
  for (size_t i = 0; i < cluster.levels.size(); ++i)
    levels[cluster.levels[i].name] =
        i < evaluation.bytesPerLevel.size()
            ? std::llround(evaluation.bytesPerLevel[i])
            : 0;
  ordered_json json = {
      {"step_seconds", step},
      {"tokens_per_second", step > 0 ? tokens / step : 0},
      {"mfu", mfuOf(cluster, totals, candidate)},
      {"memory_bytes", memoryToJson(evaluation.memory)},
      {"offloaded_bytes",
       {{"host", std::llround(evaluation.hostBytes)},
        {"disk", std::llround(evaluation.diskBytes)}}},
      {"bytes_per_level", levels},
      {"bubble_fraction", evaluation.bubbleFraction},
      {"exposed_communication_seconds", evaluation.exposedCommunicationSeconds},
      {"compute_seconds", evaluation.computeSeconds}};
  if (!evaluation.decisions.order.empty())
    json["placement"] = placementToJson(cluster, evaluation);
  if (!evaluation.decisions.batchShares.empty())
    json["batch_shares"] = sharesToJson(evaluation);
  if (!evaluation.stages.empty())
    json["stages"] = stagesToJson(evaluation);
  return json;
}

static ordered_json verdictToJson(const Candidate &candidate) {
  ordered_json json = {
      {"strategy", strategyToJson(placedStrategy(
                       candidate.strategy, candidate.evaluation.decisions))},
      {"method", candidate.method},
      {"fits", candidate.fits}};
  if (!candidate.skipped.empty()) {
    json["fits"] = nullptr; // The candidate was not evaluated.
    json["skipped"] = candidate.skipped;
  } else if (!candidate.fits)
    json["rejected"] = candidate.evaluation.rejected.empty()
                           ? candidate.why
                           : candidate.evaluation.rejected;
  else if (!candidate.why.empty())
    json["why"] = candidate.why;
  return json;
}

static bool hasPrediction(const Candidate &candidate) {
  return candidate.evaluation.stepSeconds > 0 ||
         candidate.evaluation.memory.total() > 0;
}

static ordered_json candidateToJson(const Cluster &cluster,
                                    const ModelTotals &totals,
                                    const Candidate &candidate) {
  ordered_json json = verdictToJson(candidate);
  if (hasPrediction(candidate))
    json["predicted"] = predictedToJson(cluster, totals, candidate);
  return json;
}

static ordered_json baselineToJson(const Cluster &cluster,
                                   const ModelTotals &totals,
                                   const Baseline &baseline) {
  ordered_json json = {{"name", baseline.name}};
  json.update(verdictToJson(baseline.candidate));
  if (hasPrediction(baseline.candidate))
    json.update(predictedToJson(cluster, totals, baseline.candidate));
  return json;
}

static ordered_json clusterToJson(const Cluster &cluster,
                                  const SearchResult &result) {
  ordered_json groups = ordered_json::array();
  for (const NodeGroup &group : cluster.groups)
    groups.push_back({{"nodes", group.nodes},
                      {"devices_per_node", group.devicesPerNode},
                      {"device", group.device.name}});
  ordered_json levels = ordered_json::array();
  for (const Level &level : cluster.levels)
    levels.push_back({{"name", level.name},
                      {"devices", level.span},
                      {"gigabytes_per_second", level.bytesPerSecond / 1e9},
                      {"latency_microseconds", level.latencySeconds * 1e6},
                      {"kind", std::string(stringify(level.kind))}});
  return {{"name", cluster.name},
          {"devices", cluster.numDevices()},
          {"usable_bytes_per_device", std::llround(result.memoryLimitBytes)},
          {"headroom", result.headroom},
          {"groups", groups},
          {"levels", levels}};
}

static ordered_json shrinkingToJson(const Verification &verification) {
  ordered_json layers = ordered_json::array();
  for (const Verification::Layers &layer : verification.layers)
    layers.push_back(
        {{"ops", layer.ops}, {"before", layer.before}, {"after", layer.after}});
  ordered_json sizes = ordered_json::array();
  for (const auto &[before, after] : verification.sizes)
    sizes.push_back({{"before", before}, {"after", after}});
  return {{"layers", layers},
          {"sizes", sizes},
          {"keeps_layouts", verification.keepsLayouts}};
}

static ordered_json verificationToJson(const Verification &verification) {
  using Scope = Verification::Scope;
  if (verification.scope == Scope::none)
    return {{"scope", "none"}, {"why", verification.why}};
  bool isShrunk = verification.scope == Scope::shrunk;
  ordered_json json = {{"scope", isShrunk ? "shrunk" : "full"},
                       {"strategy", strategyToJson(verification.strategy)},
                       {"ranks", verification.ranks},
                       {"global_batch", verification.globalBatch},
                       {"in_fp32", verification.inFp32},
                       {"compared_outputs", verification.outputs},
                       {"compared_tensors", verification.tensors},
                       {"output_error", verification.outputError},
                       {"tolerance_share", verification.toleranceShare},
                       {"magnifies_rounding", verification.isSensitive},
                       {"seconds", verification.seconds}};
  if (isShrunk)
    json["shrunk"] = shrinkingToJson(verification);
  return json;
}

static ordered_json changesToJson(const SearchResult &result) {
  ordered_json plans = ordered_json::array();
  for (const Change &change : result.changes)
    plans.push_back({{"change", change.what},
                     {"step_seconds", change.stepSeconds},
                     {"memory_bytes", std::llround(change.memoryBytes)},
                     {"fits", change.fits}});
  return {{"from", result.changedFrom}, {"plans", plans}};
}

static ordered_json stepToJson(const ModelTotals &totals,
                               const StepDetail &detail) {
  ordered_json step = {
      {"global_batch", totals.globalBatch},
      {"tokens", totals.tokensPerStep()},
      {"unit", std::string(unitOf(totals))},
      {"compute_type", std::string(precisionOf(totals.computeType))},
      {"trains", totals.training}};
  if (totals.fp8Flops > 0)
    step["fp8_fraction_at_most"] = totals.fp8Flops / totals.flopsPerStep;
  if (totals.fp8Flops > 0 && !detail.empty())
    step["fp8_fraction"] = detail.fp8Share;
  return step;
}

/// Adds the interval to the prediction of a candidate.
static void addInterval(ordered_json &predicted, const Cluster &cluster,
                        const SearchResult &result,
                        const ReportContext &context,
                        const Candidate &candidate) {
  if (context.intervals && predicted.contains("step_seconds"))
    predicted["interval"] =
        intervalToJson(context.intervals->of(cluster, result, candidate));
}

/// Returns null only if no candidate can be built; the chosen one may not fit.
static ordered_json chosenToJson(const Cluster &cluster,
                                 const SearchResult &result,
                                 const ReportContext &context) {
  if (result.candidates.empty() ||
      !result.candidates[0].evaluation.rejected.empty())
    return nullptr;
  const Candidate &best = result.candidates[0];
  ordered_json chosen = candidateToJson(cluster, result.totals, best);
  addInterval(chosen["predicted"], cluster, result, context, best);
  if (context.intervals && result.hasWinner())
    chosen["chance_of_fastest"] =
        context.intervals->chanceOfWinner(cluster, result);
  chosen["binding_constraint"] = result.bindingConstraint;
  if (!result.bindingDetail.empty())
    chosen["binding_detail"] = result.bindingDetail;
  chosen["devices"] = best.strategy.ranks();
  if (!result.changes.empty())
    chosen["changes"] = changesToJson(result);
  if (!result.idle.empty())
    chosen["idle"] = result.idle;
  if (!context.detail.empty())
    chosen["detail"] = detailToJson(context.detail, cluster);
  return chosen;
}

/// Adds the candidates, the baselines and the Pareto front.
static void addPlans(ordered_json &report, const Cluster &cluster,
                     const SearchResult &result, const ReportContext &context) {
  report["candidates"] = ordered_json::array();
  for (const Candidate &candidate : result.candidates) {
    ordered_json json = candidateToJson(cluster, result.totals, candidate);
    if (json.contains("predicted"))
      addInterval(json["predicted"], cluster, result, context, candidate);
    report["candidates"].push_back(std::move(json));
  }
  report["baselines"] = ordered_json::array();
  for (const Baseline &baseline : result.baselines) {
    ordered_json json = baselineToJson(cluster, result.totals, baseline);
    addInterval(json, cluster, result, context, baseline.candidate);
    report["baselines"].push_back(std::move(json));
  }
  report["pareto"] = ordered_json::array();
  for (const ParetoPoint &point : result.pareto.points())
    report["pareto"].push_back(
        {{"strategy", strategyToJson(point.strategy)},
         {"method", point.method},
         {"step_seconds", point.stepSeconds},
         {"memory_bytes", std::llround(point.memoryBytes)}});
}

ordered_json reportToJson(const Cluster &cluster, const SearchResult &result,
                          const ReportContext &context) {
  ordered_json report = {{"version", reportVersion},
                         {"software", context.software},
                         {"model", context.model},
                         {"cluster", clusterToJson(cluster, result)}};
  report["step"] = stepToJson(result.totals, context.detail);
  report["chosen"] = chosenToJson(cluster, result, context);
  addPlans(report, cluster, result, context);
  report["search"] = {{"seconds", result.seconds},
                      {"considered", result.considered},
                      {"pruned", result.pruned},
                      {"skipped", result.skipped}};
  if (!context.loss.empty())
    report["loss_output"] = context.loss;
  report["parameters"] = {{"count", result.totals.parameters},
                          {"trained", context.trained},
                          {"frozen", context.frozen}};
  report.update(modelPartsToJson(context.parts));
  if (context.experts)
    report["experts"] = expertsToJson(*context.experts);
  report["remarks"] = context.remarks;
  report["verification"] = verificationToJson(context.verification);
  if (context.better)
    report["better"] = betterPlanToJson(*context.better);
  if (context.job)
    report["job"] = jobToJson(*context.job);
  if (context.deadline)
    report["deadline"] = deadlineToJson(*context.deadline);
  for (const ClusterAnswer &answer : context.clusters)
    report["clusters"].push_back(clusterAnswerToJson(answer));
  for (const WhatIf &whatIf : context.whatIfs)
    report["what_if"].push_back(whatIfToJson(whatIf));
  return report;
}

} // namespace dpc::cost
