//===- Evaluation.h - inference over a dataset ------------------*- C++ -*-===//
#pragma once

#include "runtime/io/Npy.h"
#include "runtime/plan/Plan.h"

#include <memory>
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
  Status add(const std::vector<rt::HostTensor> &outputs, int64_t counted);
  Status finish();

private:
  struct Writer {
    size_t output = 0; ///< in Plan::outputs
    rt::NpyWriter file;
  };

  const rt::Plan &plan;
  std::vector<Writer> writers;
};

} // namespace dpc
