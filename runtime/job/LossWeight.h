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
  /// of
  /// --ignored-label. Without them, samples count.
  LossWeight(const RunOptions &options, const rt::Plan &plan);

  /// Whether the labels of a step tell what the loss is a mean over: some of
  /// them are ignored, and at least two are not.
  bool canTell(const std::vector<const void *> &arrays) const;
  /// Computes the loss with the first and with the second half of the labels of
  /// a step. Labels count from now on if the loss with all of them is the mean
  /// of these two, weighted by their numbers.
  Status tell(const std::vector<const void *> &arrays,
              const NumbersOf &numbersOf);

  /// Returns the weight of a step of which `samples` samples count.
  int64_t of(const std::vector<const void *> &arrays, int64_t samples) const;
  const char *unit() const { return overLabels ? "labels" : "samples"; }

private:
  /// Returns the positions of the labels that count.
  std::vector<int64_t> counted(const std::vector<const void *> &arrays) const;

  std::optional<size_t> index; ///< of the input with the labels
  rt::Port port;
  int64_t ignored = 0;
  bool overLabels = false;
};

} // namespace dpc
