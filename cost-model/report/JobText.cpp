//===- JobText.cpp - The cost of a job as text and JSON -------------------===//
#include "cost-model/report/JobCost.h"
#include "cost-model/report/Report.h"
#include "cost-model/report/ReportTable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace dpc::cost {

using nlohmann::ordered_json;

static std::string threeDigits(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, value >= 999.5 ? "%.0f" : "%.3g", value);
  return buffer;
}

std::string formatDuration(double seconds) {
  constexpr std::pair<const char *, double> kUnits[] = {
      {" days", 86400}, {" h", 3600}, {" min", 60}};
  for (auto [unit, factor] : kUnits)
    if (seconds >= factor)
      return threeDigits(seconds / factor) + unit;
  return threeDigits(seconds) + " s";
}

std::string formatAmount(double amount) {
  constexpr std::pair<char, double> kUnits[] = {
      {'T', 1e12}, {'B', 1e9}, {'M', 1e6}, {'K', 1e3}};
  for (auto [unit, factor] : kUnits)
    if (amount >= factor)
      return threeDigits(amount / factor) + unit;
  return threeDigits(amount);
}

static std::string energyText(double joules) {
  double kilowattHours = joules / 3.6e6;
  return kilowattHours >= 1e6   ? threeDigits(kilowattHours / 1e6) + " GWh"
         : kilowattHours >= 1e3 ? threeDigits(kilowattHours / 1e3) + " MWh"
                                : threeDigits(kilowattHours) + " kWh";
}

/// " (90 % interval: 36.1 days to 52.3 days)", or "" if the error is unknown.
static std::string rangeText(const JobCost &job) {
  return job.error.low == job.error.high
             ? ""
             : " (90 % interval: " +
                   formatDuration(job.error.low * job.seconds) + " to " +
                   formatDuration(job.error.high * job.seconds) + ")";
}

