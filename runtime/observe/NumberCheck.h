//===- NumberCheck.h - the origin of NaN ------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
#define DPC_RUNTIME_OBSERVE_NUMBERCHECK_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The first NaN that a rank wrote in a step. An infinity is a fault only in a
/// tensor at the beginning of a step; other values may be masks, which contain
/// -inf.
struct NumberFault {
  double seconds = 0; ///< nowSeconds() when the NaN was found
  std::string place;  ///< "s1.forward of micro-batch 2, layer_norm: buffer 'y'"
};

/// The index of the first NaN among `count` elements; -1 if there is none.
int64_t firstNan(const void *data, DType dtype, int64_t count);

/// The severity of a value: NaN 3, inf 2, -inf 1 (masks contain it), others 0.
int badness(double value);

/// "parameter 'w', which held inf as the step began", or "" if all `count`
/// elements are finite. Parameters and buffers may be masks, which contain
/// -inf.
std::string faultOf(const Tensor &tensor, const void *data, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_NUMBERCHECK_H
