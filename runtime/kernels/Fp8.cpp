#include "runtime/kernels/Fp8.h"

#include "runtime/kernels/Matmul.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace dpc::rt {

static constexpr uint32_t kInfinity = 0x7f800000;

static uint32_t bitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float elementOf(const StoredMatrix &matrix, int64_t row, int64_t col) {
  return bf16ToFloat(matrix.data[row * matrix.ld + col]);
}

uint32_t amaxBits(const StoredMatrix &matrix) {
  uint32_t most = 0;
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t col = 0; col < matrix.cols; ++col)
      most = std::max(most, bitsOf(elementOf(matrix, row, col)) & 0x7fffffff);
  return most;
}

float fp8Scale(uint32_t amaxBits, DType format) {
  if (amaxBits == 0 || amaxBits >= kInfinity)
    return 1;
  float amax = 0;
  std::memcpy(&amax, &amaxBits, sizeof amax);
  NarrowFloat narrow = *narrowFloatOf(format);
  float largest = narrowToFloat(static_cast<uint8_t>(narrow.largest), narrow);
  // This limit keeps 1 / scale a normal number.
  return std::min(largest / amax, 0x1p126f);
}

uint8_t fp8Code(float scaled, DType format) {
  NarrowFloat narrow = *narrowFloatOf(format);
  uint32_t bits = bitsOf(scaled);
  uint8_t code = floatToNarrow(scaled, narrow);
  bool isBeyond = (code & 0x7f) > narrow.largest;
  if (!isBeyond || (bits & 0x7fffffff) >= kInfinity)
    return code;
  return static_cast<uint8_t>(narrow.largest |
                              (bits >> 31 ? narrow.signBit : 0));
}

void fp8Codes(const StoredMatrix &matrix, float scale, DType format,
              bool transposes, uint8_t *codes) {
  for (int64_t row = 0; row < matrix.rows; ++row)
    for (int64_t col = 0; col < matrix.cols; ++col)
      codes[transposes ? col * matrix.rows + row : row * matrix.cols + col] =
          fp8Code(elementOf(matrix, row, col) * scale, format);
}

std::vector<float> fp8Values(const uint8_t *codes, int64_t count,
                             DType format) {
  NarrowFloat narrow = *narrowFloatOf(format);
  std::array<float, 256> all = {};
  for (int code = 0; code < 256; ++code)
    all[code] = narrowToFloat(static_cast<uint8_t>(code), narrow);
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = all[codes[i]];
  return values;
}

StoredMatrix storedA(const MatmulOp &op, const void *a) {
  return {static_cast<const uint16_t *>(a) + op.aOffset,
          op.transA ? op.k : op.m, op.transA ? op.m : op.k, op.lda};
}

StoredMatrix storedB(const MatmulOp &op, const void *b) {
  return {static_cast<const uint16_t *>(b) + op.bOffset,
          op.transB ? op.n : op.k, op.transB ? op.k : op.n, op.ldb};
}

Status multiplyCodes(const MatmulOp &op, const Fp8Codes &a, const Fp8Codes &b,
                     void *c, DType cType) {
  MatmulOp dense;
  dense.m = op.m;
  dense.n = op.n;
  dense.k = dense.lda = dense.ldb = op.k;
  dense.ldc = op.n;
  dense.transB = true;
  std::vector<float> left = fp8Values(a.codes, op.m * op.k, a.format),
                     right = fp8Values(b.codes, op.n * op.k, b.format),
                     sums(op.m * op.n);
  DPC_TRY(runMatmul(dense, left.data(), DType::F32, right.data(), DType::F32,
                    sums.data(), DType::F32));
  double scale = op.alpha * a.inverse * b.inverse;
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      int64_t at = op.cOffset + i * op.ldc + j;
      double old = op.beta == 0 ? 0 : op.beta * loadAsDouble(c, cType, at);
      storeFromDouble(c, cType, at, scale * sums[i * op.n + j] + old);
    }
  return Status::success();
}

Status runFp8Matmul(const MatmulOp &op, const void *a, const void *b, void *c,
                    DType cType) {
  auto coded = [](const StoredMatrix &matrix, DType format, bool transposes,
                  std::vector<uint8_t> &codes) {
    float scale = fp8Scale(amaxBits(matrix), format);
    codes.resize(matrix.rows * matrix.cols);
    fp8Codes(matrix, scale, format, transposes, codes.data());
    return Fp8Codes{codes.data(), format, 1 / scale};
  };
  std::vector<uint8_t> left, right;
  return multiplyCodes(op, coded(storedA(op, a), op.fp8->a, op.transA, left),
                       coded(storedB(op, b), op.fp8->b, !op.transB, right), c,
                       cType);
}

} // namespace dpc::rt
