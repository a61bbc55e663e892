#include "runtime/cuda/DeviceBlas.h"

#include <algorithm>

namespace dpc::rt {

static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

/// Of all matrices of an operand: buffers begin at multiples of 64 bytes, in
/// every slot of a frame, and `elements` lie before a matrix or between two.
static uint32_t alignmentOf(DType type,
                            std::initializer_list<int64_t> elements) {
  uint32_t alignment = 64;
  for (int64_t count : elements)
    while (count * sizeOf(type) % alignment != 0)
      alignment /= 2;
  return alignment;
}

static cudaDataType cudaTypeOf(DType type) {
  switch (type) {
  case DType::F64:
    return CUDA_R_64F;
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F16:
    return CUDA_R_16F;
  default:
    return CUDA_R_32F;
  }
}

Status DeviceBlas::checkTypes(const MatmulOp &op, DType a, DType b, DType c) {
  bool half = a == DType::BF16 || a == DType::F16;
  bool ok = a == b &&
            (op.compute == DType::F64 ? a == DType::F64 && c == a
             : half ? c == a || c == DType::F32
                    : a == DType::F32 && c == a && op.compute == DType::F32);
  if (ok)
    return Status::success();
  return Status::unsupported(
      "a product of " + std::string(nameOf(a)) + " and " +
      std::string(nameOf(b)) + " in " + std::string(nameOf(op.compute)) +
      " to " + std::string(nameOf(c)) +
      ": on GPUs A and B have one type, and C theirs or f32");
}

Expected<std::unique_ptr<DeviceBlas>> DeviceBlas::create(const CudaApi &cuda,
                                                         const BlasApi &blas) {
  std::unique_ptr<DeviceBlas> self(new DeviceBlas(cuda, blas));
  DPC_TRY(self->check(blas.cublasLtCreate(&self->handle), "cublasLtCreate"));
  DPC_TRY(cuda.check(cuda.cudaMalloc(&self->workspace, kWorkspaceBytes),
                     "cuBLASLt's workspace"));
  return self;
}

DeviceBlas::~DeviceBlas() {
  for (auto &[op, routine] : routines) {
    for (cublasLtMatrixLayout_t layout : {routine.a, routine.b, routine.c})
      if (layout)
        blas.cublasLtMatrixLayoutDestroy(layout);
    if (routine.what)
      blas.cublasLtMatmulDescDestroy(routine.what);
  }
  if (handle)
    blas.cublasLtDestroy(handle);
  cuda.cudaFree(workspace);
}

Status DeviceBlas::check(cublasStatus_t status, const char *what) const {
  if (status == CUBLAS_STATUS_SUCCESS)
    return Status::success();
  return Status::io(std::string(what) +
                    ": cuBLASLt: " + blas.cublasLtGetStatusString(status));
}

Status DeviceBlas::makeLayout(cublasLtMatrixLayout_t &layout, DType type,
                              int64_t rows, int64_t columns, int64_t ld,
                              int64_t batch, int64_t stride) {
  DPC_TRY(check(blas.cublasLtMatrixLayoutCreate(
                    &layout, cudaTypeOf(type), static_cast<uint64_t>(rows),
                    static_cast<uint64_t>(columns), ld),
                "cublasLtMatrixLayoutCreate"));
  auto count = static_cast<int32_t>(batch);
  DPC_TRY(check(
      blas.cublasLtMatrixLayoutSetAttribute(
          layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "batch count"));
  return check(blas.cublasLtMatrixLayoutSetAttribute(
                   layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                   sizeof stride),
               "batch stride");
}

/// A row-major r x c matrix is a column-major c x r one with the same leading
/// dimension. So op(B) row-major, k x n, is n x k for cuBLASLt, and stands
/// first.
Status DeviceBlas::describe(const MatmulOp &op, DType aType, DType bType,
                            DType cType, Routine &made) {
  bool wide = op.compute == DType::F64;
  DPC_TRY(check(blas.cublasLtMatmulDescCreate(
                    &made.what, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                    wide ? CUDA_R_64F : CUDA_R_32F),
                "cublasLtMatmulDescCreate"));
  cublasOperation_t first = op.transB ? CUBLAS_OP_T : CUBLAS_OP_N,
                    second = op.transA ? CUBLAS_OP_T : CUBLAS_OP_N;
  DPC_TRY(check(blas.cublasLtMatmulDescSetAttribute(made.what,
                                                    CUBLASLT_MATMUL_DESC_TRANSA,
                                                    &first, sizeof first),
                "transposition"));
  DPC_TRY(check(blas.cublasLtMatmulDescSetAttribute(made.what,
                                                    CUBLASLT_MATMUL_DESC_TRANSB,
                                                    &second, sizeof second),
                "transposition"));
  int64_t batch = op.batch;
  DPC_TRY(makeLayout(made.b, bType, op.transB ? op.k : op.n,
                     op.transB ? op.n : op.k, op.ldb, batch, op.strideB));
  DPC_TRY(makeLayout(made.a, aType, op.transA ? op.m : op.k,
                     op.transA ? op.k : op.m, op.lda, batch, op.strideA));
  DPC_TRY(makeLayout(made.c, cType, op.n, op.m, op.ldc, batch, op.strideC));
  return chooseAlgorithm(
      made, alignmentOf(aType, {op.aOffset, op.strideA, op.stride2A}),
      alignmentOf(bType, {op.bOffset, op.strideB, op.stride2B}),
      alignmentOf(cType, {op.cOffset, op.strideC, op.stride2C}));
}

/// The heuristic's first choice.
Status DeviceBlas::chooseAlgorithm(Routine &made, uint32_t a, uint32_t b,
                                   uint32_t c) {
  cublasLtMatmulPreference_t wishes = nullptr;
  DPC_TRY(check(blas.cublasLtMatmulPreferenceCreate(&wishes),
                "cublasLtMatmulPreferenceCreate"));
  size_t most = kWorkspaceBytes;
  Status status = check(
      blas.cublasLtMatmulPreferenceSetAttribute(
          wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
      "workspace");
  for (auto [which, alignment] :
       {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c)})
    if (status.ok())
      status = check(blas.cublasLtMatmulPreferenceSetAttribute(
                         wishes, which, &alignment, sizeof alignment),
                     "alignment");
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  if (status.ok())
    status = check(blas.cublasLtMatmulAlgoGetHeuristic(
                       handle, made.what, made.b, made.a, made.c, made.c,
                       wishes, 1, &found, &count),
                   "cublasLtMatmulAlgoGetHeuristic");
  blas.cublasLtMatmulPreferenceDestroy(wishes);
  DPC_TRY(status);
  if (count == 0)
    return Status::unsupported("cuBLASLt has no routine for a product");
  made.how = found.algo;
  return Status::success();
}

Expected<const DeviceBlas::Routine *>
DeviceBlas::routine(const MatmulOp &op, DType aType, DType bType, DType cType) {
  auto [it, isNew] = routines.try_emplace(&op);
  if (isNew)
    DPC_TRY(describe(op, aType, bType, cType, it->second));
  return &it->second;
}

Status DeviceBlas::run(const MatmulOp &op, const void *a, DType aType,
                       const void *b, DType bType, void *c, DType cType,
                       cudaStream_t stream) {
  Expected<const Routine *> how = routine(op, aType, bType, cType);
  if (!how)
    return how.status();
  const Routine &r = **how;
  auto alpha = static_cast<float>(op.alpha), beta = static_cast<float>(op.beta);
  bool wide = op.compute == DType::F64;
  const void *alphaAt = wide ? static_cast<const void *>(&op.alpha) : &alpha;
  const void *betaAt = wide ? static_cast<const void *>(&op.beta) : &beta;
  for (int64_t j = 0; j < op.batch2; ++j) {
    const char *aAt = static_cast<const char *>(a) +
                      (op.aOffset + j * op.stride2A) * sizeOf(aType);
    const char *bAt = static_cast<const char *>(b) +
                      (op.bOffset + j * op.stride2B) * sizeOf(bType);
    char *cAt =
        static_cast<char *>(c) + (op.cOffset + j * op.stride2C) * sizeOf(cType);
    DPC_TRY(check(blas.cublasLtMatmul(handle, r.what, alphaAt, bAt, r.b, aAt,
                                      r.a, betaAt, cAt, r.c, cAt, r.c, &r.how,
                                      workspace, kWorkspaceBytes, stream),
                  "cublasLtMatmul"));
  }
  return Status::success();
}

} // namespace dpc::rt
