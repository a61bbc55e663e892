#include "runtime/cuda/DeviceBlas.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace dpc::rt {

static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

DeviceGemm gemmIn(const Plan &plan, const MatmulOp &op) {
  auto begin = [&](int id) {
    return id < 0 ? 0 : plan.buffers[id].offset % 64;
  };
  return {.op = &op,
          .aType = plan.buffers[op.a].dtype,
          .bType = plan.buffers[op.b].dtype,
          .cType = plan.buffers[op.c].dtype,
          .aBegin = begin(op.a),
          .bBegin = begin(op.b),
          .cBegin = begin(op.c),
          .biasBegin = begin(op.bias),
          .auxBegin = begin(op.aux)};
}

/// Returns the alignment in bytes, at most 64, of all matrices of an operand.
/// The operand's buffer begins `begin` bytes after a multiple of 64. `elements`
/// are the offset of the first matrix and the strides between matrices.
static uint32_t alignmentOf(DType type, int64_t begin,
                            std::initializer_list<int64_t> elements) {
  uint32_t alignment = 64;
  while (begin % alignment != 0)
    alignment /= 2;
  for (int64_t count : elements)
    while (count * sizeOf(type) % alignment != 0)
      alignment /= 2;
  return alignment;
}

namespace {

/// The matrices that cuBLASLt multiplies: A and B, or their fp8 codes.
struct Factors {
  DType aType, bType;
  bool transA, transB;
  int64_t lda, ldb;
};

} // namespace

static Factors factorsOf(const DeviceGemm &gemm) {
  const MatmulOp &op = *gemm.op;
  if (op.fp8)
    return {op.fp8->a, op.fp8->b, false, true, op.k, op.k};
  return {gemm.aType, gemm.bType, op.transA, op.transB, op.lda, op.ldb};
}

static std::array<uint32_t, 3> alignmentsOf(const DeviceGemm &gemm) {
  const MatmulOp &op = *gemm.op;
  if (op.fp8) // sizes are multiples of 16
    return {64, 64, alignmentOf(gemm.cType, gemm.cBegin, {op.cOffset})};
  return {alignmentOf(gemm.aType, gemm.aBegin,
                      {op.aOffset, op.strideA, op.stride2A}),
          alignmentOf(gemm.bType, gemm.bBegin,
                      {op.bOffset, op.strideB, op.stride2B}),
          alignmentOf(gemm.cType, gemm.cBegin,
                      {op.cOffset, op.strideC, op.stride2C})};
}

/// cuBLASLt's choice depends on the alignment of the epilogue's operands.
static std::string epilogueKey(const DeviceGemm &gemm) {
  const MatmulOp &op = *gemm.op;
  std::string text = ", epilogue " + std::string(nameOf(op.epilogue));
  if (op.bias >= 0)
    text += ", bias aligned " +
            std::to_string(
                alignmentOf(gemm.cType, gemm.biasBegin, {op.biasOffset}));
  if (op.aux >= 0)
    text +=
        ", aux rows of " + std::to_string(op.auxLd) + " aligned " +
        std::to_string(alignmentOf(gemm.cType, gemm.auxBegin, {op.auxOffset}));
  return text;
}

/// Offsets and the outer batch change only addresses and the number of calls,
/// so they are not in the key. The value of beta matters only if it is 0,
/// because C is then not read.
std::string gemmKey(const DeviceGemm &gemm) {
  const MatmulOp &op = *gemm.op;
  Factors factors = factorsOf(gemm);
  std::ostringstream text;
  text << nameOf(factors.aType) << " " << nameOf(factors.bType) << " "
       << nameOf(gemm.cType) << " in " << nameOf(op.compute) << ", " << op.m
       << "x" << op.n << "x" << op.k << " " << (factors.transA ? "t" : "n")
       << (factors.transB ? "t" : "n") << ", rows of " << factors.lda << " "
       << factors.ldb << " " << op.ldc;
  if (op.batch > 1)
    text << ", " << op.batch << " at " << op.strideA << " " << op.strideB << " "
         << op.strideC;
  text << ", aligned";
  for (uint32_t alignment : alignmentsOf(gemm))
    text << " " << alignment;
  text << (op.beta != 0 ? ", added to C" : ", C new") << epilogueKey(gemm);
  return text.str();
}

bool isEmpty(const MatmulOp &op) {
  return std::min({op.m, op.n, op.k, op.batch, op.batch2}) == 0;
}

