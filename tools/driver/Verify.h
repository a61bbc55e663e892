//===- Verify.h - N ranks against one device --------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_VERIFY_H
#define DPC_TOOLS_DRIVER_VERIFY_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <string>

namespace dpc {

/// A plan with its kernels in `dir`.
struct PlanInFolder {
  const rt::Plan &plan;
  std::string dir;
  /// Relative error of a compressed gradient; 0 without compression.
  double compression = 0;
};

/// The result of a comparison.
struct Verdict {
  /// "" or one line: the first tensor that differs, or the plan that fails.
  std::string why;
  /// The plan may be correct, but one device yields no numbers to compare with.
  bool cannotBeChecked = false;
  int64_t outputs = 0; ///< Compared outputs of all steps.
  int64_t tensors = 0; ///< Compared parameters, buffers and states.
  /// Largest error of an output, relative to its largest element.
  double outputError = 0;
  /// Largest error of an output or a tensor, relative to its tolerance.
  double toleranceShare = 0;
  /// A difference exceeds the default tolerances, but the results of one device
  /// change as much when the last digits of its weights change.
  bool isSensitive = false;

  bool ok() const { return why.empty(); }
};

/// Parameters and buffers by name.
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
///   * state: 2e-4 of its largest element, plus 2e-5 of the largest state of
///     its kind;
///   * parameter: 2e-4 of its largest change, plus the fp32 rounding of the
///     sum. The learning rate is 1. AdamW divides a gradient by its size, so an
///     update may also differ by the relative error of the gradient: by 1 if
///     the first moment is rounding noise (1e-5 of the largest), and by less
///     the larger the first moment is.
/// Folded constants are not compared, because their numbers depend on the
/// layout.
///
/// If a tolerance is exceeded, one device runs three more times from weights
/// that differ in their last digits (by 2e-6, or by the rounding of a narrow
/// type). The tolerance grows by twice the largest resulting change, at most by
/// a tenth of the largest element (of the largest change, for a parameter).
///
/// If gradients are compressed with the relative error c, the tolerances grow
/// by c, 4 c and c / 5, and updates are uncertain if the moment is below 2 c of
/// the largest moment. Such tolerances can only distinguish a rounded sum from
/// a wrong one.
///
/// Residuals of gradients must be zero, so topk is verified with share 1.
///
/// A NaN on one device is an error, because it would match any plan.
Verdict verifyAgainstOneDevice(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const std::string &init,
                               const NamedTensors &given = {});

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_VERIFY_H
