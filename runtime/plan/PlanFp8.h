//===- PlanFp8.h - products of 8-bit codes ----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANFP8_H
#define DPC_RUNTIME_PLAN_PLANFP8_H

#include "runtime/base/DType.h"

#include <cstdint>

namespace dpc::rt {

/// What a product of bf16 multiplies instead of its factors: 8-bit codes of
/// their elements, each factor scaled as a whole by what it holds at that
/// moment. With amax = its largest |x| and largest = the format's largest
/// number,
///
///   scale = min(largest / amax, 2^126), 1 where amax is 0 or not finite
///   code  = x * scale, an f32, rounded to the nearest, ties to even
///   C     = (alpha / scaleA / scaleB) codesA codesB + beta * C, sums in f32
///
/// A finite number that would round to beyond the largest becomes the largest;
/// what is infinite or NaN stays so, as NaN where the format has no infinity. A
/// rank scales what it holds itself: the shards of one tensor have scales of
/// their own.
struct Fp8Factors {
  DType a = DType::F8E4M3FN, b = DType::F8E4M3FN; ///< or F8E5M2, not both
  /// A buffer of bytes that holds anything before and after: on GPUs 64 for
  /// what is below, then the codes of op(A), m rows of k, and those of op(B)',
  /// n rows of k.
  int workspace = -1;
};

/// Where in the workspace lie the bits of both amax, f32, and both 1 / scale.
inline constexpr int64_t kFp8AmaxA = 0, kFp8AmaxB = 4, kFp8InverseA = 16,
                         kFp8InverseB = 32;

/// What m, n and k of such a product are multiples of, as cuBLASLt asks.
inline constexpr int64_t kFp8Multiple = 16;
inline constexpr int64_t kFp8HeadBytes = 64;

/// sm_89: the first architecture that multiplies codes of fp8.
inline constexpr int kFirstWithFp8 = 89;

constexpr int64_t fp8WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return kFp8HeadBytes + m * k + n * k;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANFP8_H
