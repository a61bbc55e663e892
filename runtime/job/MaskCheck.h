//===- MaskCheck.h - whether a loss ignores labels ---*- C++ -*-===//
#pragma once

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"

#include <functional>

namespace dpc {

/// Computes the loss of a step from its inputs. Every call starts from the same
/// values of tensors and has the same step number.
using LossOf =
    std::function<Expected<double>(const std::vector<const void *> &)>;

/// Returns the index of the loss in `plan.outputs`, or -1. In an inference
/// plan, it is `plan.lossOutput`. If that is unknown, and in a training plan,
/// it is the output "loss" of one value. A training plan without this output,
/// which is an imported step, has `plan.lossOutput`. No other output passes for
/// the loss.
int findLoss(const rt::Plan &plan);

/// Returns the loss of the last step of `plan` in all processes.
Expected<double> lossEverywhere(const rt::Plan &plan, rt::Session &session);

/// Checks that the loss of `plan` is the mean over the labels that are not
/// `ignored`. Only then is the loss independent of samples that fill a step.
/// The check refuses a loss that divides by the number of all samples, or that
/// ignores a different value.
///
/// `arrays` are the inputs of a step of n samples, the first `counted` of which
/// count. The check computes three losses:
///   a  with equally many labels in each sample
///   b  with labels only in the samples that count
///   c  with labels only in the other samples
/// For a mean over labels, n * a = counted * b + (n - counted) * c.
Status checkIgnored(const rt::Plan &plan, const rt::IgnoredLabels &ignored,
                    int64_t counted, const std::vector<const void *> &arrays,
                    const LossOf &lossOf);

} // namespace dpc
