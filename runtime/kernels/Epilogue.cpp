#include "runtime/kernels/Epilogue.h"

#include "runtime/kernels/Matmul.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

static constexpr double kSlope = 0.7978845608028654; // sqrt(2 / pi)
static constexpr double kCubic = 0.044715;

static double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kSlope * (x + kCubic * x * x * x)));
}

static double geluGrad(double x) {
  double t = std::tanh(kSlope * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * kSlope * (1 + 3 * kCubic * x * x);
}

void sumColumns(const void *matrix, DType type, int64_t offset, int64_t rows,
                int64_t cols, int64_t ld, void *bias, DType biasType,
                int64_t biasOffset) {
  for (int64_t j = 0; j < cols; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < rows; ++i)
      sum += loadAsDouble(matrix, type, offset + i * ld + j);
    storeFromDouble(bias, biasType, biasOffset + j, sum);
  }
}

void finishGemm(const MatmulOp &op, std::vector<float> &sums,
                const EpilogueArrays &arrays) {
  Epilogue e = op.epilogue;
  bool isRelu = e == Epilogue::Relu || e == Epilogue::ReluBias;
  bool isGelu = e == Epilogue::Gelu || e == Epilogue::GeluBias || writesAux(e);
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      float &sum = sums[i * op.n + j];
      double value = sum;
      int64_t aux = op.auxOffset + i * op.auxLd + j;
      if (readsBias(e))
        value += loadAsDouble(arrays.bias, arrays.type, op.biasOffset + j);
      if (writesAux(e))
        storeFromDouble(arrays.aux, arrays.type, aux, value);
      if (readsAux(e))
        value *= geluGrad(loadAsDouble(arrays.aux, arrays.type, aux));
      if (isRelu) // keeps NaN
        value = value < 0 ? 0 : value;
      if (isGelu)
        value = gelu(value);
      sum = static_cast<float>(value);
      storeFromDouble(arrays.c, arrays.type, op.cOffset + i * op.ldc + j, sum);
    }
  if (e == Epilogue::GeluGradBias)
    sumColumns(sums.data(), DType::F32, 0, op.m, op.n, op.n, arrays.bias,
               arrays.type, op.biasOffset);
}

Status runWithEpilogue(const MatmulOp &op, const void *a, DType aType,
                       const void *b, DType bType,
                       const EpilogueArrays &arrays) {
  MatmulOp plain = op;
  plain.epilogue = Epilogue::None;
  if (op.epilogue != Epilogue::SumsOfA && op.epilogue != Epilogue::SumsOfB) {
    plain.cOffset = 0;
    plain.ldc = op.n;
    std::vector<float> sums(op.m * op.n);
    DPC_TRY(runMatmul(plain, a, aType, b, bType, sums.data(), DType::F32));
    finishGemm(op, sums, arrays);
    return Status::success();
  }
  DPC_TRY(runMatmul(plain, a, aType, b, bType, arrays.c, arrays.type));
  if (op.epilogue == Epilogue::SumsOfA)
    sumColumns(a, aType, op.aOffset, op.k, op.m, op.lda, arrays.bias,
               arrays.type, op.biasOffset);
  else
    sumColumns(b, bType, op.bOffset, op.k, op.n, op.ldb, arrays.bias,
               arrays.type, op.biasOffset);
  return Status::success();
}

} // namespace dpc::rt
