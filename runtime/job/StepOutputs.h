//===- StepOutputs.h - the outputs that a run reports -----------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"

namespace dpc {

/// An output of a plan that is one number of a step: its only value, or the
/// mean of its values if it has one per sample. Training and evaluation report
/// the same outputs.
struct StepOutput {
  size_t index = 0; ///< in Plan::outputs
  bool isPerSample = false;

  /// The first `counted` samples count, or all if it is -1.
  double numberOf(const rt::HostTensor &value, int64_t counted) const;
};

/// Returns the index of the loss in `plan.outputs`, or -1. In an inference
/// plan, it is `plan.lossOutput`. If that is unknown, and in a training plan,
/// it is the output "loss" of one value. A training plan without this output,
/// which is an imported step, has `plan.lossOutput`. No other output passes for
/// the loss.
int findLoss(const rt::Plan &plan);

/// Returns whether `output` is a number that a training step has besides the
/// outputs of its model: the gradient norm, the loss scale, a skipped update.
bool isOfUpdate(const rt::Plan &plan, const rt::Port &output);

/// Returns whether the model returns `output`.
bool isOfModel(const rt::Plan &plan, const rt::Port &output);

/// Returns the outputs of `plan` that are one number, other than the loss and
/// those of the update.
std::vector<StepOutput> stepOutputs(const rt::Plan &plan);

/// Returns the numbers of `outputs` in the last step of `session`, of which
/// `counted` samples count. Complete only in the process of rank 0.
std::vector<double> numbersOf(const std::vector<StepOutput> &outputs,
                              const rt::Session &session, int64_t counted);

} // namespace dpc