static Status withKey(const Status &status, const DeviceGemm &gemm) {
  return {status.code(), status.message() + ", for the GEMM " + gemmKey(gemm)};
}

static cudaDataType cudaTypeOf(DType type) {
  switch (type) {
  case DType::F64:
    return CUDA_R_64F;
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F16:
    return CUDA_R_16F;
  case DType::F8E4M3FN:
    return CUDA_R_8F_E4M3;
  case DType::F8E5M2:
    return CUDA_R_8F_E5M2;
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
      "a GEMM of " + std::string(nameOf(a)) + " and " + std::string(nameOf(b)) +
      " in " + std::string(nameOf(op.compute)) + " to " +
      std::string(nameOf(c)) +
      ": on GPUs A and B must have the same type, and C this type or f32");
}

Expected<std::unique_ptr<DeviceBlas>>
DeviceBlas::create(const CudaApi &cuda, const BlasApi &blas,
                   const DeviceKernels &own, bool tf32) {
  std::unique_ptr<DeviceBlas> self(new DeviceBlas(cuda, blas, own, tf32));
  DPC_TRY(blas.check(blas.cublasLtCreate(&self->handle), "cublasLtCreate"));
  DPC_TRY(assign(self->workspace,
                 cuda.allocate(kWorkspaceBytes, "cuBLASLt's workspace")));
  return self;
}

DeviceBlas::~DeviceBlas() {
  for (auto &[op, routine] : routines)
    forget(routine);
  if (handle)
    blas.cublasLtDestroy(handle);
  cuda.cudaFree(workspace);
}

void DeviceBlas::forget(Routine &made) {
  for (cublasLtMatrixLayout_t layout : {made.a, made.b, made.c})
    if (layout)
      blas.cublasLtMatrixLayoutDestroy(layout);
  if (made.what)
    blas.cublasLtMatmulDescDestroy(made.what);
  made = {};
}

Status DeviceBlas::makeLayout(cublasLtMatrixLayout_t &layout, DType type,
                              int64_t rows, int64_t columns, int64_t ld,
                              int64_t batch, int64_t stride) {
  DPC_TRY(blas.check(blas.cublasLtMatrixLayoutCreate(
                         &layout, cudaTypeOf(type), static_cast<uint64_t>(rows),
                         static_cast<uint64_t>(columns), ld),
                     "cublasLtMatrixLayoutCreate"));
  auto count = static_cast<int32_t>(batch);
  DPC_TRY(blas.check(
      blas.cublasLtMatrixLayoutSetAttribute(
          layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "batch count"));
  return blas.check(blas.cublasLtMatrixLayoutSetAttribute(
                        layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                        &stride, sizeof stride),
                    "batch stride");
}

/// For cuBLASLt, a row-major r x c matrix is a column-major c x r matrix with
/// the same leading dimension. The row-major k x n matrix op(B) is therefore
/// cuBLASLt's first operand, an n x k matrix.
Status DeviceBlas::describe(const DeviceGemm &gemm, Routine &made) {
  const MatmulOp &op = *gemm.op;
  bool wide = op.compute == DType::F64;
  cublasComputeType_t type = wide ? CUBLAS_COMPUTE_64F
                             : tf32 && op.compute == DType::F32
                                 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                 : CUBLAS_COMPUTE_32F;
  DPC_TRY(blas.check(blas.cublasLtMatmulDescCreate(
                         &made.what, type, wide ? CUDA_R_64F : CUDA_R_32F),
                     "cublasLtMatmulDescCreate"));
  Factors factors = factorsOf(gemm);
  cublasOperation_t first = factors.transB ? CUBLAS_OP_T : CUBLAS_OP_N,
                    second = factors.transA ? CUBLAS_OP_T : CUBLAS_OP_N;
  DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_TRANSA, first, "transposition"));
  DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_TRANSB, second, "transposition"));
  if (op.fp8) {
    DPC_TRY(describeCodes(gemm, made));
    // cuBLASLt may read the scales already when it chooses a routine.
    DPC_TRY(pointScales(gemm, made));
  }
  if (!made.isSplit)
    DPC_TRY(describeEpilogue(gemm, made));
  int64_t batch = op.batch;
  DPC_TRY(makeLayout(made.b, factors.bType, factors.transB ? op.k : op.n,
                     factors.transB ? op.n : op.k, factors.ldb, batch,
                     op.strideB));
  DPC_TRY(makeLayout(made.a, factors.aType, factors.transA ? op.m : op.k,
                     factors.transA ? op.k : op.m, factors.lda, batch,
                     op.strideA));
  return makeLayout(made.c, gemm.cType, op.n, op.m, op.ldc, batch, op.strideC);
}

