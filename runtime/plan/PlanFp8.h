//===- PlanFp8.h - GEMMs of 8-bit codes -------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANFP8_H
#define DPC_RUNTIME_PLAN_PLANFP8_H

#include "runtime/base/DType.h"

#include <cstdint>

namespace dpc::rt {

/// A bf16 GEMM with this struct multiplies 8-bit codes instead of its factors.
/// Each factor is scaled as a whole by the values that it holds at that moment.
/// With amax = its largest |x| and largest = the largest number of the format,
/// number,
///
///   scale = min(largest / amax, 2^126), 1 where amax is 0 or not finite
///   code  = x * scale, an f32, rounded to the nearest, ties to even
///   C     = (alpha / scaleA / scaleB) codesA codesB + beta * C, sums in f32
///
/// A finite number that would round to more than the largest becomes the
/// largest. Infinities and NaN are preserved; an infinity becomes NaN where the
/// format has none. A rank scales only what it holds: the shards of one tensor
/// have different scales.
struct Fp8Factors {
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN; ///< or F8E5M2, not both
  /// A scratch buffer of bytes. On GPUs it holds 64 bytes for the values below,
  /// then the codes of op(A), m rows of k, and those of op(B)', n rows of k.
  int workspace = -1;
};

/// Offsets in the workspace of both amax, as f32 bits, and of both 1 / scale.
inline constexpr int64_t kFp8AmaxA = 0, kFp8AmaxB = 4, kFp8InverseA = 16,
                         kFp8InverseB = 32;

/// m, n and k of such a GEMM are multiples of this, as cuBLASLt requires.
inline constexpr int64_t kFp8Multiple = 16;
inline constexpr int64_t kFp8HeadBytes = 64;

/// sm_89: the first architecture with fp8 GEMMs.
inline constexpr int kFirstWithFp8 = 89;

constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return kFp8HeadBytes + m * k + n * k;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANFP8_H
