//===- Fp8.h - 8-bit codes of a matrix --------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_FP8_H
#define DPC_RUNTIME_KERNELS_FP8_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// A stored bf16 matrix: rows are `ld` elements apart.
struct StoredMatrix {
  const uint16_t *data = nullptr;
  int64_t rows = 0, cols = 0, ld = 0;
};

/// A and B of an op; `a` and `b` are the addresses of their buffers.
StoredMatrix storedA(const MatmulOp &op, const void *a);
StoredMatrix storedB(const MatmulOp &op, const void *b);

/// The bits of the largest |x| as f32. NaN counts as larger than all numbers.
uint32_t amaxBits(const StoredMatrix &matrix);

/// The scale of a matrix with this amax; see Fp8Factors.
float fp8Scale(uint32_t amaxBits, DType format);
/// The fp8 code of a number that is already scaled.
uint8_t fp8Code(float scaled, DType format);

/// Writes the codes of a matrix, or of its transpose, densely.
void fp8Codes(const StoredMatrix &matrix, float scale, DType format,
              bool transposes, uint8_t *codes);
/// The values of `count` codes.
std::vector<float> fp8Values(const uint8_t *codes, int64_t count, DType format);

/// The codes of op(A) (m rows of k) or of op(B) transposed (n rows of k).
struct Fp8Codes {
  const uint8_t *codes = nullptr;
  DType format = DType::F8E4M3FN;
  float inverse = 1; ///< 1 / scale
};
/// Computes an op without an epilogue from the codes of A and B.
Status multiplyCodes(const MatmulOp &op, const Fp8Codes &a, const Fp8Codes &b,
                     void *c, DType cType);

/// Computes an op with `fp8` and without an epilogue; A and B are bf16.
Status runFp8Matmul(const MatmulOp &op, const void *a, const void *b, void *c,
                    DType cType);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_FP8_H
