//===- Evaluation.h - inference over a dataset ------------------*- C++ -*-===//
#pragma once

#include "runtime/io/Npy.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <optional>
#include <string>

namespace dpc {

/// Checks that the outputs can be written for exactly `samples` samples.
/// Refuses an output with one value per step if repeated samples fill a step.
Status checkEvaluation(const rt::Plan &plan, int64_t samples);

/// Writes the outputs of an inference plan. Outputs with one value per sample
/// omit samples that only fill a step. Other outputs have one value per step.
class Evaluation {
public:
  explicit Evaluation(const rt::Plan &plan) : plan(plan) {}

  /// Creates DIR/NAME.npy for every output, or no files if `dir` is "".
  Status start(const std::string &dir, int64_t samples, int64_t steps);
  /// Appends the outputs of a step, whose first `counted` samples count.
  /// `weight` is that of its loss (LossWeight.h).
  Status add(const std::vector<rt::HostTensor> &outputs, int64_t counted,
             int64_t weight);
  Status finish();

  /// The sum of the weights of all steps.
  int64_t weight() const { return weights; }
  /// The weighted mean of the losses of all steps.
  std::optional<double> meanLoss() const;

private:
  const rt::Plan &plan;
  std::vector<rt::NpyWriter> writers;
  int64_t weights = 0;
  double lossSum = 0;
  bool hasLoss = false;
};

} // namespace dpc
