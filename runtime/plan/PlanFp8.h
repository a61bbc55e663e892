//===- PlanFp8.h - GEMMs of 8-bit codes -------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>

namespace dpc::rt {

/// A bf16 GEMM with this struct multiplies fp8 codes of A and B. Each matrix
/// has one scale, which depends on its current values: amax is its largest
/// absolute value, and `largest` is the largest number of the fp8 format.
///
///   scale = min(largest / amax, 2^126), or 1 if amax is 0 or not finite
///   code  = x * scale in f32, rounded to nearest even
///   C     = (alpha / scaleA / scaleB) codesA codesB + beta * C, sums in f32
///
/// Finite numbers saturate at `largest`. NaN stays NaN. An infinity stays
/// infinite, or becomes NaN in a format without infinities. Each rank computes
/// the scale of its shard, so the shards of a tensor have different scales.
struct Fp8Factors {
  /// At most one of them may be F8E5M2.
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN;
  /// Scratch memory. GPUs use 64 bytes for the values below, then the codes of
  /// op(A) as m rows of k, then the codes of the transpose of op(B) as n rows
  /// of k.
  int workspace = -1;
};

/// Byte offsets in the workspace: amax and 1 / scale of A and B, all f32.
inline constexpr int64_t kFp8AmaxA = 0, kFp8AmaxB = 4, kFp8InverseA = 16,
                         kFp8InverseB = 32;

/// cuBLASLt requires multiples of this number for m, n and k.
inline constexpr int64_t kFp8Multiple = 16;
inline constexpr int64_t kFp8HeadBytes = 64;

/// The first architecture with fp8 GEMMs (sm_89).
inline constexpr int kFirstWithFp8 = 89;

constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return kFp8HeadBytes + m * k + n * k;
}

} // namespace dpc::rt
