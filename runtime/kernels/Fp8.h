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

/// The factors of an op whose buffers begin at `a` and `b`.
StoredMatrix storedA(const MatmulOp &op, const void *a);
StoredMatrix storedB(const MatmulOp &op, const void *b);

/// The bits of the largest |x| as f32. The bits of a NaN exceed all others.
uint32_t amaxBits(const StoredMatrix &matrix);

/// See Fp8Factors.
float fp8Scale(uint32_t amaxBits, DType format);
/// The code of a scaled number.
uint8_t fp8Code(float scaled, DType format);

/// Writes codes in rows of `cols` elements, or of `rows` elements when
/// transposed.
void fp8Codes(const StoredMatrix &matrix, float scale, DType format,
              bool transposes, uint8_t *codes);
/// The values of `count` codes.
std::vector<float> fp8Values(const uint8_t *codes, int64_t count, DType format);

/// A coded factor: rows of k codes, m rows for op(A) or n rows for op(B)'.
struct Fp8Codes {
  const uint8_t *codes = nullptr;
  DType format = DType::F8E4M3FN;
  float inverse = 1; ///< 1 / scale
};
/// Computes `op` from its coded factors. `op` has no epilogue.
Status multiplyCodes(const MatmulOp &op, const Fp8Codes &a, const Fp8Codes &b,
                     void *c, DType cType);

/// Computes an op with `fp8` and without an epilogue; A and B are bf16.
Status runFp8Matmul(const MatmulOp &op, const void *a, const void *b, void *c,
                    DType cType);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_FP8_H
