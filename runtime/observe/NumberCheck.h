//===- NumberCheck.h - where NaN came from ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
#define DPC_RUNTIME_OBSERVE_NUMBERCHECK_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The first NaN that a rank wrote in a step. Infinities are no fault: masks
/// hold them; only what a step begins with is asked for those.
struct NumberFault {
  double seconds = 0; ///< nowSeconds() when it was found
  std::string place;  ///< "s1.forward of micro-batch 2, layer_norm: buffer 'y'"
};

/// Index of the first NaN among `count` elements; -1: there is none, or the
/// type has no NaN.
int64_t firstNan(const void *data, DType dtype, int64_t count);

/// How bad a value is: NaN 3, inf 2, -inf 1 (masks hold it), else 0.
int badness(double value);

/// "parameter 'w', which held inf as the step began", or "" for one of `count`
/// finite elements. Parameters may be masks, and hold -inf.
std::string faultOf(const Tensor &tensor, const void *data, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
