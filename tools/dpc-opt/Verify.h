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
/// Tolerance: |a - b| <= 2e-4 max|b| + 1e-6. An AdamW update divides a gradient
/// by its own size, so a parameter may also differ by the step's size times the
/// gradient's relative error, which is 1 where the reference's first moment is
/// rounding noise (1e-5 of the largest of all) and falls as it grows. (After a
/// second step the moments no longer tell what the first step did.)
std::string verifyAgainstOneDevice(const PlanInFolder &plan,
                                   const PlanInFolder &reference,
                                   const std::string &init);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_VERIFY_H
