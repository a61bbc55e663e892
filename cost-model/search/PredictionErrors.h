//===- PredictionErrors.h - Intervals of predictions ------------*- C++ -*-===//
//
// How far a prediction may be off follows from measured runs that dpc-validate
// replayed. The error of a run is r = log(measured / predicted). The runs of a
// source (a paper, a table of a framework) share hardware, software and methods
// of measurement, so a new source has an offset of its own, which the runs of
// other sources bound. The distribution at a situation x is that of a
// random-effects model with local weights:
//
//   w_i  = exp(-d(x, x_i)), for each run; d is distanceOf
//   m_s, v_s: the weighted mean and variance of the errors of source s
//   w_s  = max w_i over the runs of source s
//   mean     = sum w_s m_s / (k + sum w_s)
//   variance = (sum w_s ((m_s - mean)^2 + v_s) + k p) / (k + sum w_s)
//              x (1 + 1 / (k + sum w_s))
//
// p, the variance that k = 0.3 unseen sources have, is the mean square of the
// errors with equal weights of sources. Where nothing near was measured, the
// weights vanish, and the interval is as wide as the errors of an unseen
// source.
//
// The interval is mean +- q sqrt(variance). q is the conformal quantile (J. Lei
// et al., "Distribution-Free Predictive Inference for Regression", JASA 113,
// 2018, section 5.2) of |r - mean| / sqrt(variance) of runs whose sources were
// left out. A source of n runs weighs as sqrt(n) sources of one run.
//
// The scale of distanceOf, its distance of generations and k have the largest
// likelihood of sources that were left out, on a coarse grid; the other
// distances are judged.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/Evaluation.h"

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace dpc::cost {

struct Cluster;

/// The properties of a run that make its error like that of another run.
struct Situation {
  std::string device, software, precision;
  int64_t capability = 0; ///< Device::computeCapability.
  int64_t ranks = 1;
  bool isMixture = false; ///< Of experts.
  bool trains = true;
  bool splitsTensors = false, splitsLayers = false, splitsSequence = false,
       splitsExperts = false, shardsParameters = false;
};

Situation situationOf(const Cluster &cluster, const ModelTotals &totals,
                      const Strategy &strategy);

/// Returns 0 for equal situations.
double distanceOf(const Situation &a, const Situation &b);

/// A run that was measured. The errors are log(measured / predicted).
struct MeasuredError {
  std::string source;
  Situation situation;
  std::optional<double> time, memory;
};

enum class Quantity { Time, Memory };

/// Factors of a prediction.
struct ErrorInterval {
  double low = 1, high = 1;
  /// The standard deviation of the logarithms of errors of runs in one source.
  double withinSource = 0;
};

/// How many runs are in the intervals that all other sources give.
struct Coverage {
  int64_t rows = 0, inside = 0;
  /// The geometric mean of high / low.
  double width = 1;

  double share() const {
    return rows ? static_cast<double>(inside) / static_cast<double>(rows) : 0;
  }
};

/// The share of runs that intervals contain.
inline constexpr double kIntervalShare = 0.9;

/// The errors of times, or of memory.
class ErrorDistribution {
public:
  /// Needs runs of at least two sources; otherwise, isKnown is false.
  ErrorDistribution(const std::vector<MeasuredError> &errors,
                    Quantity quantity);

  bool isKnown() const { return quantile > 0; }
  ErrorInterval intervalAt(const Situation &situation) const;
  Coverage leaveSourcesOut() const;

private:
  struct Run {
    Situation situation;
    double error;
  };
  struct Source {
    std::vector<Run> runs;
    double meanSquare = 0, variance = 0; ///< Of the errors.
  };
  struct Moments {
    double mean = 0, deviation = 0, withinSource = 0;
  };
  std::vector<Source> sources;
  double quantile = 0;

  /// Sets `quantile`.
  void calibrate();
  Moments momentsAt(const Situation &situation, const Source *leftOut) const;
};

/// Returns the probability that a plan of `seconds.front()` is the fastest, if
/// the logarithms of all predictions have independent normal errors with this
/// standard deviation.
double chanceOfFirst(const std::vector<double> &seconds, double deviation);

/// Returns at most `most` runs of each source, evenly spaced.
std::vector<MeasuredError> thinned(const std::vector<MeasuredError> &errors,
                                   size_t most);

nlohmann::ordered_json errorsToJson(const std::vector<MeasuredError> &errors);
/// Errors begin with `file`.
Expected<std::vector<MeasuredError>> errorsFromJson(const nlohmann::json &json,
                                                    const std::string &file);

/// Reads runs.json in the folder of measured errors. The environment variable
/// DPC_MEASURED_DIR replaces this folder (DataFolder.h).
Expected<std::vector<MeasuredError>> loadMeasuredErrors();

} // namespace dpc::cost
