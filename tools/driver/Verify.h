//===- Verify.h - N ranks against one device --------------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_VERIFY_H
#define DPC_TOOLS_DRIVER_VERIFY_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <string>

namespace dpc {

/// A plan whose kernels lie in `dir`.
struct PlanInFolder {
  const rt::Plan &plan;
  std::string dir;
  /// Of a gradient, relative to the largest near it, when it is compressed.
  double compression = 0;
};

/// What a comparison found.
struct Verdict {
  /// "" or one line: the first tensor that differs, or what cannot be run.
  std::string why;
  /// Nothing was learned about the plan: one device yields no numbers either.
  bool cannotBeChecked = false;
  int64_t outputs = 0; ///< Outputs of all steps that were compared.
  int64_t tensors = 0; ///< Parameters, buffers and states.
  /// Largest error of an output, relative to its largest element.
  double outputError = 0;
  /// Largest error of an output or a tensor, relative to its tolerance.
  double toleranceShare = 0;
  /// Something differs by more than the usual tolerances, but by no more than
  /// the model on one device magnifies a change of its weights' last digits.
  bool isSensitive = false;

  bool ok() const { return why.empty(); }
};

/// Parameters and buffers by name.
using NamedTensors = std::map<std::string, rt::HostTensor>;

/// Trains (or infers) with both plans in this process, from the same weights
/// and the same random inputs, with NaN in all padding. Compares every output
/// and every tensor after one step, and the outputs of a second one. The line
/// says which tensor differs first, and by how much.
///
/// Weights are `given` ones, else those of the model, else as `init` says.
///
/// Tolerances, for products in fp32 (in bf16 150 to 1000 and in fp16 20 to 100
/// times as much, in fp8 of either plan 2000, see Verify.cpp): of an output
/// 2e-4 of its largest element and 1e-6; of a state 2e-4 of its largest element
/// and 2e-5 of the largest of all states of its kind; of a parameter 2e-4 of
/// its largest *change* and fp32's rounding of the sum (that step's learning
/// rate is 1). An AdamW update divides a gradient by its own size, so it may
/// also differ by the gradient's relative error, which is 1 where the
/// reference's first moment is rounding noise (1e-5 of the largest of all) and
/// falls as it grows. Constants that the compiler folded are not compared: they
/// are numbered by layout.
///
/// Where that is not enough, one device runs three times again from weights
/// whose last digits differ (by 2e-6, or the rounding of a narrow type); a
/// tolerance grows by twice the most that changed, at most by a tenth of the
/// largest element (of the largest change, of a parameter).
///
/// With a `compression` c of gradients: c, 4 c and c / 5 more, and an update is
/// uncertain from 2 c of the largest on. This tells a rounded sum from a wrong
/// one, no more.
///
/// A residual of gradients must be zero: topk is verified with all of them.
///
/// What is NaN on one device cannot be checked, and fails: a loss that is NaN
/// for random inputs would accept any plan.
Verdict verifyAgainstOneDevice(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const std::string &init,
                               const NamedTensors &given = {});

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_VERIFY_H
