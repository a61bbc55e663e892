//===- DeviceFp8.cpp - fp8 GEMMs on the device ----------------------------===//
#include "runtime/cuda/DeviceBlas.h"

namespace dpc::rt {

static char *inWorkspace(const DeviceGemm &gemm, int64_t offset) {
  return static_cast<char *>(gemm.workspace) + offset;
}

/// Fast accumulation rounds sums to fewer bits than f32. It is used only in
/// forward GEMMs, whose operands are both E4M3, as in other frameworks.
Status DeviceBlas::describeCodes(const DeviceGemm &gemm, Routine &made) {
  const Fp8Factors &fp8 = *gemm.op->fp8;
  bool isFast = fp8.a == DType::F8E4M3FN && fp8.b == DType::F8E4M3FN;
  DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
              static_cast<int8_t>(isFast), "accumulation"));
  if (gemm.op->bias < 0 || made.isSplit)
    return Status::success();
  cudaDataType type = CUDA_R_16BF; // also the type of C
  return set(made.what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type,
             "the epilogue's type");
}

/// cuBLASLt's A is our B.
Status DeviceBlas::pointScales(const DeviceGemm &gemm, const Routine &made) {
  for (auto [which, offset] :
       {std::pair(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, kFp8InverseB),
        std::pair(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, kFp8InverseA)})
    DPC_TRY(set(made.what, which,
                static_cast<void *>(inWorkspace(gemm, offset)), "scale"));
  return Status::success();
}

/// Hopper's fp8 GEMMs require rows of k codes for both operands.
Status DeviceBlas::codeFactors(const DeviceGemm &gemm,
                               cudaStream_t stream) const {
  const MatmulOp &op = *gemm.op;
  DPC_TRY(cuda.set(gemm.workspace, 0, kFp8HeadBytes, stream));
  auto code = [&](const void *buffer, int64_t offset, int64_t rows,
                  int64_t columns, int64_t ld, int64_t amax, DType format,
                  bool transposes, int64_t codes, int64_t inverse) -> Status {
    const void *matrix =
        static_cast<const char *>(buffer) + offset * sizeOf(DType::BF16);
    DPC_TRY(
        own.amax(matrix, rows, columns, ld, inWorkspace(gemm, amax), stream));
    return own.fp8Codes(matrix, rows, columns, ld, inWorkspace(gemm, amax),
                        format, transposes, inWorkspace(gemm, codes),
                        inWorkspace(gemm, inverse), stream);
  };
  DPC_TRY(code(gemm.a, op.aOffset, op.transA ? op.k : op.m,
               op.transA ? op.m : op.k, op.lda, kFp8AmaxA, op.fp8->a, op.transA,
               kFp8HeadBytes, kFp8InverseA));
  return code(gemm.b, op.bOffset, op.transB ? op.n : op.k,
              op.transB ? op.k : op.n, op.ldb, kFp8AmaxB, op.fp8->b, !op.transB,
              kFp8HeadBytes + op.m * op.k, kFp8InverseB);
}

} // namespace dpc::rt
