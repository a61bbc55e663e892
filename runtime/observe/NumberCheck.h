//===- NumberCheck.h - the origin of NaN ------------------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// The first NaN that a rank wrote in a step. An infinity counts only in a
/// tensor at the beginning of a step, because other values may be masks, which
/// contain -inf.
struct NumberFault {
  double seconds = 0; ///< nowSeconds() at the check
  std::string place;  ///< "s1.forward of micro-batch 2, layer_norm: buffer 'y'"
};

/// Returns the index of the first NaN among `count` elements, or -1.
int64_t firstNan(const void *data, DType dtype, int64_t count);

/// Returns the severity of a value: 3 for NaN, 2 for inf, 1 for -inf, which
/// masks contain, and 0 for finite values.
int badness(double value);

/// Returns "parameter 'w', which held inf as the step began", or "" if all
/// `count` elements are finite. -inf is not a fault, because a parameter or
/// buffer may be a mask.
std::string faultOf(const Tensor &tensor, const void *data, int64_t count);

} // namespace dpc::rt
