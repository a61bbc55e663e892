//===- JobCost.cpp - Time, money and energy of a whole job ----------------===//
#include "cost-model/report/JobCost.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace dpc::cost {

double secondsWithFailures(double work, double interval,
                           const Failures &failures) {
  double mean = failures.between;
  return mean * std::exp(failures.restart / mean) *
         std::expm1((interval + failures.checkpoint) / mean) * work / interval;
}

double bestCheckpointInterval(const Failures &failures) {
  double mean = failures.between;
  // Rises with t, is negative at 0 and positive at M.
  auto slope = [&](double t) {
    return std::expm1(-(t + failures.checkpoint) / mean) + t / mean;
  };
  double low = 0, high = mean;
  for (int i = 0; i < 200 && low < high * (1 - 1e-12); ++i) {
    double middle = (low + high) / 2;
    (slope(middle) < 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Bytes per second that each device writes while all write to shared storage:
/// 2 TB/s sustained from 16,384 GPUs ("The Llama 3 Herd of Models", section
/// 3.3.1).
static constexpr double kStorageBytesPerSecond = 2e12 / 16384;

/// Returns the time in which all ranks together write parameters and
/// optimizer states once.
static double checkpointTime(const ModelTotals &totals, double writers) {
  double bytes = totals.parameterBytes + totals.optimizerBytes;
  return bytes / writers / kStorageBytesPerSecond;
}

static double boardWatts(const Cluster &cluster) {
  double watts = 0;
  for (const NodeGroup &group : cluster.groups) {
    if (group.device.boardWatts <= 0)
      return 0;
    watts += static_cast<double>(group.numDevices()) * group.device.boardWatts;
  }
  return watts;
}

JobCost costOfJob(const JobTerms &terms, const Cluster &cluster,
                  const ModelTotals &totals, double stepSeconds,
                  int64_t ranks) {
  JobCost job;
  job.terms = terms;
  job.devices = cluster.numDevices();
  job.steps = std::ceil(terms.tokens / totals.tokensPerStep());
  job.stepSeconds = job.steps * stepSeconds;
  job.seconds = job.stepSeconds;
  if (totals.training) {
    auto used = static_cast<double>(ranks);
    job.failures = {terms.deviceFailureSeconds / used,
                    terms.checkpointSeconds ? *terms.checkpointSeconds
                                            : checkpointTime(totals, used),
                    terms.restartSeconds};
    job.checkpointInterval = bestCheckpointInterval(job.failures);
    job.seconds = secondsWithFailures(job.stepSeconds, job.checkpointInterval,
                                      job.failures);
  }
  job.joules = boardWatts(cluster) * job.seconds;
  return job;
}

/// The factors of the letters that end a word, the largest first.
using Units = std::array<std::pair<char, double>, 4>;
static constexpr Units kAmounts = {
    {{'T', 1e12}, {'B', 1e9}, {'M', 1e6}, {'K', 1e3}}};
static constexpr Units kDurations = {
    {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

static std::optional<double> parseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool isGood = error == std::errc() && end == text.data() + text.size() &&
                std::isfinite(value) && value > 0;
  return isGood ? std::optional(value) : std::nullopt;
}

static std::optional<double> parseWithUnit(std::string_view word,
                                           const Units &units) {
  for (auto [letter, factor] : units)
    if (word.ends_with(letter)) {
      std::optional<double> value =
          parseNumber(word.substr(0, word.size() - 1));
      return value && std::isfinite(*value * factor)
                 ? std::optional(*value * factor)
                 : std::nullopt;
    }
  return std::nullopt;
}

std::optional<double> parseAmount(const std::string &word) {
  std::optional<double> plain = parseNumber(word);
  return plain ? plain : parseWithUnit(word, kAmounts);
}

std::optional<double> parseDuration(const std::string &word) {
  return parseWithUnit(word, kDurations);
}

} // namespace dpc::cost
