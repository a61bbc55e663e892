//===- PlanConv.h - convolution instructions of a plan ----------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/EnumNames.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// The operand of y = conv(x, w) that an instruction computes.
enum class ConvKind {
  Forward,    ///< y
  GradInput,  ///< x = dL/dx, from w and y = dL/dy
  GradFilter, ///< w = dL/dw, from x and y = dL/dy
};

/// A convolution (cross-correlation) or one of its gradients. The arrays x [N,
/// C, in..], w [K, C / groups, taps..] and y [N, K, out..] are dense and
/// row-major. In dimension d, output o multiplies tap j by the element of x at
/// o * strides[d] - pads[d] + j * dilations[d], or by 0 outside x.
struct ConvOp {
  ConvKind kind = ConvKind::Forward;
  int x = -1, w = -1, y = -1; ///< buffers
  std::vector<int64_t> xShape, wShape, yShape;
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pads; ///< before each dimension, then after each
  /// The type of the arrays: F32, F64, BF16 or F16. 16-bit products are summed
  /// in f32, and results are rounded once.
  DType compute = DType::F32;
};

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<rt::ConvKind> = {
    "forward", "grad_input", "grad_filter"};
} // namespace dpc
