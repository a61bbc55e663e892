//===- PlanFp8.h - GEMMs of 8-bit codes -------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANFP8_H
#define DPC_RUNTIME_PLAN_PLANFP8_H

#include "runtime/base/DType.h"

#include <cstdint>

namespace dpc::rt {

/// A bf16 GEMM with this struct multiplies 8-bit codes of A and B. Each matrix
/// has one scale, which depends on its current values. Let amax be the largest
/// |x| in the matrix, and let largest be the largest number of the 8-bit
/// format:
///
///   scale = min(largest / amax, 2^126), or 1 if amax is 0 or not finite
///   code  = x * scale in f32, rounded to nearest even
///   C     = (alpha / scaleA / scaleB) codesA codesB + beta * C, sums in f32
///
/// Finite numbers saturate at `largest`. NaN stays NaN. An infinity stays
/// infinite, or becomes NaN in a format without infinities. Each rank scales
/// its own shard, so the shards of a tensor have different scales.
struct Fp8Factors {
  /// One of the two may be F8E5M2.
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN;
  /// A buffer of scratch memory. On GPUs it holds 64 bytes for the values
  /// below, the codes of op(A) (m rows of k), and the codes of op(B) transposed
  /// (n rows of k).
  int workspace = -1;
};

/// Offsets in the workspace of the amax values (as bits of f32) and of 1 /
/// scale.
inline constexpr int64_t kFp8AmaxA = 0, kFp8AmaxB = 4, kFp8InverseA = 16,
                         kFp8InverseB = 32;

/// cuBLASLt requires that m, n and k are multiples of this number.
inline constexpr int64_t kFp8Multiple = 16;
inline constexpr int64_t kFp8HeadBytes = 64;

/// sm_89 is the first architecture with fp8 GEMMs.
inline constexpr int kFirstWithFp8 = 89;

constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return kFp8HeadBytes + m * k + n * k;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANFP8_H
