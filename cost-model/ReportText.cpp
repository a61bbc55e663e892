//===- ReportText.cpp - The strategy table --------------------------------===//

#include "cost-model/ComputeCost.h"
#include "cost-model/Report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace dpc::cost {

namespace {

/// One line of the table.
struct Row {
  std::string mark;
  std::string strategy;
  std::string step;
  std::string memory;
  std::string exposed;
  std::string why;
};

} // namespace

static Row rowOf(const Candidate &candidate, std::string mark) {
  const Evaluation &evaluation = candidate.evaluation;
  Row row{std::move(mark),
          stringifyStrategy(placedStrategy(candidate.strategy, evaluation)),
          "-",
          "-",
          "-",
          candidate.why};
  // Pruned or impossible: no number was computed over the graph.
  if (evaluation.stepSeconds > 0 && evaluation.rejected.empty() &&
      candidate.skipped.empty()) {
    // Made of pieces, not evaluated by itself.
    row.step = (evaluation.isComposed ? "~" : "") +
               formatSeconds(evaluation.stepSeconds);
    row.exposed = formatSeconds(evaluation.exposedCommunicationSeconds);
    row.memory = formatBytes(evaluation.memory.total());
  }
  if (row.why.empty())
    row.why = evaluation.rejected;
  if (!candidate.fits && !row.why.empty() && candidate.skipped.empty())
    row.why = "rejected: " + row.why;
  return row;
}

static std::vector<Row> tableRows(const SearchResult &result) {
  std::vector<Row> rows;
  rows.reserve(result.candidates.size() + result.baselines.size());
  for (size_t i = 0; i < result.candidates.size(); ++i)
    rows.push_back(
        rowOf(result.candidates[i], i == 0 && result.hasWinner() ? "*" : ""));
  for (const Baseline &baseline : result.baselines) {
    Row row = rowOf(baseline.candidate, baseline.name);
    bool isWinner =
        result.hasWinner() && baseline.candidate.method != "formula" &&
        baseline.candidate.strategy == result.candidates[0].strategy;
    if (isWinner)
      row.why = "the winner";
    rows.push_back(std::move(row));
  }
  return rows;
}

static std::string pad(const std::string &text, size_t width, bool toRight) {
  std::string space(width > text.size() ? width - text.size() : 0, ' ');
  return toRight ? space + text : text + space;
}

static std::string cut(std::string text, size_t width) {
  if (text.size() > width)
    text = width > 3 ? text.substr(0, width - 3) + "..." : "";
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text;
}

static std::string formatTable(const std::vector<Row> &rows,
                               size_t numCandidates, size_t width) {
  Row header{"", "strategy", "step", "memory", "exposed comm", "why"};
  size_t mark = 0, strategy = 0, step = 0, memory = 0, exposed = 0;
  std::vector<Row> all = rows;
  all.insert(all.begin(), header);
  for (const Row &row : all) {
    mark = std::max(mark, row.mark.size());
    strategy = std::max(strategy, row.strategy.size());
    step = std::max(step, row.step.size());
    memory = std::max(memory, row.memory.size());
    exposed = std::max(exposed, row.exposed.size());
  }
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    const Row &row = all[i];
    std::string line = "  " + pad(row.mark, mark, false) + " " +
                       pad(row.strategy, strategy, false) + "  " +
                       pad(row.step, step, true) + "  " +
                       pad(row.memory, memory, true) + "  " +
                       pad(row.exposed, exposed, true) + "  ";
    // Too little room for a reason: it gets a line of its own.
    constexpr size_t kReason = 60;
    bool isNarrow = i > 0 && line.size() + row.why.size() > width &&
                    line.size() + kReason > width;
    if (isNarrow)
      text += cut(line, width) + "\n" + cut("      " + row.why, width) + "\n";
    else
      text += cut(line + row.why, width) + "\n";
    if (i == numCandidates && i + 1 < all.size())
      text += "  baselines\n";
  }
  return text;
}

static std::string percent(double fraction) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.1f %%", 100 * fraction);
  return buffer;
}