Expected<DeviceBlas::Routine *> DeviceBlas::routine(const DeviceGemm &gemm) {
  auto [it, isNew] = routines.try_emplace(gemm.op);
  if (!isNew)
    return &it->second;
  if (Status status = makeRoutine(gemm, it->second); !status.ok()) {
    forget(it->second);
    routines.erase(it);
    return withKey(status, gemm);
  }
  return &it->second;
}

/// SumsOfA and SumsOfB sum the elements of A or B, but cuBLASLt would sum their
/// fp8 codes. It also cannot add an f32 bias in an fp8 GEMM.
static bool mustSplit(const DeviceGemm &gemm) {
  const MatmulOp &op = *gemm.op;
  return op.fp8 && (op.epilogue == Epilogue::SumsOfA ||
                    op.epilogue == Epilogue::SumsOfB ||
                    (op.bias >= 0 && gemm.cType == DType::F32));
}

/// Omits the epilogue after any error, because cuBLASLt reports a missing
/// epilogue in several ways: not supported, an invalid value, or an empty list
/// of routines.
Status DeviceBlas::makeRoutine(const DeviceGemm &gemm, Routine &made) {
  if (gemm.op->epilogue != Epilogue::None && !mustSplit(gemm)) {
    if (describe(gemm, made).ok())
      if (auto found = heuristic(gemm, made, 1); found && !found->empty())
        return Status::success();
    forget(made);
  }
  made.isSplit = gemm.op->epilogue != Epilogue::None;
  return describe(gemm, made);
}

Expected<bool> DeviceBlas::isSplit(const DeviceGemm &gemm) {
  Expected<Routine *> made = routine(gemm);
  return made ? Expected<bool>((*made)->isSplit) : made.status();
}

/// cuBLASLt's A is our B.
Status DeviceBlas::setWishes(const DeviceGemm &gemm,
                             cublasLtMatmulPreference_t wishes) {
  size_t most = kWorkspaceBytes;
  DPC_TRY(blas.check(
      blas.cublasLtMatmulPreferenceSetAttribute(
          wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
      "workspace"));
  auto [a, b, c] = alignmentsOf(gemm);
  for (auto [which, alignment] :
       {std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c),
        std::pair(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c)})
    DPC_TRY(blas.check(blas.cublasLtMatmulPreferenceSetAttribute(
                           wishes, which, &alignment, sizeof alignment),
                       "alignment"));
  return Status::success();
}

Expected<std::vector<cublasLtMatmulAlgo_t>>
DeviceBlas::heuristic(const DeviceGemm &gemm, const Routine &r, int most) {
  if (!r.isSplit)
    DPC_TRY(pointEpilogue(gemm, r));
  cublasLtMatmulPreference_t wishes = nullptr;
  DPC_TRY(blas.check(blas.cublasLtMatmulPreferenceCreate(&wishes),
                     "cublasLtMatmulPreferenceCreate"));
  Status status = setWishes(gemm, wishes);
  std::vector<cublasLtMatmulHeuristicResult_t> found(most);
  int count = 0;
  if (status.ok()) {
    cublasStatus_t answer = blas.cublasLtMatmulAlgoGetHeuristic(
        handle, r.what, r.b, r.a, r.c, r.c, wishes, most, found.data(), &count);
    if (answer == CUBLAS_STATUS_NOT_SUPPORTED)
      count = 0;
    else
      status = blas.check(answer, "cublasLtMatmulAlgoGetHeuristic");
  }
  blas.cublasLtMatmulPreferenceDestroy(wishes);
  DPC_TRY(status);
  std::vector<cublasLtMatmulAlgo_t> good;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS)
      good.push_back(found[i].algo);
  return good;
}

Expected<std::vector<cublasLtMatmulAlgo_t>>
DeviceBlas::candidates(const DeviceGemm &gemm, int most) {
  Routine *made = nullptr;
  DPC_TRY(assign(made, routine(gemm)));
  auto good = heuristic(gemm, *made, most);
  if (!good)
    return withKey(good.status(), gemm);
  if (good->empty())
    return withKey(Status::unsupported("cuBLASLt has no routine"), gemm);
  return good;
}