/// "1 device", "8 devices"
static std::string counted(int64_t count, const std::string &what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string jobText(const JobCost &job, std::string_view unit) {
  std::string text = "job of " + formatAmount(job.terms.tokens) + " " +
                     std::string(unit) + ": ";
  if (!std::isfinite(job.seconds))
    return text + "never ends on " + counted(job.devices, "device") +
           ", because a failure ends the steps every " +
           formatDuration(job.failures.between);
  text += formatDuration(job.seconds) + rangeText(job) + " on " +
          counted(job.devices, "device") + ", " +
          formatAmount(job.deviceHours()) + " device-hours";
  if (job.terms.pricePerHour)
    text += ", price " + formatAmount(job.price());
  if (job.joules > 0)
    text += ", at most " + energyText(job.joules) + " for the devices";
  if (job.checkpointInterval <= 0)
    return text;
  char goodput[32];
  std::snprintf(goodput, sizeof goodput, "%.1f %%", 100 * job.goodput());
  return text + "; goodput " + goodput + ": a failure every " +
         formatDuration(job.failures.between) + ", a restart takes " +
         formatDuration(job.failures.restart) + ", a checkpoint of " +
         formatDuration(job.failures.checkpoint) + " after every " +
         formatDuration(job.checkpointInterval);
}

std::string deadlineText(const DeadlineAnswer &answer) {
  std::string text = "within " + formatDuration(answer.seconds) + ": ";
  if (!answer.why.empty())
    return text + answer.why;
  const ClusterAnswer &cluster = answer.cluster;
  return text + counted(cluster.nodes, "node") + " (" +
         counted(cluster.devices, "device") + "), " +
         formatDuration(cluster.job->seconds) + rangeText(*cluster.job) + ", " +
         formatAmount(cluster.job->deviceHours()) + " device-hours" +
         (cluster.job->terms.pricePerHour
              ? ", price " + formatAmount(cluster.job->price())
              : "") +
         ", " + stringifyStrategy(cluster.plan.strategy, cluster.devices);
}

ordered_json jobToJson(const JobCost &job) {
  ordered_json json = {{"tokens", job.terms.tokens},
                       {"devices", job.devices},
                       {"steps", job.steps},
                       {"step_seconds", job.stepSeconds}};
  if (std::isfinite(job.seconds)) {
    json["seconds"] = job.seconds;
    if (job.error.low < job.error.high)
      json["seconds_interval"] = {job.error.low * job.seconds,
                                  job.error.high * job.seconds};
    json["goodput"] = job.goodput();
    json["device_hours"] = job.deviceHours();
    if (job.terms.pricePerHour)
      json["price"] = job.price();
    if (job.joules > 0)
      json["joules_at_most"] = job.joules;
  }
  if (job.checkpointInterval > 0)
    json.update(
        ordered_json{{"seconds_between_failures", job.failures.between},
                     {"restart_seconds", job.failures.restart},
                     {"checkpoint_seconds", job.failures.checkpoint},
                     {"checkpoint_interval_seconds", job.checkpointInterval}});
  return json;
}

ordered_json clusterAnswerToJson(const ClusterAnswer &answer) {
  ordered_json json = whatIfToJson(answer.plan);
  json["cluster"] = json["change"];
  json.erase("change");
  json["nodes"] = answer.nodes;
  json["devices"] = answer.devices;
  if (answer.job)
    json["job"] = jobToJson(*answer.job);
  return json;
}

ordered_json deadlineToJson(const DeadlineAnswer &answer) {
  ordered_json json = {{"deadline_seconds", answer.seconds}};
  if (answer.why.empty())
    json.update(clusterAnswerToJson(answer.cluster));
  else
    json["why"] = answer.why;
  return json;
}

namespace {

/// The cells of a line without the plan, which follows them.
using Cells = std::array<std::string, 7>;

} // namespace

static Cells cellsOf(const ClusterAnswer &answer) {
  const WhatIf &plan = answer.plan;
  Cells cells = {plan.change, std::to_string(answer.devices)};
  if (!plan.why.empty())
    return cells;
  cells[2] = formatSeconds(plan.stepSeconds);
  cells[3] = formatAmount(plan.tokensPerSecond);
  if (!answer.job)
    return cells;
  cells[4] = formatDuration(answer.job->seconds);
  cells[5] = formatAmount(answer.job->deviceHours());
  if (answer.job->terms.pricePerHour)
    cells[6] = formatAmount(answer.job->price());
  return cells;
}

/// Joins the cells of the columns that are not empty.
static std::string lineOf(const Cells &cells,
                          const std::array<size_t, 7> &widths) {
  std::string line = "   ";
  for (size_t i = 0; i < cells.size(); ++i)
    if (widths[i] > 0)
      line += (i == 0 ? " " : "  ") + pad(cells[i], widths[i], i > 0);
  return line;
}

Block clustersBlock(const std::vector<ClusterAnswer> &answers,
                    std::string_view unit, const TextForm &form) {
  if (answers.empty())
    return {};
  std::vector<Cells> rows;
  std::array<size_t, 7> widths{};
  for (const ClusterAnswer &answer : answers) {
    rows.push_back(cellsOf(answer));
    for (size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], rows.back()[i].size());
  }
  Cells header = {"",    "devices",      "step", std::string(unit) + "/s",
                  "job", "device-hours", "price"};
  for (size_t i = 0; i < widths.size(); ++i)
    if (widths[i] > 0)
      widths[i] = std::max(widths[i], header[i].size());
  Block block{{{"  clusters", LineStyle::strong}}, {}, " more: report.html"};
  append(block.title, wrapLines(lineOf(header, widths), form));
  for (size_t i = 0; i < rows.size(); ++i) {
    const WhatIf &plan = answers[i].plan;
    block.items.push_back(wrapLines(
        lineOf(rows[i], widths) + "  " +
            (plan.why.empty()
                 ? stringifyStrategy(plan.strategy, answers[i].devices)
                 : plan.why),
        form, 8));
  }
  return block;
}

} // namespace dpc::cost
