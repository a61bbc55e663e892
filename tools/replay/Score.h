//===- Score.h - How far predictions are from measurements ------*- C++ -*-===//
#ifndef DPC_TOOLS_REPLAY_SCORE_H
#define DPC_TOOLS_REPLAY_SCORE_H

#include "cost-model/solve/PeakMemory.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpc::validate {

/// One replayed row; zeros where nothing was published.
struct Prediction {
  std::string id, source, strategy;
  std::string sweep; ///< The same for strategies of one model and cluster.
  double measuredSeconds = 0, predictedSeconds = 0;
  double measuredMemoryBytes = 0;
  /// As the software that ran keeps it, and of the plan's own buffers.
  cost::MemoryBreakdown memory = {}, planMemory = {};
  std::string software = {}; ///< The profile it was predicted with.

  /// predicted / measured - 1.
  double timeError() const { return predictedSeconds / measuredSeconds - 1; }
  double memoryError() const {
    return memory.total() / measuredMemoryBytes - 1;
  }
  double planMemoryError() const {
    return planMemory.total() / measuredMemoryBytes - 1;
  }
};

/// Errors of a number of rows: relative, absolute values.
struct Errors {
  int64_t rows = 0;
  double mean = 0, max = 0;
};

/// What a source comes out as.
struct Score {
  std::string source;
  Errors time, memory, planMemory;
  double rank = 0; ///< Spearman's correlation of seconds; 0 below two rows.
  /// Sweeps of more than three strategies, and those of them whose fastest is
  /// predicted among the first three.
  int64_t sweeps = 0, bestFound = 0;
  /// Of the sweeps those whose own rank correlation is kGoodRank or more, the
  /// least one, and its first row.
  int64_t wellRanked = 0;
  double worstRank = 1;
  std::string worstSweep;
};

/// What ranks of a sweep should agree to.
inline constexpr double kGoodRank = 0.95;

/// Spearman's rank correlation; equal values share the mean of their ranks.
double rankCorrelation(const std::vector<std::pair<double, double>> &pairs);

/// One score per source in the order of their first rows, and that of all rows
/// (`source` "overall") last.
std::vector<Score> scoresOf(const std::vector<Prediction> &predictions);

/// A scatter plot of predicted against measured seconds, both logarithmic, a
/// colour per source, as SVG.
std::string scatterPlot(const std::vector<Prediction> &predictions);

} // namespace dpc::validate

#endif // DPC_TOOLS_REPLAY_SCORE_H