bool DeviceBlas::accepts(const DeviceGemm &gemm,
                         const cublasLtMatmulAlgo_t &how) {
  Expected<Routine *> made = routine(gemm);
  if (!made)
    return false;
  const Routine &r = **made;
  cublasLtMatmulHeuristicResult_t result = {};
  return blas.cublasLtMatmulAlgoCheck(handle, r.what, r.b, r.a, r.c, r.c, &how,
                                      &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= kWorkspaceBytes;
}

Status DeviceBlas::choose(const DeviceGemm &gemm,
                          const cublasLtMatmulAlgo_t &how) {
  Expected<Routine *> made = routine(gemm);
  if (made) {
    (*made)->how = how;
    (*made)->isChosen = true;
  }
  return made.status();
}

Status DeviceBlas::chooseFirst(const DeviceGemm &gemm) {
  std::vector<cublasLtMatmulAlgo_t> first;
  DPC_TRY(assign(first, candidates(gemm, 1)));
  return choose(gemm, first.front());
}

/// Computes C = beta C: row by row, or in one call if C is contiguous.
static Status scaleOnly(const CudaApi &cuda, const DeviceKernels &own,
                        const DeviceGemm &gemm, cudaStream_t stream) {
  const MatmulOp &op = *gemm.op;
  bool isDense = op.ldc == op.n;
  int64_t rows = isDense ? 1 : op.m, columns = isDense ? op.m * op.n : op.n;
  DType type = gemm.cType;
  auto scale = [&](int64_t offset) -> Status {
    char *at = static_cast<char *>(gemm.c) + offset * sizeOf(type);
    if (op.beta != 0)
      return own.reduce({at}, at, 0, columns, type, ReduceKind::Sum, op.beta,
                        stream);
    return cuda.set(at, 0, columns * sizeOf(type), stream);
  };
  if (op.m == 0 || op.n == 0 || op.beta == 1)
    return Status::success();
  for (int64_t i = 0; i < op.batch; ++i)
    for (int64_t j = 0; j < op.batch2; ++j)
      for (int64_t row = 0; row < rows; ++row)
        DPC_TRY(scale(op.cOffset + i * op.strideC + j * op.stride2C +
                      row * op.ldc));
  return Status::success();
}

Status DeviceBlas::run(const DeviceGemm &gemm, cudaStream_t stream,
                       bool codes) {
  return isEmpty(*gemm.op) ? scaleOnly(cuda, own, gemm, stream)
                           : multiply(gemm, stream, codes);
}

Status DeviceBlas::multiply(const DeviceGemm &gemm, cudaStream_t stream,
                            bool codes) {
  const MatmulOp &op = *gemm.op;
  Routine *made = nullptr;
  DPC_TRY(assign(made, routine(gemm)));
  const Routine &r = *made;
  if (!r.isChosen)
    DPC_TRY(chooseFirst(gemm));
  if (!r.isSplit)
    DPC_TRY(pointEpilogue(gemm, r));
  if (op.fp8) {
    DPC_TRY(pointScales(gemm, r));
    if (codes)
      DPC_TRY(codeFactors(gemm, stream));
  }
  auto alpha = static_cast<float>(op.alpha), beta = static_cast<float>(op.beta);
  bool wide = op.compute == DType::F64;
  const void *alphaAt = wide ? static_cast<const void *>(&op.alpha) : &alpha;
  const void *betaAt = wide ? static_cast<const void *>(&op.beta) : &beta;
  for (int64_t j = 0; j < op.batch2; ++j) {
    const char *aAt = static_cast<const char *>(gemm.a) +
                      (op.aOffset + j * op.stride2A) * sizeOf(gemm.aType);
    const char *bAt = static_cast<const char *>(gemm.b) +
                      (op.bOffset + j * op.stride2B) * sizeOf(gemm.bType);
    if (op.fp8) {
      aAt = static_cast<const char *>(gemm.workspace) + kFp8HeadBytes;
      bAt = aAt + op.m * op.k;
    }
    char *cAt = static_cast<char *>(gemm.c) +
                (op.cOffset + j * op.stride2C) * sizeOf(gemm.cType);
    Status status =
        blas.check(blas.cublasLtMatmul(handle, r.what, alphaAt, bAt, r.b, aAt,
                                       r.a, betaAt, cAt, r.c, cAt, r.c, &r.how,
                                       workspace, kWorkspaceBytes, stream),
                   "cublasLtMatmul");
    if (!status.ok())
      return withKey(status, gemm);
  }
  return r.isSplit ? finish(gemm, stream) : Status::success();
}

} // namespace dpc::rt
