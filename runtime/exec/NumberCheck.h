//===- NumberCheck.h - where NaN came from ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_NUMBERCHECK_H
#define DPC_RUNTIME_EXEC_NUMBERCHECK_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The first NaN that a rank wrote in a step. Infinities are no fault: masks
/// hold them.
struct NumberFault {
  double seconds = 0; ///< nowSeconds() when it was found
  std::string place;  ///< "s1.forward of micro-batch 2, layer_norm: buffer 'y'"
};

/// Index of the first NaN among `count` elements; -1: there is none, or the
/// type has no NaN.
int64_t firstNan(const void *data, DType dtype, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_NUMBERCHECK_H
