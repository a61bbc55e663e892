//===- ReportText.cpp - The report for a terminal -------------------------===//

#include "cost-model/machine/ComputeCost.h"
#include "cost-model/report/Report.h"
#include "cost-model/report/ReportTable.h"
#include "cost-model/report/TextLines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace dpc::cost {

static std::string percent(double fraction) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.1f %%", 100 * fraction);
  return buffer;
}

static std::string formatRate(double perSecond) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), perSecond < 10 ? "%.3g" : "%.0f",
                perSecond);
  return buffer;
}

static std::string headline(const Cluster &cluster,
                            const SearchResult &result) {
  if (result.candidates.empty())
    return "no strategy agrees with the request";
  const Candidate &best = result.candidates.front();
  if (!result.hasWinner())
    return "no strategy fits; nearest: " +
           stringifyStrategy(best.strategy, cluster.numDevices()) + " (" +
           best.why + ")";
  const Evaluation &evaluation = best.evaluation;
  double step = std::max(evaluation.stepSeconds, 1e-12);
  double tokens = result.totals.tokensPerStep() / step;
  std::string rate =
      formatRate(tokens) + " " + std::string(unitOf(result.totals)) + "/s";
  return "chosen: " +
         stringifyStrategy(placedStrategy(best.strategy, evaluation.decisions),
                           cluster.numDevices()) +
         ", " + formatSeconds(evaluation.stepSeconds) + " a step, " + rate +
         ", MFU " + percent(mfuOf(cluster, result.totals, best)) + ", " +
         formatBytes(evaluation.memory.total()) + " of " +
         formatBytes(usableBytesOf(result, best)) +
         (result.headroom > 0
              ? " (" + formatShare(result.headroom) + " headroom kept)"
              : "") +
         ", communication exposed " +
         percent(evaluation.exposedCommunicationSeconds / step) +
         ", bound by " + result.bindingConstraint +
         (result.bindingDetail.empty() ? "" : ": " + result.bindingDetail);
}

/// Returns two lines: the fullest rank's peak, and bytes sent over each level.
static std::string memoryAndTraffic(const Cluster &cluster,
                                    const Evaluation &evaluation) {
  std::string held, sent;
  for (int i = 0; i < numMemoryCategories; ++i) {
    auto category = static_cast<MemoryCategory>(i);
    double bytes = evaluation.memory[category];
    if (bytes > 0)
      held += (held.empty() ? "" : ", ") +
              std::string(stringifyMemoryCategory(category)) + " " +
              formatBytes(bytes);
  }
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    double bytes =
        i < evaluation.bytesPerLevel.size() ? evaluation.bytesPerLevel[i] : 0;
    if (bytes > 0)
      sent += (sent.empty() ? "" : ", ") + formatBytes(bytes) + " over " +
              cluster.levels[i].name;
  }
  return (held.empty() ? "" : "memory of the fullest rank: " + held + "\n") +
         (sent.empty() ? "" : "a rank sends in a step: " + sent + "\n");
}

static std::string idleLine(const Cluster &cluster,
                            const SearchResult &result) {
  if (result.candidates.empty())
    return "";
  int64_t used = result.candidates.front().strategy.ranks();
  if (used >= cluster.numDevices())
    return "";
  return "uses " + std::to_string(used) + " of " +
         std::to_string(cluster.numDevices()) + " devices" +
         (result.idle.empty() ? ", as requested" : ": " + result.idle) + "\n";
}

static std::string offloadLine(const Evaluation &evaluation) {
  std::string text;
  if (evaluation.hostBytes > 0)
    text = formatBytes(evaluation.hostBytes) + " of host memory";
  if (evaluation.diskBytes > 0)
    text += (text.empty() ? "" : " and ") + formatBytes(evaluation.diskBytes) +
            " of disk";
  return text.empty() ? "" : "offload: " + text + " for each rank\n";
}

/// "1.00 ms", or "1.00 ms to 1.20 ms"
static std::string
formatRange(const std::vector<StageEvaluation> &stages,
            const std::function<double(const StageEvaluation &)> &valueOf,
            std::string (*format)(double)) {
  double least = valueOf(stages.front()), most = least;
  for (const StageEvaluation &stage : stages) {
    least = std::min(least, valueOf(stage));
    most = std::max(most, valueOf(stage));
  }
  std::string from = format(least), to = format(most);
  return from == to ? to : from + " to " + to;
}

