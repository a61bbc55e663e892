//===- ErrorModel.h - Errors of estimates, learned as a field ---*- C++ -*-===//
//
// Private to the search. The error of an estimate is a Gaussian process over
// the coordinates of strategies: a constant, a slope in each coordinate, and
// deviations that similar strategies share (universal kriging; Rasmussen and
// Williams, Gaussian Processes for Machine Learning, 2006, sections 2.2 and
// 2.7). Each observation updates the mean and the variance of all places.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/strategy/Strategy.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace dpc::cost {

/// Similar strategies have similar coordinates. They are scaled so that a
/// difference of 1 in a coordinate changes the error of the formulas a lot.
using Features = std::array<double, 15>;

/// Returns the coordinates of what a block of strategies has in common
/// (BlockSearch.h).
Features blockFeatures(const Strategy &strategy);
/// Returns these, and those of the degrees that differ within a block.
Features strategyFeatures(const Strategy &strategy);

/// Standard deviations of the parts of an error, without observations.
struct ErrorPrior {
  double constant;
  double slope; ///< per unit of each coordinate
  double local; ///< shared by strategies closer than about 1
  double noise; ///< of one observation
};

/// The error at each of a list of places.
class ErrorModel {
public:
  explicit ErrorModel(const ErrorPrior &prior) : prior(prior) {}

  /// Returns the number of the place.
  size_t addPlace(const Features &features);
  /// Learns that the error at `features` is `value`.
  void observe(const Features &features, double value);

  double mean(size_t place) const { return places[place].mean; }
  double deviation(size_t place) const;

private:
  struct Place {
    Features features{};
    double mean = 0, variance = 0;
    /// L^-1 k, where L L^T is the covariance of the observations and k their
    /// covariance with the place.
    std::vector<double> weights;
  };

  double covariance(const Features &a, const Features &b) const;
  /// Appends the last element of L^-1 k for the last row of `factor`.
  double append(const Features &features, std::vector<double> &weights) const;

  ErrorPrior prior;
  std::vector<Place> places;
  std::vector<Features> observed;
  std::vector<std::vector<double>> factor; ///< rows of L
  std::vector<double> residuals;           ///< L^-1 of the observed values
};

/// Of errors in seconds and in bytes.
struct ErrorPriors {
  ErrorPrior seconds, bytes;
};
/// Of evaluation / estimate by formula (FormulaEstimate.h).
extern const ErrorPriors kErrorsOfFormulas;
/// Of exact / composed evaluation (Evaluation::isComposed).
extern const ErrorPriors kErrorsOfCompositions;

/// The logarithm of evaluation / estimate for one strategy.
struct Lesson {
  Features features{};
  std::optional<double> seconds, bytes;
};

/// The errors of the estimates of the seconds of a step and of the bytes. Of
/// formulas, the bytes are those that are neither weights nor optimizer states.
class Corrections {
public:
  explicit Corrections(const ErrorPriors &priors);
  static constexpr size_t kMostLessons = 256;

  /// Returns the number of the place, which equal features share.
  size_t addPlace(const Features &features);
  /// Learns from the first kMostLessons only. The time of a lesson and the
  /// memory of each place grow with the number of lessons.
  void teach(const Lesson &lesson);

  /// Factors of the estimates at a place, and the deviations of their
  /// logarithms.
  double secondsFactor(size_t place) const;
  double bytesFactor(size_t place) const;
  /// These factors, divided by exp(deviation): they are small where little is
  /// known.
  double hopefulSecondsFactor(size_t place) const;
  double hopefulBytesFactor(size_t place) const;
  double secondsDeviation(size_t place) const {
    return seconds.deviation(place);
  }
  double bytesDeviation(size_t place) const { return bytes.deviation(place); }

private:
  ErrorModel seconds, bytes;
  size_t lessons = 0;
  std::map<Features, size_t> places;
};

/// Returns the probability that a normal variable is below `z` deviations.
double probabilityBelow(double z);

/// Returns how much a normal variable is expected to fall below `least`, where
/// values above it count as 0 (Jones et al., Efficient Global Optimization of
/// Expensive Black-Box Functions, 1998, equation 15).
double expectedImprovement(double mean, double deviation, double least);

} // namespace dpc::cost
