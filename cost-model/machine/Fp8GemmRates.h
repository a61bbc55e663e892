//===- Fp8GemmRates.h - Products of 8-bit codes ------------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_MACHINE_FP8GEMMRATES_H
#define DPC_COST_MODEL_MACHINE_FP8GEMMRATES_H

#include <cstdint>

namespace dpc::cost {

/// Whether cuBLASLt multiplies codes of fp8 of such a shape: one product, m x k
/// by k x n, whose sizes are multiples of 16.
constexpr bool takesFp8(int64_t m, int64_t n, int64_t k) {
  return m > 0 && n > 0 && k > 0 && m % 16 == 0 && n % 16 == 0 && k % 16 == 0;
}

/// Where the plan keeps them meanwhile (rt::Fp8Factors): 64 bytes of scales and
/// the codes of both factors.
constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return 64 + m * k + n * k;
}

/// Bytes that are moved to make them: every factor of 16 bits is read for its
/// largest element, and again to write its codes. The product then reads these.
inline double fp8CodingBytes(int64_t m, int64_t n, int64_t k) {
  return 5.0 * (static_cast<double>(m) * static_cast<double>(k) +
                static_cast<double>(n) * static_cast<double>(k));
}

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_FP8GEMMRATES_H