static std::string headline(const Cluster &cluster,
                            const SearchResult &result) {
  if (result.candidates.empty())
    return "no strategy agrees with the request\n";
  const Candidate &best = result.candidates.front();
  if (!result.hasWinner())
    return "no strategy fits; nearest: " + stringifyStrategy(best.strategy) +
           " (" + best.why + ")\n";
  const Evaluation &evaluation = best.evaluation;
  double step = std::max(evaluation.stepSeconds, 1e-12);
  double tokens =
      result.totals.tokensPerSample * double(result.totals.globalBatch) / step;
  char rate[48];
  std::snprintf(rate, sizeof(rate), "%.0f tokens/s", tokens);
  return "chosen: " +
         stringifyStrategy(placedStrategy(best.strategy, evaluation)) + ", " +
         formatSeconds(evaluation.stepSeconds) + " a step, " + rate + ", MFU " +
         percent(mfuOf(cluster, result.totals, best)) + ", " +
         formatBytes(evaluation.memory.total()) + " of " +
         formatBytes(evaluation.memoryLimitBytes > 0
                         ? evaluation.memoryLimitBytes
                         : result.memoryLimitBytes) +
         ", communication exposed " +
         percent(evaluation.exposedCommunicationSeconds / step) +
         ", bound by " + result.bindingConstraint + "\n";
}

/// A line about devices that the winner does not use, if there are any.
static std::string idleLine(const Cluster &cluster,
                            const SearchResult &result) {
  if (result.idle.empty())
    return "";
  return "uses " + std::to_string(result.candidates.front().strategy.ranks()) +
         " of " + std::to_string(cluster.numDevices()) +
         " devices: " + result.idle + "\n";
}

/// A line about what the winner keeps outside its devices' memory, if anything.
static std::string offloadLine(const SearchResult &result) {
  if (!result.hasWinner())
    return "";
  const Evaluation &evaluation = result.candidates.front().evaluation;
  std::string text;
  if (evaluation.hostBytes > 0)
    text = formatBytes(evaluation.hostBytes) + " of host memory";
  if (evaluation.diskBytes > 0)
    text += (text.empty() ? "" : " and ") + formatBytes(evaluation.diskBytes) +
            " of disk";
  return text.empty() ? "" : "offload: " + text + " for each rank\n";
}

/// "1.00 ms", or "1.00 ms to 1.20 ms".
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

/// A line about the winner's stages, if it has several.
static std::string pipelineLine(const SearchResult &result) {
  if (!result.hasWinner() ||
      result.candidates.front().evaluation.stages.empty())
    return "";
  const Evaluation &evaluation = result.candidates.front().evaluation;
  const std::vector<StageEvaluation> &stages = evaluation.stages;
  return "pipeline: " + std::to_string(stages.size()) + " stages idle " +
         percent(evaluation.bubbleFraction) + "; a micro-batch takes " +
         formatRange(
             stages, [](const auto &stage) { return stage.forwardSeconds; },
             formatSeconds) +
         " forward, " +
         formatRange(
             stages,
             [](const auto &stage) {
               return stage.backwardSeconds + stage.weightSeconds;
             },
             formatSeconds) +
         " backward; memory " +
         formatRange(
             stages, [](const auto &stage) { return stage.memoryBytes; },
             formatBytes) +
         "\n";
}

/// A line about which of the winner's stages run on which devices, where they
/// are unlike.
static std::string stageDevicesLine(const SearchResult &result) {
  if (!result.hasWinner())
    return "";
  const std::vector<StageEvaluation> &stages =
      result.candidates.front().evaluation.stages;
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
    counts.back().second += group.nodes * group.devicesPerNode;
  }
  std::string text;
  for (const auto &[name, count] : counts)
    text +=
        (text.empty() ? "" : " and ") + std::to_string(count) + " x " + name;
  return text;
}

/// What the winner's ranks take of the batch, where that is not the same.
static std::string sharesLine(const SearchResult &result) {
  if (!result.hasWinner())
    return "";
  const Evaluation &evaluation = result.candidates.front().evaluation;
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

/// A line about the winner's axes on the levels, if there is a choice.
static std::string placementLine(const Cluster &cluster,
                                 const SearchResult &result) {
  if (!result.hasWinner() || cluster.levels.size() < 2)
    return "";
  const RankOrder &order = result.candidates.front().evaluation.order;
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
  return text.empty() ? "" : "placement, innermost first: " + text + "\n";
}

/// ": layers 96 -> 8, sizes 12288 -> 64, 2048 -> 8"
static std::string shrinkingText(const Verification &verification) {
  std::string layers, sizes;
  for (const Verification::Layers &layer : verification.layers)
    layers += (layers.empty() ? "" : ", ") + std::to_string(layer.before) +
              " -> " + std::to_string(layer.after);
  for (const auto &[before, after] : verification.sizes) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(before) + " -> ";
    for (int64_t size : after)
      sizes += (size == *after.begin() ? "" : "|") + std::to_string(size);
  }
  return (layers.empty() ? "" : "repeats of layers " + layers + ", ") +
         (sizes.empty() ? "all sizes kept" : "sizes " + sizes);
}