/// Returns a line about the stages, or "" if there is one stage.
static std::string pipelineLine(const Evaluation &evaluation) {
  const std::vector<StageEvaluation> &stages = evaluation.stages;
  if (stages.empty())
    return "";
  return "pipeline: " + std::to_string(stages.size()) + " stages idle " +
         percent(evaluation.bubbleFraction) + "; a micro-batch takes " +
         formatRange(stages, &StageEvaluation::forwardSeconds, formatSeconds) +
         " forward, " +
         formatRange(
             stages,
             [](const auto &stage) {
               return stage.backwardSeconds + stage.weightSeconds;
             },
             formatSeconds) +
         " backward; memory " +
         formatRange(stages, &StageEvaluation::memoryBytes, formatBytes) + "\n";
}

/// Returns a line about the stages' devices, or "" on a homogeneous cluster.
static std::string stageDevicesLine(const Evaluation &evaluation) {
  const std::vector<StageEvaluation> &stages = evaluation.stages;
  std::string text;
  for (size_t first = 0, end = 0; first < stages.size(); first = end) {
    while (end < stages.size() && stages[end].device == stages[first].device)
      ++end;
    if (stages[first].device.empty())
      return "";
    double most = 0;
    for (size_t i = first; i < end; ++i)
      most = std::max(most, stages[i].memoryBytes);
    text += (text.empty() ? "stages: " : "; ") + std::to_string(first) +
            (end > first + 1 ? " to " + std::to_string(end - 1) : "") + " on " +
            stages[first].device + ", " + formatBytes(most) + " of " +
            formatBytes(stages[first].memoryLimitBytes);
  }
  return text.empty() ? "" : text + "\n";
}

/// "8 x a100 and 8 x v100"
static std::string devicesText(const Cluster &cluster) {
  std::vector<std::pair<std::string, int64_t>> counts;
  for (const NodeGroup &group : cluster.groups) {
    if (counts.empty() || counts.back().first != group.device.name)
      counts.emplace_back(group.device.name, 0);
    counts.back().second += group.numDevices();
  }
  std::string text;
  for (const auto &[name, count] : counts)
    text +=
        (text.empty() ? "" : " and ") + std::to_string(count) + " x " + name;
  return text;
}

/// Returns a line about the shares of the batch, or "" if they are even.
static std::string sharesLine(const Evaluation &evaluation) {
  std::string text;
  for (const ShareOfRanks &share : evaluation.shares)
    text += (text.empty() ? "" : ", ") + std::to_string(share.microBatches) +
            " micro-batches of " + formatSeconds(share.seconds) +
            " on each of " + std::to_string(share.dataRanks) +
            " data-parallel ranks of " + share.device;
  return text.empty() ? ""
                      : "batch shares: " + text + "; even shares would take " +
                            formatSeconds(evaluation.evenSeconds) + " a step\n";
}

/// Returns a line about the placement, or "" if the cluster has one level.
static std::string placementLine(const Cluster &cluster,
                                 const RankOrder &order) {
  if (cluster.levels.size() < 2)
    return "";
  std::string text;
  for (const RankAxis &axis : order) {
    GroupPlacement group = placeGroup(cluster, order, {axis.name});
    std::string where;
    for (size_t i = 0; i < group.ranksPerLevel.size(); ++i)
      if (group.ranksPerLevel[i] > 1)
        where += (where.empty() ? " " : " x ") +
                 std::to_string(group.ranksPerLevel[i]) + " in " +
                 cluster.levels[i].name;
    text += (text.empty() ? "" : ", ") + axis.name + where;
  }
  if (std::ranges::find(order, "dpi", &RankAxis::name) != order.end())
    text += "; ZeRO shards over dpi (hybrid_shard), dp are its copies";
  return text.empty() ? "" : "placement, innermost first: " + text + "\n";
}

/// "repeats of layers 96 -> 8, sizes 12288 -> 64, 2048 -> 8", or, if `isBrief`,
/// "repeats of layers 96 -> 8, 2 sizes"
static std::string shrinkingText(const Verification &verification,
                                 bool isBrief) {
  std::string layers, sizes;
  for (const Verification::Layers &layer : verification.layers)
    layers += (layers.empty() ? "" : ", ") + std::to_string(layer.before) +
              " -> " + std::to_string(layer.after);
  for (const auto &[before, after] : verification.sizes) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(before) + " -> ";
    for (int64_t size : after)
      sizes += (size == *after.begin() ? "" : "|") + std::to_string(size);
  }
  std::string shrunk =
      layers.empty() ? "" : "repeats of layers " + layers + ", ";
  if (sizes.empty())
    return shrunk + "all sizes kept";
  return shrunk + (isBrief
                       ? std::to_string(verification.sizes.size()) + " sizes"
                       : "sizes " + sizes);
}

