//===- PlanConv.h - convolution instructions of a plan ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANCONV_H
#define DPC_RUNTIME_PLAN_PLANCONV_H

#include "runtime/base/DType.h"
#include "runtime/base/EnumNames.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// Which operand of y = conv(x, w) an instruction computes.
enum class ConvKind {
  Forward,    ///< y
  GradInput,  ///< x := dL/dx, from w and y = dL/dy
  GradFilter, ///< w := dL/dw, from x and y = dL/dy
};

/// A convolution (cross-correlation) or one of its gradients. The arrays x [N,
/// C, in..], w [K, C / groups, taps..] and y [N, K, out..] are dense and
/// row-major. Along spatial dimension d, tap j of output o reads position o *
/// strides[d] - pads[d] + j * dilations[d] of x, or zero if x has no such
/// position.
struct ConvOp {
  ConvKind kind = ConvKind::Forward;
  int x = -1, w = -1, y = -1; ///< buffers
  std::vector<int64_t> xShape, wShape, yShape;
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pads; ///< padding before each dimension, then after each
  /// The type of the arrays: F32, F64, BF16 or F16. Arrays of 16-bit types are
  /// summed in f32, and results are rounded once.
  DType compute = DType::F32;
};

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::ConvKind> = {
    "forward", "grad_input", "grad_filter"};
} // namespace dpc

#endif // DPC_RUNTIME_PLAN_PLANCONV_H
