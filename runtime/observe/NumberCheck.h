//===- NumberCheck.h - the origin of NaN ------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
#define DPC_RUNTIME_OBSERVE_NUMBERCHECK_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The first NaN that a rank wrote in a step. Infinities are not faults,
/// because masks hold them; they are faults only in values at the beginning of
/// a step.
struct NumberFault {
  double seconds = 0; ///< nowSeconds() at the discovery
  std::string place;  ///< "s1.forward of micro-batch 2, layer_norm: buffer 'y'"
};

/// Index of the first NaN among `count` elements; -1 if there is none, or if
/// the type has no NaN.
int64_t firstNan(const void *data, DType dtype, int64_t count);

/// The severity of a value: NaN 3, inf 2, -inf 1 (masks hold it), else 0.
int badness(double value);

/// "parameter 'w', which held inf as the step began", or "" if all `count`
/// elements are finite. Parameters may be masks, so they may hold -inf.
std::string faultOf(const Tensor &tensor, const void *data, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
