//===- MaskCheck.h - whether a loss ignores samples --*- C++ -*-===//
#pragma once

#include "runtime/data/DatasetInputs.h"
#include "runtime/exec/Session.h"

#include <functional>
#include <limits>

namespace dpc {

/// What a step computes from the labels that count; NaN if it is unknown.
struct StepNumbers {
  double loss = std::numeric_limits<double>::quiet_NaN();
  /// Depends on all gradients: their norm, or else the loss of a second step,
  /// which follows the update. NaN in inference.
  double gradient = std::numeric_limits<double>::quiet_NaN();
};

/// Computes a step from its inputs. Every call starts from the same values of
/// tensors and has the same step number.
using NumbersOf =
    std::function<Expected<StepNumbers>(const std::vector<const void *> &)>;

/// Returns the index of the loss in `plan.outputs`, or -1. In an inference
/// plan, it is `plan.lossOutput`. If that is unknown, and in a training plan,
/// it is the output "loss" of one value. A training plan without this output,
/// which is an imported step, has `plan.lossOutput`. No other output passes for
/// the loss.
int findLoss(const rt::Plan &plan);

/// Returns the numbers of the last step of `plan` in all processes. The
/// gradient is the output "grad_norm".
Expected<StepNumbers> numbersEverywhere(const rt::Plan &plan,
                                        rt::Session &session);

/// The inputs of a step of n samples. The first `counted` of them count, and
/// all labels of the others are `ignored`.
struct MaskedStep {
  rt::IgnoredLabels ignored;
  int64_t counted = 0;
  std::vector<const void *> arrays;
};

/// Checks that samples that only fill a step change neither the loss of `plan`
/// nor its gradient.
///
/// First, the loss must be the mean over the labels that are not `ignored`. The
/// check computes three losses:
///   a  with equally many labels in each sample
///   b  with labels only in the samples that count
///   c  with labels only in the other samples
/// For a mean over labels, n * a = counted * b + (n - counted) * c. A loss that
/// divides by the number of all samples, or that ignores a different value, is
/// refused.
///
/// Second, nothing else of the other samples may count. The check replaces
/// them, except their labels, by samples that count and by zeros. The numbers
/// must stay the same to a few units in the last place, because a device may
/// change the order of sums. A term that reads activations without labels (the
/// balance loss of experts, statistics of a batch) is refused. The message ends
/// with `remedy`.
Status checkMask(const rt::Plan &plan, const MaskedStep &step,
                 const NumbersOf &numbersOf, const std::string &remedy);

/// Returns the relative error of a mean over `labels` labels in the types of
/// `plan`. Sums may have a different order.
double roundingOf(const rt::Plan &plan, int64_t labels);

/// Returns whether the loss `all` is the mean of the losses of two parts, of
/// which the first has `share` of the labels, up to `rounding`.
bool isMeanOf(double all, double share, double part, double rest,
              double rounding);

} // namespace dpc
