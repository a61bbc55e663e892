//===- Verify.h - N ranks against one device ---------------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_OPT_VERIFY_H
#define DPC_TOOLS_DPC_OPT_VERIFY_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc {

/// A plan whose kernels lie in `dir`.
struct PlanInFolder {
  const rt::Plan &plan;
  std::string dir;
};

/// Trains (or infers) with both plans in this process, from the same weights
/// and the same random inputs, with NaN in all padding. Compares every output
/// and every tensor after one step, and the outputs of a second one. Returns ""
/// or one line that names the first tensor that differs, and by how much.
///
/// Tolerances: of an output 2e-4 of its largest element and 1e-6; of a state
/// 2e-4 of its largest element and 2e-5 of the largest of all states of its
/// kind; of a parameter 2e-4 of its largest *change* and fp32's rounding of the
/// sum (that step's learning rate is 1). An AdamW update divides a gradient by
/// its own size, so it may also differ by the gradient's relative error, which
/// is 1 where the reference's first moment is rounding noise (1e-5 of the
/// largest of all) and falls as it grows. Constants that the compiler folded
/// are not compared: they are numbered by layout.
///
/// What is NaN on one device cannot be checked, and fails: a loss that is NaN
/// for random inputs would accept any plan.
std::string verifyAgainstOneDevice(const PlanInFolder &plan,
                                   const PlanInFolder &reference,
                                   const std::string &init);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_VERIFY_H
