//===- Fp8GemmRates.h - GEMMs in fp8 ----------------------------*- C++ -*-===//
#pragma once

#include <cstdint>

namespace dpc::cost {

/// Returns whether cuBLASLt runs a GEMM of m x k by k x n in fp8: all sizes
/// must be multiples of 16.
constexpr bool takesFp8(int64_t m, int64_t n, int64_t k) {
  return m > 0 && n > 0 && k > 0 && m % 16 == 0 && n % 16 == 0 && k % 16 == 0;
}

/// Returns the bytes of an fp8 GEMM's workspace (rt::Fp8Factors): 64 bytes of
/// scales, and the fp8 values of both operands.
constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return 64 + m * k + n * k;
}

} // namespace dpc::cost
