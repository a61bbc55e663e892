//===- PredictionErrors.cpp - Intervals of predictions --------------------===//
#include "cost-model/search/PredictionErrors.h"

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/DataFolder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

namespace dpc::cost {

using nlohmann::json;
using nlohmann::ordered_json;

Situation situationOf(const Cluster &cluster, const ModelTotals &totals,
                      const Strategy &strategy) {
  const Device &device = cluster.slowestDevice(totals.computeType);
  return {.device = device.name,
          .software = cluster.software.name,
          .precision = totals.fp8Flops > 0
                           ? "fp8"
                           : std::string(precisionOf(totals.computeType)),
          .capability = device.computeCapability,
          .ranks = strategy.ranks(),
          .isMixture = totals.experts > 1,
          .trains = totals.training,
          .splitsTensors = strategy.tp > 1,
          .splitsLayers = strategy.pp > 1,
          .splitsSequence = strategy.cp > 1,
          .splitsExperts = strategy.ep > 1,
          .shardsParameters = strategy.zero == 3};
}

static double precisionDistance(const std::string &a, const std::string &b) {
  auto isHalf = [](const std::string &type) {
    return type == "bf16" || type == "fp16";
  };
  return a == b ? 0 : isHalf(a) && isHalf(b) ? 0.2 : 0.8;
}

static double deviceDistance(const Situation &a, const Situation &b) {
  constexpr int64_t kPerGeneration = 10; // 90: Hopper, 100 and 103: Blackwell
  return a.device == b.device                                             ? 0
         : a.capability / kPerGeneration == b.capability / kPerGeneration ? 0.4
                                                                          : 2.0;
}

double distanceOf(const Situation &a, const Situation &b) {
  auto differs = [](const auto &left, const auto &right, double distance) {
    return left == right ? 0 : distance;
  };
  return deviceDistance(a, b) + precisionDistance(a.precision, b.precision) +
         differs(a.software, b.software, 0.8) +
         differs(a.isMixture, b.isMixture, 1.6) +
         differs(a.trains, b.trains, 1.6) +
         differs(a.splitsSequence, b.splitsSequence, 0.8) +
         differs(a.splitsTensors, b.splitsTensors, 0.4) +
         differs(a.splitsLayers, b.splitsLayers, 0.4) +
         differs(a.splitsExperts, b.splitsExperts, 0.4) +
         differs(a.shardsParameters, b.shardsParameters, 0.4) +
         0.08 * std::abs(std::log2(static_cast<double>(a.ranks) /
                                   static_cast<double>(b.ranks)));
}

/// The weight of unseen sources.
static constexpr double kUnseen = 0.3;

ErrorDistribution::ErrorDistribution(const std::vector<MeasuredError> &errors,
                                     Quantity quantity) {
  std::map<std::string, size_t> places;
  for (const MeasuredError &error : errors) {
    auto value = quantity == Quantity::Time ? error.time : error.memory;
    if (!value)
      continue;
    auto [place, isNew] = places.try_emplace(error.source, sources.size());
    if (isNew)
      sources.emplace_back();
    sources[place->second].runs.push_back({error.situation, *value});
  }
  for (Source &source : sources) {
    auto count = static_cast<double>(source.runs.size());
    double mean = 0;
    for (const Run &run : source.runs) {
      mean += run.error / count;
      source.meanSquare += run.error * run.error / count;
    }
    source.variance = std::max(0.0, source.meanSquare - mean * mean);
  }
  calibrate();
}

void ErrorDistribution::calibrate() {
  quantile = 0;
  if (sources.size() < 2)
    return;
  std::vector<std::pair<double, double>> scores; // and their weights
  double weights = 0;
  for (const Source &source : sources)
    for (const Run &run : source.runs) {
      Moments at = momentsAt(run.situation, &source);
      double weight = 1 / std::sqrt(static_cast<double>(source.runs.size()));
      scores.emplace_back(std::abs(run.error - at.mean) / at.deviation, weight);
      weights += weight;
    }
  std::ranges::sort(scores);
  double below = 0;
  for (auto [score, weight] : scores) {
    below += weight;
    quantile = score;
    if (below >= kIntervalShare * weights)
      break;
  }
}

ErrorDistribution::Moments
ErrorDistribution::momentsAt(const Situation &situation,
                             const Source *leftOut) const {
  struct Part {
    double weight, mean, variance;
  };
  std::vector<Part> parts;
  double weights = 0, sum = 0, unseen = 0, spread = 0;
  for (const Source &source : sources) {
    if (&source == leftOut)
      continue;
    double all = 0, most = 0, first = 0, second = 0;
    for (const Run &run : source.runs) {
      double weight = std::exp(-distanceOf(situation, run.situation));
      most = std::max(most, weight);
      all += weight;
      first += weight * run.error;
      second += weight * run.error * run.error;
    }
    double mean = first / all;
    parts.push_back({most, mean, std::max(0.0, second / all - mean * mean)});
    weights += most;
    sum += most * mean;
    unseen += source.meanSquare;
    spread += source.variance;
  }
  unseen /= static_cast<double>(parts.size());
  spread /= static_cast<double>(parts.size());
  double total = weights + kUnseen, mean = sum / total;
  double between = kUnseen * unseen, within = kUnseen * spread;
  for (const Part &part : parts) {
    between +=
        part.weight * ((part.mean - mean) * (part.mean - mean) + part.variance);
    within += part.weight * part.variance;
  }
  return {mean, std::sqrt(between / total * (1 + 1 / total)),
          std::sqrt(within / total)};
}

ErrorInterval ErrorDistribution::intervalAt(const Situation &situation) const {
  if (!isKnown())
    return {};
  Moments at = momentsAt(situation, nullptr);
  double half = quantile * at.deviation;
  return {std::exp(at.mean - half), std::exp(at.mean + half), at.withinSource};
}

Coverage ErrorDistribution::leaveSourcesOut() const {
  Coverage coverage;
  double widths = 0;
  for (size_t i = 0; i < sources.size() && sources.size() > 2; ++i) {
    ErrorDistribution others = *this;
    others.sources.erase(others.sources.begin() + static_cast<int64_t>(i));
    others.calibrate();
    for (const Run &run : sources[i].runs) {
      ErrorInterval interval = others.intervalAt(run.situation);
      double factor = std::exp(run.error);
      ++coverage.rows;
      coverage.inside += factor >= interval.low && factor <= interval.high;
      widths += std::log(interval.high / interval.low);
    }
  }
  if (coverage.rows > 0)
    coverage.width = std::exp(widths / static_cast<double>(coverage.rows));
  return coverage;
}

double chanceOfFirst(const std::vector<double> &seconds, double deviation) {
  if (seconds.size() < 2)
    return 1;
  if (deviation <= 0)
    return std::ranges::min(seconds) < seconds.front() ? 0 : 1;
  constexpr double kEnd = 8; // standard deviations
  constexpr int kPoints = 1600;
  double chance = 0, step = 2 * kEnd / kPoints;
  for (int i = 0; i < kPoints; ++i) {
    double error = -kEnd + (i + 0.5) * step;
    double density =
        std::exp(-error * error / 2) / std::sqrt(2 * std::numbers::pi) * step;
    for (size_t k = 1; k < seconds.size(); ++k) {
      double ahead = std::log(seconds[k] / seconds.front()) / deviation;
      density *= std::erfc((error - ahead) / std::numbers::sqrt2) / 2;
    }
    chance += density;
  }
  return chance;
}

std::vector<MeasuredError> thinned(const std::vector<MeasuredError> &errors,
                                   size_t most) {
  std::map<std::string, size_t> counts, seen;
  for (const MeasuredError &error : errors)
    ++counts[error.source];
  std::vector<MeasuredError> kept;
  for (const MeasuredError &error : errors) {
    size_t index = seen[error.source]++, count = counts[error.source];
    // Of `count` runs, those where index * most / count rises.
    if (count <= most || index == 0 ||
        index * most / count != (index - 1) * most / count)
      kept.push_back(error);
  }
  return kept;
}

/// The columns of a row of runs.json.
static constexpr const char *kColumns[] = {
    "source", "device",  "capability", "software",  "precision",
    "ranks",  "mixture", "tp",         "pp",        "cp",
    "ep",     "zero3",   "log_time",   "log_memory"};

static double rounded(double value) { return std::round(value * 1e4) / 1e4; }

ordered_json errorsToJson(const std::vector<MeasuredError> &errors) {
  ordered_json rows = ordered_json::array();
  auto number = [](const std::optional<double> &value) {
    return value ? ordered_json(rounded(*value)) : ordered_json();
  };
  for (const MeasuredError &error : errors) {
    const Situation &at = error.situation;
    rows.push_back({error.source, at.device, at.capability, at.software,
                    at.precision, at.ranks, at.isMixture, at.splitsTensors,
                    at.splitsLayers, at.splitsSequence, at.splitsExperts,
                    at.shardsParameters, number(error.time),
                    number(error.memory)});
  }
  return {{"version", 1}, {"columns", kColumns}, {"rows", std::move(rows)}};
}

Expected<std::vector<MeasuredError>> errorsFromJson(const json &root,
                                                    const std::string &file) {
  std::vector<MeasuredError> errors;
  auto number = [](const json &value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
  };
  try {
    if (root.at("version") != 1 || root.at("columns") != json(kColumns))
      return Error{file + ": not a table of errors that this version wrote; "
                          "write it again with dpc-validate --errors"};
    for (const json &row : root.at("rows"))
      errors.push_back({row.at(0),
                        {.device = row.at(1),
                         .software = row.at(3),
                         .precision = row.at(4),
                         .capability = row.at(2),
                         .ranks = std::max<int64_t>(1, row.at(5)),
                         .isMixture = row.at(6),
                         .splitsTensors = row.at(7),
                         .splitsLayers = row.at(8),
                         .splitsSequence = row.at(9),
                         .splitsExperts = row.at(10),
                         .shardsParameters = row.at(11)},
                        number(row.at(12)),
                        number(row.at(13))});
  } catch (const json::exception &error) {
    return Error{file + ": row " + std::to_string(errors.size() + 1) + ": " +
                 error.what()};
  }
  return errors;
}

Expected<std::vector<MeasuredError>> loadMeasuredErrors() {
  static constexpr DataFolder measured{"measured errors", "DPC_MEASURED_DIR",
                                       DPC_MEASURED_DIR};
  auto file = measured.read("runs");
  if (!file)
    return Error{file.message()};
  return errorsFromJson(file->second, file->first);
}

} // namespace dpc::cost
