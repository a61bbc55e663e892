//===- Verify.h - N ranks against one device --------------------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <string>

namespace dpc {

struct PlanInFolder {
  const rt::Plan &plan;
  std::string dir;
  /// The relative error of compressed gradients.
  double compression = 0;
};

struct Verdict {
  /// "" or one line: the first tensor that differs, or the plan that fails.
  std::string why;
  /// One device yields no numbers to compare with, so the plan may still be
  /// correct.
  bool cannotBeChecked = false;
  int64_t outputs = 0;
  int64_t tensors = 0; ///< compared parameters, buffers and states
  /// Largest error of an output, relative to its largest element.
  double outputError = 0;
  /// Largest error of an output or a tensor, relative to its tolerance.
  double toleranceShare = 0;
  /// A difference exceeds the default tolerances, but small changes of the
  /// weights have a similar effect on one device.
  bool isSensitive = false;

  bool ok() const { return why.empty(); }
};

using NamedTensors = std::map<std::string, rt::HostTensor>;

/// Runs both plans in this process from the same weights and random inputs,
/// with NaN in all padding. Compares each output and each tensor after one
/// step, and the outputs of a second step.
///
/// Each weight comes from `given`, else from the model, else from `init`.
///
/// Tolerances for GEMMs in fp32 (larger by 150 to 1000 in bf16, by 20 to 100 in
/// fp16, and by 2000 if either plan has fp8; see Verify.cpp):
///   * output: 2e-4 of its largest element, plus 1e-6;
///   * state: 2e-4 of its largest element, plus 2e-5 of the largest element of
///     all states in its slot (exp_avg, ..);
///   * parameter: 2e-4 of its largest change, plus the fp32 rounding of the
///     sum. The learning rate is 1. AdamW divides a gradient by its size, so an
///     update may also differ by the relative error of the gradient: by 1 if
///     the first moment is rounding noise (1e-5 of the largest moment), and by
///     less if the first moment is larger.
/// Folded constants are not compared, because their numbers depend on the
/// layout.
///
/// If a tolerance is exceeded, one device runs three more times from weights
/// that differ in their last digits (by 2e-6, or by the rounding of a narrow
/// type). The tolerance grows by twice the largest difference between these
/// runs, but at most by a tenth of the largest element (for a parameter, a
/// tenth of the largest change).
///
/// If compressed gradients have the relative error c, the tolerances grow by c,
/// 4 c and c / 5, and an update may differ by 1 if the moment is below 2 c
/// times the largest moment. With these tolerances, only wrong sums are
/// detected.
///
/// Residuals must be zero, so topk is verified as topk:1.
///
/// A NaN on one device is an error, because it would match any plan.
Verdict verifyAgainstOneDevice(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const std::string &init,
                               const NamedTensors &given = {});

} // namespace dpc
