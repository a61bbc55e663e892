//===- Evaluation.h - what a plan infers of a dataset -----------*- C++ -*-===//
#ifndef DPC_RUNTIME_JOB_EVALUATION_H
#define DPC_RUNTIME_JOB_EVALUATION_H

#include "runtime/io/Npy.h"
#include "runtime/plan/Plan.h"

#include <memory>
#include <optional>
#include <string>

namespace dpc {

/// Whether all of `samples` can be evaluated: outputs that are one value for a
/// whole step would count what only fills up the last one.
Status checkEvaluation(const rt::Plan &plan, int64_t samples);

/// Puts together what the steps of an inference plan give for the samples of a
/// dataset: of outputs with a value per sample exactly the samples' values, of
/// others a value for each step.
class Evaluation {
public:
  explicit Evaluation(const rt::Plan &plan) : plan(plan) {}

  /// Starts DIR/NAME.npy for every output; "": no files.
  Status start(const std::string &dir, int64_t samples, int64_t steps);
  /// A step's outputs, of which the first `counted` samples count.
  Status add(const std::vector<rt::HostTensor> &outputs, int64_t counted);
  Status finish();

  int64_t samples() const { return counted; }
  /// Of the output 'loss', each step weighing the same; checkEvaluation() has
  /// seen that all are full.
  std::optional<double> meanLoss() const;

private:
  bool hasSamples(const rt::Port &output) const;

  const rt::Plan &plan;
  std::vector<rt::NpyWriter> writers; ///< one for each output, or none
  int64_t counted = 0;
  double lossSum = 0;
  bool hasLoss = false;
};

} // namespace dpc

#endif // DPC_RUNTIME_JOB_EVALUATION_H
