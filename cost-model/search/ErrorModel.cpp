//===- ErrorModel.cpp - Errors of estimates, learned as a field -----------===//
#include "cost-model/search/ErrorModel.h"

#include "runtime/base/Parallel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dpc::cost {

/// Returns the sum of a[i] * b[i] over the elements of `a`, in any order, so
/// that the compiler may use vector instructions.
static double dot(const std::vector<double> &a, const std::vector<double> &b) {
#pragma clang fp reassociate(on)
  double sum = 0;
  for (size_t i = 0, e = a.size(); i < e; ++i)
    sum += a[i] * b[i];
  return sum;
}

double ErrorModel::covariance(const Features &a, const Features &b) const {
#pragma clang fp reassociate(on)
  double distance = 0, product = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += std::abs(a[i] - b[i]);
    product += a[i] * b[i];
  }
  return prior.constant * prior.constant + prior.slope * prior.slope * product +
         prior.local * prior.local * std::exp(-distance);
}

double ErrorModel::append(const Features &features,
                          std::vector<double> &weights) const {
  size_t last = weights.size();
  const std::vector<double> &row = factor[last];
  weights.push_back((covariance(observed[last], features) - dot(weights, row)) /
                    row[last]);
  return weights.back();
}

size_t ErrorModel::addPlace(const Features &features) {
  Place &place = places.emplace_back();
  place.features = features;
  place.variance = covariance(features, features);
  while (place.weights.size() < observed.size()) {
    double weight = append(features, place.weights);
    place.mean += weight * residuals[place.weights.size() - 1];
    place.variance -= weight * weight;
  }
  return places.size() - 1;
}

void ErrorModel::observe(const Features &features, double value) {
  std::vector<double> row;
  row.reserve(observed.size() + 1);
  while (row.size() < observed.size())
    append(features, row);
  double explained = dot(row, row), mean = dot(row, residuals);
  double noise = prior.noise * prior.noise;
  // Rounding must not make the variance smaller than that of the noise.
  double deviation = std::sqrt(
      std::max(noise, covariance(features, features) + noise - explained));
  row.push_back(deviation);
  factor.push_back(std::move(row));
  observed.push_back(features);
  residuals.push_back((value - mean) / deviation);
  constexpr size_t kPlacesAtOnce = 256;
  parallelFor(places.size(), kPlacesAtOnce, [&](size_t i) {
    Place &place = places[i];
    double weight = append(place.features, place.weights);
    place.mean += weight * residuals.back();
    place.variance -= weight * weight;
  });
}

double ErrorModel::deviation(size_t place) const {
  return std::sqrt(std::max(0.0, places[place].variance));
}

static double octaves(int64_t degree) {
  return std::log2(static_cast<double>(degree));
}

Features blockFeatures(const Strategy &strategy) {
  double recompute = strategy.recompute == Recompute::None        ? 0
                     : strategy.recompute == Recompute::Selective ? 1
                                                                  : 2;
  return {octaves(strategy.tp),
          octaves(strategy.cp),
          octaves(strategy.ep),
          octaves(std::max<int64_t>(strategy.microBatch, 1)) / 2,
          recompute,
          strategy.sp ? 0.7 : 0,
          strategy.tp.grid.empty() ? 0.0 : 1.0,
          strategy.cp > 1 && strategy.cpKind == CpKind::Ring ? 0.7 : 0,
          strategy.zero >= 2  ? 0.5 + 0.25 * double(strategy.zero - 1)
          : strategy.zero > 0 ? 0.2
                              : 0,
          strategy.hybridShard > 1 ? 0.5 : 0,
          strategy.pp == 1                    ? 2
          : splitsBackward(strategy.schedule) ? 1
                                              : 0.0,
          strategy.offload == Offload::None         ? 0
          : strategy.offload == Offload::Optimizer  ? 0.7
          : strategy.offload == Offload::Parameters ? 1.2
                                                    : 1.5,
          0,
          0,
          0};
}

Features strategyFeatures(const Strategy &strategy) {
  Features features = blockFeatures(strategy);
  features[12] = octaves(strategy.dp) / 2;
  features[13] = octaves(strategy.pp) / 2;
  features[14] = octaves(strategy.vpp) / 2;
  return features;
}

/// The formulas suit transformers best: for GPT-3 on 1,024 A100s, the
/// logarithms of seconds are within 0.1 of those of the compositions of most
/// blocks. Half of these deviations misses plans of diffusion models, which
/// test/search/losses has.
const ErrorPriors kErrorsOfFormulas = {{0.2, 0.1, 0.08, 0.02},
                                       {0.2, 0.15, 0.15, 0.05}};

/// Communication that hides behind computation of other segments makes single
/// stages up to a fifth faster than their compositions.
const ErrorPriors kErrorsOfCompositions = {{0.06, 0.03, 0.03, 0.003},
                                           {0.06, 0.03, 0.03, 0.01}};

Corrections::Corrections(const ErrorPriors &priors)
    : seconds(priors.seconds), bytes(priors.bytes) {}

size_t Corrections::addPlace(const Features &features) {
  auto [place, isNew] = places.try_emplace(features, places.size());
  if (isNew) {
    seconds.addPlace(features);
    bytes.addPlace(features);
  }
  return place->second;
}

void Corrections::teach(const Lesson &lesson) {
  if ((!lesson.seconds && !lesson.bytes) || lessons++ >= kMostLessons)
    return;
  if (lesson.seconds)
    seconds.observe(lesson.features, *lesson.seconds);
  if (lesson.bytes)
    bytes.observe(lesson.features, *lesson.bytes);
}

double Corrections::secondsFactor(size_t place) const {
  return std::exp(seconds.mean(place));
}

double Corrections::hopefulSecondsFactor(size_t place) const {
  return secondsFactor(place) * std::exp(-secondsDeviation(place));
}

double Corrections::hopefulBytesFactor(size_t place) const {
  return bytesFactor(place) * std::exp(-bytesDeviation(place));
}

double Corrections::bytesFactor(size_t place) const {
  return std::exp(bytes.mean(place));
}

double probabilityBelow(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

double expectedImprovement(double mean, double deviation, double least) {
  constexpr double kFar = 4; // deviations
  double ahead = least - mean;
  if (ahead < -kFar * deviation || deviation <= 0)
    return std::max(0.0, ahead);
  double z = ahead / deviation;
  double density =
      std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi_v<double>);
  return ahead * probabilityBelow(z) + deviation * density;
}

} // namespace dpc::cost