std::string verificationText(const Verification &verification, bool isBrief) {
  using Scope = Verification::Scope;
  if (verification.scope == Scope::none)
    return "not verified against one device: " + verification.why;
  char errors[160];
  std::snprintf(errors, sizeof(errors),
                "%lld outputs (error %.1g) and %lld tensors of 2 steps, at "
                "most %.2g %% of the tolerance, in %s",
                static_cast<long long>(verification.outputs),
                verification.outputError,
                static_cast<long long>(verification.tensors),
                100 * verification.toleranceShare,
                formatSeconds(verification.seconds).c_str());
  std::string ranks = std::to_string(verification.ranks) + " ranks";
  std::string found =
      errors +
      std::string(verification.isSensitive
                      ? " (wider than usual: the model magnifies rounding "
                        "as much on one device)"
                      : "");
  if (verification.scope == Scope::full)
    return "verified: " + ranks + " compute what one device computes: " + found;
  return "verified in shrunk form" +
         std::string(verification.inFp32 ? " and fp32" : "") + " (" +
         shrinkingText(verification, isBrief) + ", batch " +
         std::to_string(verification.globalBatch) + "): " + ranks + " under " +
         stringifyStrategy(verification.strategy) +
         (verification.keepsLayouts ? "" : ", laid out for the small sizes,") +
         " compute what one device computes: " + found;
}

/// "1.20 s faster, 3.00 GiB less", or "no gain, no loss" if both
/// differences are below a thousandth.
static std::string gainText(const Change &before, const Change &after) {
  double seconds = before.stepSeconds - after.stepSeconds;
  double bytes = before.memoryBytes - after.memoryBytes;
  constexpr double kLeast = 1e-3;
  if (std::abs(seconds) < kLeast * before.stepSeconds &&
      std::abs(bytes) < kLeast * before.memoryBytes &&
      after.fits == before.fits)
    return "no gain, no loss";
  return formatSeconds(std::abs(seconds)) +
         (seconds >= 0 ? " faster, " : " slower, ") +
         formatBytes(std::abs(bytes)) + (bytes >= 0 ? " less" : " more") +
         (after.fits == before.fits ? ""
          : after.fits              ? ": fits now"
                                    : ": does not fit");
}

static Block changesBlock(const SearchResult &result, const TextForm &form) {
  if (result.changes.size() < 2)
    return {};
  const Change &first = result.changes.front();
  Block block{wrapLines("  changed from " + result.changedFrom + " (" +
                            formatSeconds(first.stepSeconds) + ", " +
                            formatBytes(first.memoryBytes) +
                            (first.fits ? "" : ", does not fit") + "):",
                        form),
              {},
              " more changes: report.html"};
  for (size_t i = 1; i < result.changes.size(); ++i)
    block.items.push_back(
        wrapLines("    " + result.changes[i].what + ": " +
                      gainText(result.changes[i - 1], result.changes[i]),
                  form, 8));
  return block;
}

/// Lists at most `lines` points, with both ends. Empty for a single point.
static Block paretoBlock(const SearchResult &result, size_t lines,
                         const TextForm &form) {
  const std::vector<ParetoPoint> &points = result.pareto.points();
  if (points.size() < 2)
    return {};
  constexpr size_t kNumber = 8;
  lines = std::min(points.size(), lines);
  std::string title = "  time against memory (Pareto front, " +
                      std::to_string(points.size()) + " strategies";
  title += points.size() > lines ? ", some of them):" : "):";
  Block block{wrapLines(title, form), {}, ""};
  for (size_t i = 0; i < lines; ++i) {
    const ParetoPoint &point = points[i * (points.size() - 1) / (lines - 1)];
    block.items.push_back(wrapLines(
        "    " + pad(formatSeconds(point.stepSeconds), kNumber, true) + "  " +
            pad(formatBytes(point.memoryBytes), kNumber, true) + "  " +
            stringifyStrategy(point.strategy),
        form, 24));
  }
  return block;
}

