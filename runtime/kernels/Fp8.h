//===- Fp8.h - 8-bit codes of a matrix --------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// A bf16 matrix whose rows are `ld` elements apart.
struct StoredMatrix {
  const uint16_t *data = nullptr;
  int64_t rows = 0, cols = 0, ld = 0;
};

/// Return A and B of `op`, whose buffers are at `a` and `b`.
StoredMatrix storedA(const MatmulOp &op, const void *a);
StoredMatrix storedB(const MatmulOp &op, const void *b);

/// Returns the largest absolute value as the bits of an f32. A NaN is larger
/// than all numbers.
uint32_t amaxBits(const StoredMatrix &matrix);

/// Returns the scale of a matrix, see Fp8Factors.
float fp8Scale(uint32_t amaxBits, DType format);
/// Encodes a number that is already scaled.
uint8_t fp8Code(float scaled, DType format);

/// Encodes a matrix, or its transpose, in a dense array.
void fp8Codes(const StoredMatrix &matrix, float scale, DType format,
              bool transposes, uint8_t *codes);
/// Decodes `count` codes, but does not divide by the scale.
std::vector<float> fp8Values(const uint8_t *codes, int64_t count, DType format);

/// The codes of op(A), as m rows of k, or of the transpose of op(B), as n rows
/// of k.
struct Fp8Codes {
  const uint8_t *codes = nullptr;
  DType format = DType::F8E4M3FN;
  float inverse = 1; ///< 1 / scale
};
/// Computes `op` without its epilogue from the codes of A and B.
Status multiplyCodes(const MatmulOp &op, const Fp8Codes &a, const Fp8Codes &b,
                     void *c, DType cType);

/// Computes an fp8 GEMM without its epilogue. A and B are bf16.
Status runFp8Matmul(const MatmulOp &op, const void *a, const void *b, void *c,
                    DType cType);

} // namespace dpc::rt
