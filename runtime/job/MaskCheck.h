//===- MaskCheck.h - whether a loss ignores samples --*- C++ -*-===//
#pragma once

#include "runtime/data/DatasetInputs.h"
#include "runtime/job/StepOutputs.h"

#include <functional>
#include <limits>

namespace dpc {

/// What a step computes from the labels that count; NaN if it is unknown.
struct StepNumbers {
  double loss = std::numeric_limits<double>::quiet_NaN();
  /// Depends on all gradients: their norm, or else the loss of a second step,
  /// which follows the update. NaN in inference.
  double gradient = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> others = {}; ///< numbersOf() some outputs, or empty
};

/// Computes a step from its inputs. Every call starts from the same values of
/// tensors and has the same step number.
using NumbersOf =
    std::function<Expected<StepNumbers>(const std::vector<const void *> &)>;

/// Returns the numbers of the last step of `plan`, of which `counted` samples
/// count. The gradient is the output "grad_norm" of training. Complete only in
/// the process of rank 0.
StepNumbers numbersHere(const rt::Plan &plan, const rt::Session &session,
                        const std::vector<StepOutput> &others = {},
                        int64_t counted = -1);
/// The same in all processes.
Expected<StepNumbers>
numbersEverywhere(const rt::Plan &plan, rt::Session &session,
                  const std::vector<StepOutput> &others = {},
                  int64_t counted = -1);

/// The inputs of a step of n samples. The first `counted` of them count, and
/// all labels of the others are `ignored`.
struct MaskedStep {
  rt::IgnoredLabels ignored;
  int64_t counted = 0;
  std::vector<const void *> arrays;
};

/// Checks that samples that only fill a step change neither the loss of `plan`
/// nor its gradient. Returns for each of StepNumbers::others, which are the
/// outputs `others`, why they change it, or success.
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
///
/// Another output of one value passes the same two checks. An output with a
/// value per sample passes the second one, with its mean over the samples that
/// count.
Expected<std::vector<Status>>
checkMask(const rt::Plan &plan, const MaskedStep &step,
          const NumbersOf &numbersOf, const std::string &remedy,
          const std::vector<StepOutput> &others = {});

/// Returns the relative error of a mean over `labels` labels in the types of
/// `plan`. Sums may have a different order.
double roundingOf(const rt::Plan &plan, int64_t labels);

/// Returns whether the number `all` is the mean of the numbers of two parts, of
/// which the first has `share` of the labels, up to `rounding`.
bool isMeanOf(double all, double share, double part, double rest,
              double rounding);

} // namespace dpc
