//===- LossWeight.h - what the loss of a step is a mean over ----*- C++ -*-===//
#pragma once

#include "runtime/job/MaskCheck.h"
#include "runtime/job/RunOptions.h"

#include <optional>

namespace dpc {

/// The weight of a step in a mean of losses: its number of labels that count if
/// the loss is the mean over such labels, otherwise its number of samples. Only
/// then the mean does not depend on how samples are divided into steps.
class LossWeight {
public:
  /// The labels are those that the loss of `plan` ignores by itself, or those
  /// of --ignored-label. Without them, samples count. `plan` must outlive this.
  LossWeight(const RunOptions &options, const rt::Plan &plan);

  /// Whether the labels of a step tell what the loss is a mean over: some of
  /// them are ignored, and at least two are not.
  bool canTell(const std::vector<const void *> &arrays) const;
  /// Computes the loss with two halves of the labels of a step, in several
  /// divisions. Labels count from now on if the loss with all labels is always
  /// the mean of these two, weighted by their numbers. Fails if the loss is not
  /// a mean over samples either: a mean that weighs classes has no such weight.
  /// The message ends with `remedy`. Without one, there is only this step, and
  /// samples count then.
  Status tell(const std::vector<const void *> &arrays,
              const NumbersOf &numbersOf, const std::string &remedy);

  /// Returns the weight of a step of which `samples` samples count.
  int64_t of(const std::vector<const void *> &arrays, int64_t samples) const;
  const char *unit() const { return overLabels ? "labels" : "samples"; }

private:
  const rt::Port &port() const; ///< the input with the labels
  /// Returns the positions whose labels the loss reads, in ascending order. A
  /// loss that shifts its labels does not read the first one of a row.
  std::vector<int64_t> positions() const;
  /// Returns the positions of the labels that count.
  std::vector<int64_t> counted(const rt::HostTensor &labels) const;
  rt::HostTensor varied(const rt::HostTensor &own) const;

  const rt::Plan &plan;
  std::optional<size_t> index; ///< of the input with the labels
  int64_t ignored = 0;
  bool overLabels = false;
};

} // namespace dpc