/// One or two lines: the change, the new throughput and the new strategy.
static Lines linesOf(const WhatIf &whatIf, const SearchResult &result,
                     const TextForm &form) {
  std::string text = "    " + whatIf.change + ": ";
  if (!whatIf.why.empty())
    return wrapLines(text + whatIf.why, form, 8);
  const Candidate &winner = result.candidates.front();
  Strategy now = placedStrategy(winner.strategy, winner.evaluation.decisions);
  double rate = result.totals.tokensPerStep() / winner.evaluation.stepSeconds;
  double change = rate > 0 ? whatIf.tokensPerSecond / rate - 1 : 0;
  return wrapLines(
      text + formatSeconds(whatIf.stepSeconds) + " a step, " +
          (change < 0 ? "" : "+") + percent(change) + " " +
          std::string(unitOf(result.totals)) + "/s, " +
          formatBytes(whatIf.memoryBytes) + ", " +
          (whatIf.strategy == now ? "same strategy"
                                  : differenceOf(now, whatIf.strategy)) +
          (whatIf.idleDevices > 0
               ? "; " + std::to_string(whatIf.idleDevices) + " devices idle"
               : ""),
      form, 8);
}

static Block whatIfBlock(const ReportContext &context,
                         const SearchResult &result, const TextForm &form) {
  Block block{{{"  what if", LineStyle::strong}}, {}, " more: report.html"};
  if (result.hasWinner())
    for (const WhatIf &whatIf : context.whatIfs)
      block.items.push_back(linesOf(whatIf, result, form));
  return block;
}

static Block remarksBlock(const ReportContext &context, const TextForm &form) {
  Block block{{}, {}, " more remarks: report.html"};
  for (size_t i = context.notices; i < context.remarks.size(); ++i)
    block.items.push_back(wrapLines("  remark: " + context.remarks[i], form));
  return block;
}

namespace {

/// The parts of a report on a terminal. Some parts are always shown; the other
/// parts share the lines that are left.
class Screen {
public:
  Screen(const Cluster &cluster, const SearchResult &result,
         const ReportContext &context, const TextForm &form);
  Lines lines() const;

private:
  const SearchResult &result;
  TextForm form;
  Lines head, tableHead, tail;
  Block candidates, baselines, changes, clusters, whatIfs, remarks;

  size_t fixedLines() const;
};

} // namespace

/// An upper bound if the details of the chosen plan are unknown.
static std::string fp8Share(const ModelTotals &totals,
                            const StepDetail &detail) {
  if (totals.fp8Flops <= 0)
    return "";
  return detail.empty()
             ? ", up to " + percent(totals.fp8Flops / totals.flopsPerStep) +
                   " of its operations in fp8"
         : detail.fp8Share > 0
             ? ", " + percent(detail.fp8Share) + " of its operations in fp8"
             : "";
}

/// "bf16 (default on h100-sxm-80gb; --precision=fp32 changes it)"
static std::string precisionText(const SearchResult &result,
                                 const ReportContext &context) {
  std::string why = context.whyPrecision;
  return std::string(precisionOf(result.totals.computeType)) +
         (why.empty() ? "" : " (" + why + ")") +
         fp8Share(result.totals, context.detail);
}

/// The software that the numbers are of, the model and the cluster.
static Lines titleOf(const Cluster &cluster, const SearchResult &result,
                     const ReportContext &context, const TextForm &form) {
  Lines title;
  if (!context.software.empty())
    append(title, wrapLines(context.software, form));
  append(title, wrapLines(context.model + " on " + cluster.name + " (" +
                              devicesText(cluster) + "), computes in " +
                              precisionText(result, context) +
                              (context.loss.empty() ? ""
                                                    : ", trains the output '" +
                                                          context.loss + "'"),
                          form));
  return title;
}

/// Returns lines about the model and the whole job.
static std::string modelFacts(const SearchResult &result,
                              const ReportContext &context) {
  std::string facts = modelPartsText(context.parts);
  if (context.experts)
    facts += expertLine(*context.experts) + "\n";
  if (context.job)
    facts += jobText(*context.job, unitOf(result.totals)) + "\n";
  if (context.deadline)
    facts += deadlineText(*context.deadline) + "\n";
  return facts;
}

