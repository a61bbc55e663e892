//===- Score.h - Errors of predictions --------------------------*- C++ -*-===//
#pragma once

#include "cost-model/search/PredictionErrors.h"
#include "cost-model/solve/PeakMemory.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpc::validate {

/// One replayed row; unpublished values are 0.
struct Prediction {
  std::string id, source, strategy;
  std::string sweep;
  double measuredSeconds = 0, predictedSeconds = 0;
  double measuredMemoryBytes = 0;
  /// The predicted memory: `memory` has the buffers of the training framework
  /// that was measured, `planMemory` has those of dpc's plan.
  cost::MemoryBreakdown memory = {}, planMemory = {};
  std::string software = {};
  cost::Situation situation = {};

  /// predicted / measured - 1.
  double timeError() const { return predictedSeconds / measuredSeconds - 1; }
  double memoryError() const {
    return memory.total() / measuredMemoryBytes - 1;
  }
  double planMemoryError() const {
    return planMemory.total() / measuredMemoryBytes - 1;
  }
};

struct Errors {
  int64_t rows = 0;
  double mean = 0, max = 0;
};

/// The errors of one source.
struct Score {
  std::string source;
  Errors time, memory, planMemory;
  double rank = 0; ///< Spearman's, of seconds; 0 with one row
  /// The number of sweeps with more than three strategies, and how many of them
  /// have the fastest strategy among the three best predictions.
  int64_t sweeps = 0, bestFound = 0;
  /// The number of sweeps with a rank correlation of at least kGoodRank, the
  /// smallest rank correlation of all sweeps, and the first row of the sweep
  /// that has it.
  int64_t wellRanked = 0;
  double worstRank = 1;
  std::string worstSweep;
};

/// The rank correlation that a sweep should reach.
inline constexpr double kGoodRank = 0.95;

/// Returns Spearman's rank correlation. Equal values get the mean of their
/// ranks.
double rankCorrelation(const std::vector<std::pair<double, double>> &pairs);

/// Returns one score per source, in the order of first rows, and the score of
/// all rows (`source` is "overall").
std::vector<Score> scoresOf(const std::vector<Prediction> &predictions);

/// Returns the errors of times, and of memory as the software keeps it.
std::vector<cost::MeasuredError>
errorsOf(const std::vector<Prediction> &predictions);

/// Draws predicted against measured seconds as SVG, with logarithmic axes and
/// one color per source.
std::string scatterPlot(const std::vector<Prediction> &predictions);

} // namespace dpc::validate