std::string verificationText(const Verification &verification) {
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
  if (verification.scope == Scope::full)
    return "verified: " + ranks +
           " compute what one device computes: " + errors;
  return "verified in shrunk form" +
         std::string(verification.inFp32 ? " and fp32" : "") + " (" +
         shrinkingText(verification) + ", batch " +
         std::to_string(verification.globalBatch) + "): " + ranks + " under " +
         stringifyStrategy(verification.strategy) +
         (verification.keepsLayouts ? "" : ", laid out for the small sizes,") +
         " compute what one device computes: " + errors;
}

/// "1.20 s faster, 3.00 GiB less"
static std::string gainText(const Change &before, const Change &after) {
  double seconds = before.stepSeconds - after.stepSeconds;
  double bytes = before.memoryBytes - after.memoryBytes;
  return formatSeconds(std::abs(seconds)) +
         (seconds >= 0 ? " faster, " : " slower, ") +
         formatBytes(std::abs(bytes)) + (bytes >= 0 ? " less" : " more") +
         (after.fits == before.fits ? ""
          : after.fits              ? ": fits now"
                                    : ": does not fit");
}

/// What makes the winner of a plan that everybody knows, a line for each
/// change.
static std::string changesText(const SearchResult &result, size_t width) {
  if (result.changes.size() < 2)
    return "";
  const Change &first = result.changes.front();
  std::string text =
      cut("  changed from " + result.changedFrom + " (" + first.what + ", " +
              formatSeconds(first.stepSeconds) + ", " +
              formatBytes(first.memoryBytes) +
              (first.fits ? "" : ", does not fit") + "):",
          width) +
      "\n";
  for (size_t i = 1; i < result.changes.size(); ++i)
    text += cut("    " + result.changes[i].what + ": " +
                    gainText(result.changes[i - 1], result.changes[i]),
                width) +
            "\n";
  return text;
}

/// Some of what less memory costs in time, both ends included; nothing where
/// the fastest strategy takes least as well.
static std::string paretoText(const SearchResult &result, size_t width) {
  const std::vector<ParetoPoint> &points = result.pareto.points();
  if (points.size() < 2)
    return "";
  constexpr size_t kLines = 5, kNumber = 8;
  size_t lines = std::min(points.size(), kLines);
  std::string text = "  time against memory (Pareto front, " +
                     std::to_string(points.size()) + " strategies";
  text += points.size() > lines ? ", some of them):\n" : "):\n";
  for (size_t i = 0; i < lines; ++i) {
    const ParetoPoint &point = points[i * (points.size() - 1) / (lines - 1)];
    text += cut("    " + pad(formatSeconds(point.stepSeconds), kNumber, true) +
                    "  " + pad(formatBytes(point.memoryBytes), kNumber, true) +
                    "  " + stringifyStrategy(point.strategy),
                width) +
            "\n";
  }
  return text;
}

std::string reportToText(const Cluster &cluster, const SearchResult &result,
                         const ReportContext &context, int width) {
  std::string text = context.model + " on " + cluster.name + " (" +
                     devicesText(cluster) + "), computes in " +
                     std::string(stringifyDType(result.totals.computeType)) +
                     "\n";
  text += headline(cluster, result) + idleLine(cluster, result) +
          offloadLine(result) + pipelineLine(result) +
          stageDevicesLine(result) + sharesLine(result) +
          placementLine(cluster, result);
  text += "\n" + formatTable(tableRows(result), result.candidates.size(),
                             static_cast<size_t>(std::max(width, 40)));
  size_t columns = static_cast<size_t>(std::max(width, 40));
  text += "\n" + changesText(result, columns) + paretoText(result, columns);
  text += "  " + std::to_string(result.considered) + " considered, " +
          std::to_string(result.pruned) + " pruned, " +
          (result.skipped ? std::to_string(result.skipped) + " skipped, "
                          : std::string()) +
          formatSeconds(result.seconds) + "\n";
  text += "  " + verificationText(context.verification) + "\n";
  for (const std::string &remark : context.remarks)
    text += "  remark: " + remark + "\n";
  return text;
}

} // namespace dpc::cost