Screen::Screen(const Cluster &cluster, const SearchResult &result,
               const ReportContext &context, const TextForm &form)
    : result(result), form(form), changes(changesBlock(result, form)),
      clusters(clustersBlock(context.clusters, unitOf(result.totals), form)),
      whatIfs(whatIfBlock(context, result, form)),
      remarks(remarksBlock(context, form)) {
  append(head, titleOf(cluster, result, context, form));
  append(head,
         wrapLines(headline(cluster, result), form, 4, LineStyle::strong));
  for (size_t i = 0; i < context.notices; ++i)
    append(head, wrapLines("  remark: " + context.remarks[i], form));
  if (!context.readAs.empty())
    append(head, wrapLines(context.readAs, form));
  if (context.better)
    append(head, wrapLines(betterPlanText(*context.better), form, 4,
                           LineStyle::strong));
  std::string facts = idleLine(cluster, result);
  if (result.hasWinner() && context.intervals)
    facts += intervalText(*context.intervals, cluster, result) + "\n";
  if (result.hasWinner()) {
    const Evaluation &winner = result.candidates.front().evaluation;
    facts += memoryAndTraffic(cluster, winner) + offloadLine(winner) +
             pipelineLine(winner) + stageDevicesLine(winner) +
             sharesLine(winner) +
             placementLine(cluster, winner.decisions.order);
  }
  facts += modelFacts(result, context);
  for (size_t at = 0, end = 0; at < facts.size(); at = end + 1) {
    end = facts.find('\n', at);
    append(head, wrapLines(facts.substr(at, end - at), form));
  }
  TableRow header{"", "strategy", "step", "memory", "exposed", "", {}};
  std::vector<TableRow> runners = candidateRows(result);
  std::vector<TableRow> known = baselineRows(result);
  TableWidths widths = widthsOf(runners, known, header);
  tableHead = linesOf(header, widths, form);
  tableHead.insert(tableHead.begin(), Line{});
  if (!runners.empty()) {
    append(tableHead, linesOf(runners.front(), widths, form));
    runners.erase(runners.begin());
  }
  candidates = blockOf(runners, widths, form, " more: report.html");
  baselines = blockOf(known, widths, form, " more: report.html");
  baselines.title = {{"  baselines", LineStyle::strong}};
  append(tail,
         wrapLines("  " + std::to_string(result.considered) + " considered, " +
                       std::to_string(result.pruned) + " pruned, " +
                       (result.skipped
                            ? std::to_string(result.skipped) + " skipped, "
                            : std::string()) +
                       formatSeconds(result.seconds),
                   form));
  append(tail,
         wrapLines("  " + verificationText(context.verification, true), form));
}

size_t Screen::fixedLines() const {
  return head.size() + tableHead.size() + tail.size();
}

Lines Screen::lines() const {
  // Fixed parts come first, then a few items of each list, then more items.
  constexpr size_t kRunners = 6, kFew = 4, kPareto = 5;
  size_t left = std::max(reportLines, fixedLines() + kFew) - fixedLines();
  auto grow = [&](const Block &block, size_t taken, size_t most) {
    size_t more = std::min(block.lines(), most) - taken;
    more = std::min(more, left);
    left -= more;
    return taken + more;
  };
  size_t forClusters = grow(clusters, 0, SIZE_MAX);
  size_t forCandidates = grow(candidates, 0, kFew);
  size_t forRemarks = grow(remarks, 0, kFew);
  size_t forBaselines = grow(baselines, 0, SIZE_MAX);
  size_t forWhatIfs = grow(whatIfs, 0, SIZE_MAX);
  size_t forChanges = grow(changes, 0, kFew);
  forCandidates = grow(candidates, forCandidates, kRunners);
  Block front = paretoBlock(result, kPareto, form);
  for (size_t points = kPareto; points > 2 && front.lines() > left;)
    front = paretoBlock(result, --points, form);
  size_t forFront = front.lines() <= left ? front.lines() : 0;
  left -= forFront;
  forRemarks = grow(remarks, forRemarks, SIZE_MAX);
  forCandidates = grow(candidates, forCandidates, SIZE_MAX);
  forChanges = grow(changes, forChanges, SIZE_MAX);

  Lines lines = head;
  append(lines, tableHead);
  append(lines, candidates.fit(forCandidates));
  append(lines, baselines.fit(forBaselines));
  append(lines, changes.fit(forChanges));
  append(lines, front.fit(forFront));
  append(lines, clusters.fit(forClusters));
  append(lines, whatIfs.fit(forWhatIfs));
  append(lines, tail);
  append(lines, remarks.fit(forRemarks));
  return lines;
}

std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context, const TextForm &form) {
  return joinLines(Screen(cluster, result, context, form).lines(), form);
}

} // namespace dpc::cost
