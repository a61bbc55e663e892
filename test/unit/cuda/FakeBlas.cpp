#include "test/unit/cuda/FakeBlas.h"

#include "runtime/comm/Reduce.h"
#include "runtime/kernels/Epilogue.h"
#include "runtime/kernels/Fp8.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/observe/NumberCheck.h"
#include "test/unit/cuda/FakeCuda.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

namespace dpc::rt::test {

namespace {

struct FakeLayout {
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0, stride = 0;
  int32_t batch = 1;
};
struct FakeDesc {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
  void *aScale = nullptr, *bScale = nullptr;
  int8_t fastSums = 0;
  cudaDataType biasType = CUDA_R_32F;
};

/// Converts cuBLASLt's epilogue to the plan's. A and B are exchanged, because
/// cuBLASLt's matrices are column-major.
std::optional<Epilogue> epilogueOf(const FakeDesc &what) {
  static constexpr std::pair<cublasLtEpilogue_t, Epilogue> all[] = {
      {CUBLASLT_EPILOGUE_DEFAULT, Epilogue::None},
      {CUBLASLT_EPILOGUE_BIAS, Epilogue::Bias},
      {CUBLASLT_EPILOGUE_RELU, Epilogue::Relu},
      {CUBLASLT_EPILOGUE_RELU_BIAS, Epilogue::ReluBias},
      {CUBLASLT_EPILOGUE_GELU, Epilogue::Gelu},
      {CUBLASLT_EPILOGUE_GELU_BIAS, Epilogue::GeluBias},
      {CUBLASLT_EPILOGUE_GELU_AUX, Epilogue::GeluAux},
      {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, Epilogue::GeluAuxBias},
      {CUBLASLT_EPILOGUE_DGELU, Epilogue::GeluGrad},
      {CUBLASLT_EPILOGUE_DGELU_BGRAD, Epilogue::GeluGradBias},
      {CUBLASLT_EPILOGUE_BGRADB, Epilogue::SumsOfA},
      {CUBLASLT_EPILOGUE_BGRADA, Epilogue::SumsOfB}};
  for (auto [own, epilogue] : all)
    if (static_cast<uint32_t>(own) == what.epilogue)
      return epilogue;
  return std::nullopt;
}

/// Checks what cuBLASLt's header requires of an epilogue's operands.
bool isWhole(const FakeDesc &what, const FakeLayout &out) {
  auto e = epilogueOf(what);
  if (!e)
    return false;
  bool hasBias = readsBias(*e) || writesBias(*e);
  bool hasAux = readsAux(*e) || writesAux(*e);
  return (!hasBias || what.bias) &&
         (!hasAux || (what.aux && what.auxLd % 8 == 0 &&
                      what.auxLd >= static_cast<int64_t>(out.rows) &&
                      reinterpret_cast<uintptr_t>(what.aux) % 16 == 0));
}

struct FakeHandle {
  size_t number = 0;
};
struct Routines {
  std::mutex mutex;
  std::vector<double> microseconds = {3, 1, 2};
  std::vector<int> last; ///< by handle
  cublasStatus_t epilogues = CUBLAS_STATUS_SUCCESS;
  int gemms = 0;
};
Routines &routines() {
  static Routines all;
  return all;
}

/// Returns the index of a routine, or -1.
int routineOf(const cublasLtMatmulAlgo_t &how) {
  bool good = how.data[0] < routines().microseconds.size();
  for (uint64_t word : {1, 2, 3, 4, 5, 6, 7})
    good &= how.data[word] == ~word;
  return good ? static_cast<int>(how.data[0]) : -1;
}

DType typeOf(cudaDataType type) {
  return type == CUDA_R_64F       ? DType::F64
         : type == CUDA_R_16BF    ? DType::BF16
         : type == CUDA_R_16F     ? DType::F16
         : type == CUDA_R_8F_E4M3 ? DType::F8E4M3FN
         : type == CUDA_R_8F_E5M2 ? DType::F8E5M2
                                  : DType::F32;
}

bool isFp8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// Checks the requirements of fp8 GEMMs on Hopper: k is the first dimension of
/// both operands, sizes are multiples of 16, both operands have a scale, not
/// both are E5M2, and the epilogue is not a sum. Also checks that the plugin
/// chose fast accumulation only without gradients (E5M2).
bool takesFp8(const FakeDesc &what, const FakeLayout &a, const FakeLayout &b,
              const FakeLayout &d) {
  auto e = epilogueOf(what);
  bool sums = !e || *e == Epilogue::SumsOfA || *e == Epilogue::SumsOfB ||
              *e == Epilogue::GeluGradBias;
  bool hasGradient = a.type == CUDA_R_8F_E5M2 || b.type == CUDA_R_8F_E5M2;
  bool sixteens = true;
  for (auto size :
       {static_cast<int64_t>(a.rows), static_cast<int64_t>(a.columns),
        static_cast<int64_t>(b.columns), a.ld, b.ld})
    sixteens &= size % 16 == 0;
  return isFp8(b.type) && what.a == CUBLAS_OP_T && what.b == CUBLAS_OP_N &&
         sixteens && d.ld % 8 == 0 && what.aScale && what.bScale && !sums &&
         (a.type != CUDA_R_8F_E5M2 || b.type != CUDA_R_8F_E5M2) &&
         what.fastSums != hasGradient;
}

/// Returns whether a matrix is empty or no routine has these types. The bias of
/// an fp8 GEMM must be bf16.
bool isImpossible(const FakeDesc &what, const FakeLayout &a,
                  const FakeLayout &b, const FakeLayout &d) {
  for (const FakeLayout *layout : {&a, &b, &d})
    if (layout->rows == 0 || layout->columns == 0 || layout->batch == 0)
      return true;
  bool isCoded = isFp8(a.type);
  if (isCoded)
    return what.bias && what.biasType != CUDA_R_16BF;
  bool isWide = what.compute == CUBLAS_COMPUTE_64F;
  return a.type != b.type || isWide != (a.type == CUDA_R_64F) ||
         (d.type != a.type && (isWide || d.type != CUDA_R_32F));
}

cublasStatus_t answerTo(cublasLtMatmulDesc_t desc,
                        cublasLtMatrixLayout_t aLayout,
                        cublasLtMatrixLayout_t bLayout,
                        cublasLtMatrixLayout_t dLayout) {
  const auto &what = as<FakeDesc>(desc);
  const auto &a = as<FakeLayout>(aLayout);
  const auto &b = as<FakeLayout>(bLayout);
  const auto &d = as<FakeLayout>(dLayout);
  if (isImpossible(what, a, b, d))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool isTaken =
      (what.epilogue == CUBLASLT_EPILOGUE_DEFAULT || isWhole(what, d)) &&
      (!isFp8(a.type) || takesFp8(what, a, b, d));
  return isTaken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// Buffers: out, parts.
void reduceKernel(void *const *buffers, const int64_t *scalars) {
  double scale = 1;
  std::memcpy(&scale, scalars + 5, sizeof scale);
  auto type = static_cast<DType>(scalars[3]);
  auto kind = static_cast<ReduceKind>(scalars[4]);
  std::vector<const void *> parts(buffers + 1, buffers + 1 + scalars[0]);
  if (scale == 1)
    return reduceParts(parts, buffers[0], scalars[1], scalars[2], type, kind);
  std::vector<std::vector<char>> scaled;
  for (const void *&part : parts) {
    auto &copy = scaled.emplace_back(scalars[2] * sizeOf(type));
    for (int64_t i = 0; i < scalars[2]; ++i)
      storeFromDouble(copy.data(), type, i,
                      scale * loadAsDouble(part, type, scalars[1] + i));
    part = copy.data();
  }
  reduceParts(parts, buffers[0], 0, scalars[2], type, kind);
}

void fillKernel(void *const *buffers, const int64_t *scalars) {
  auto *to = static_cast<char *>(buffers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    std::memcpy(to + i * scalars[1], scalars + 2, scalars[1]);
}

/// Buffers: c, bias, aux.
void epilogueKernel(void *const *buffers, const int64_t *scalars) {
  MatmulOp op;
  op.m = scalars[0];
  op.n = scalars[1];
  op.ldc = scalars[2];
  op.auxLd = scalars[3];
  auto type = static_cast<DType>(scalars[4]);
  op.epilogue = static_cast<Epilogue>(scalars[5]);
  bool sumsToo = op.epilogue == Epilogue::GeluGradBias;
  if (sumsToo)
    op.epilogue = Epilogue::GeluGrad;
  std::vector<float> sums(op.m * op.n);
  for (int64_t i = 0; i < op.m * op.n; ++i)
    sums[i] = static_cast<float>(
        loadAsDouble(buffers[0], type, i / op.n * op.ldc + i % op.n));
  finishGemm(op, sums, {buffers[0], buffers[1], buffers[2], type});
}

/// Buffers: matrix, sums.
void sumColumnsKernel(void *const *buffers, const int64_t *scalars) {
  sumColumns(buffers[0], static_cast<DType>(scalars[3]), 0, scalars[0],
             scalars[1], scalars[2], buffers[1], static_cast<DType>(scalars[4]),
             0);
}

/// Buffers: data, flag.
void findNanKernel(void *const *buffers, const int64_t *scalars) {
  auto type = static_cast<DType>(scalars[1]);
  int isFound = firstNan(buffers[0], type, scalars[0]) >= 0;
  for (int64_t i = 0; scalars[2] != 0 && i < scalars[0]; ++i)
    isFound |= std::isinf(loadAsDouble(buffers[0], type, i));
  std::memcpy(buffers[1], &isFound, sizeof isFound);
}

dpc::rt::StoredMatrix storedMatrix(void *const *buffers,
                                   const int64_t *scalars) {
  return {static_cast<const uint16_t *>(buffers[0]), scalars[0], scalars[1],
          scalars[2]};
}

/// Buffers: matrix, bits.
void amaxKernel(void *const *buffers, const int64_t *scalars) {
  auto *bits = static_cast<uint32_t *>(buffers[1]);
  *bits = std::max(*bits, dpc::rt::amaxBits(storedMatrix(buffers, scalars)));
}

/// Buffers: matrix, bits, codes, inverse.
template <bool transposes>
void fp8Kernel(void *const *buffers, const int64_t *scalars) {
  auto format = static_cast<DType>(scalars[3]);
  float scale = dpc::rt::fp8Scale(*static_cast<uint32_t *>(buffers[1]), format);
  *static_cast<float *>(buffers[3]) = 1 / scale;
  dpc::rt::fp8Codes(storedMatrix(buffers, scalars), scale, format, transposes,
                    static_cast<uint8_t *>(buffers[2]));
}

/// `op` describes the GEMM with row-major operands; `a` and `b` are cuBLASLt's.
void multiplyFp8(const MatmulOp &op, const FakeDesc &what, const void *a,
                 DType aType, const void *b, DType bType, void *d, DType type) {
  auto codes = [](const void *at, DType format, const void *scale) {
    return dpc::rt::Fp8Codes{static_cast<const uint8_t *>(at), format,
                             *static_cast<const float *>(scale)};
  };
  auto left = codes(b, bType, what.bScale),
       right = codes(a, aType, what.aScale);
  if (op.epilogue == Epilogue::None) {
    (void)multiplyCodes(op, left, right, d, type).ok();
    return;
  }
  MatmulOp plain = op;
  plain.ldc = op.n;
  std::vector<float> sums(op.m * op.n);
  (void)multiplyCodes(plain, left, right, sums.data(), DType::F32).ok();
  finishGemm(op, sums, {d, what.bias, what.aux, type});
}

} // namespace

void addRuntimeKernels() {
  addFakeKernel("dpcReduce", reduceKernel, 17, 6);
  addFakeKernel("dpcFill", fillKernel, 1, 3);
  addFakeKernel("dpcEpilogue", epilogueKernel, 3, 6);
  addFakeKernel("dpcSumColumns", sumColumnsKernel, 2, 5);
  addFakeKernel("dpcFindNan", findNanKernel, 2, 3);
  addFakeKernel("dpcAmax", amaxKernel, 2, 3);
  addFakeKernel("dpcFp8", fp8Kernel<false>, 4, 4);
  addFakeKernel("dpcFp8Transposed", fp8Kernel<true>, 4, 4);
  addExpertKernels();
}

void refuseFakeEpilogues(cublasStatus_t how) {
  std::lock_guard lock(routines().mutex);
  routines().epilogues = how;
}

void setFakeRoutines(std::vector<double> microseconds) {
  std::lock_guard lock(routines().mutex);
  routines().microseconds = std::move(microseconds);
  routines().last.clear();
  routines().gemms = 0;
}

std::vector<int> lastFakeRoutines() {
  std::lock_guard lock(routines().mutex);
  return routines().last;
}

int fakeGemms() {
  std::lock_guard lock(routines().mutex);
  return routines().gemms;
}

BlasApi fakeBlasApi() {
  BlasApi api;
  api.link();
  return api;
}

} // namespace dpc::rt::test

using namespace dpc::rt::test;
using dpc::rt::DType;

// NOLINTBEGIN(readability-identifier-naming): cuBLASLt's names
extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  std::lock_guard lock(routines().mutex);
  make<FakeHandle>(handle, routines().last.size());
  routines().last.push_back(-1);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  destroy<FakeHandle>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusString(cublasStatus_t) {
  return "an error of the fake";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t) {
  make<FakeDesc>(desc, compute);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  destroy<FakeDesc>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t which,
                               const void *value, size_t bytes) {
  auto &own = as<FakeDesc>(desc);
  auto place = [](auto &member) {
    return std::pair(static_cast<void *>(&member), sizeof member);
  };
  std::map<cublasLtMatmulDescAttributes_t, std::pair<void *, size_t>> places = {
      {CUBLASLT_MATMUL_DESC_TRANSA, place(own.a)},
      {CUBLASLT_MATMUL_DESC_TRANSB, place(own.b)},
      {CUBLASLT_MATMUL_DESC_EPILOGUE, place(own.epilogue)},
      {CUBLASLT_MATMUL_DESC_BIAS_POINTER, place(own.bias)},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, place(own.aux)},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, place(own.auxLd)},
      {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, place(own.aScale)},
      {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, place(own.bScale)},
      {CUBLASLT_MATMUL_DESC_FAST_ACCUM, place(own.fastSums)},
      {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, place(own.biasType)}};
  auto it = places.find(which);
  if (it == places.end() || it->second.second != bytes)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(it->second.first, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  if (ld < static_cast<int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  make<FakeLayout>(layout, type, rows, columns, ld);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  destroy<FakeLayout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t which,
                                 const void *value, size_t) {
  auto &own = as<FakeLayout>(layout);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    own.batch = *static_cast<const int32_t *>(value);
  else
    own.stride = *static_cast<const int64_t *>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wishes) {
  *wishes = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t,
                                     const void *, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t aLayout,
    cublasLtMatrixLayout_t bLayout, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t dLayout, cublasLtMatmulPreference_t, int most,
    cublasLtMatmulHeuristicResult_t found[], int *count) {
  std::lock_guard lock(routines().mutex);
  bool hasEpilogue = as<FakeDesc>(desc).epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (hasEpilogue && routines().epilogues != CUBLAS_STATUS_SUCCESS)
    return routines().epilogues;
  if (auto answer = answerTo(desc, aLayout, bLayout, dLayout);
      answer != CUBLAS_STATUS_SUCCESS)
    return answer;
  int all = static_cast<int>(routines().microseconds.size());
  for (*count = 0; *count < std::min(most, all); ++*count) {
    found[*count] = {};
    found[*count].algo.data[0] = static_cast<uint64_t>(*count);
    for (uint64_t word = 1; word < 8; ++word)
      found[*count].algo.data[word] = ~word;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t aLayout,
    cublasLtMatrixLayout_t bLayout, cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *how,
    cublasLtMatmulHeuristicResult_t *) {
  if (auto answer = answerTo(desc, aLayout, bLayout, dLayout);
      answer != CUBLAS_STATUS_SUCCESS)
    return answer;
  std::lock_guard lock(routines().mutex);
  return routineOf(*how) >= 0 ? CUBLAS_STATUS_SUCCESS
                              : CUBLAS_STATUS_NOT_SUPPORTED;
}

/// Counts a GEMM. Returns how many microseconds routine `how` takes, or nullopt
/// if there is no such routine.
static std::optional<double> takeRoutine(const FakeHandle &handle,
                                         const cublasLtMatmulAlgo_t &how) {
  std::lock_guard lock(routines().mutex);
  int routine = routineOf(how);
  if (routine < 0)
    return std::nullopt;
  auto count = static_cast<size_t>(routines().microseconds.size());
  if (handle.number < routines().last.size())
    routines().last[handle.number] = routine;
  ++routines().gemms;
  return routines().microseconds[(routine + handle.number) % count];
}

/// Returns all elements of a layout, rounded to TF32.
static std::vector<float> inTf32(const void *from, const FakeLayout &layout) {
  auto columns = static_cast<int64_t>(layout.columns);
  auto rows = static_cast<int64_t>(layout.rows);
  std::vector<float> values((layout.batch - 1) * layout.stride +
                            (columns - 1) * layout.ld + rows);
  std::memcpy(values.data(), from, values.size() * sizeof(float));
  for (float &value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000) & ~uint32_t(0x1fff);
    std::memcpy(&value, &bits, sizeof bits);
  }
  return values;
}

/// Converts column-major D = op(A) op(B) to row-major D' = op(B)' op(A)'.
/// Returns nullopt if the layouts do not fit.
static std::optional<dpc::rt::MatmulOp> gemmOf(const FakeDesc &what,
                                               const FakeLayout &first,
                                               const FakeLayout &second,
                                               const FakeLayout &out) {
  dpc::rt::MatmulOp op;
  op.m = static_cast<int64_t>(out.columns);
  op.n = static_cast<int64_t>(out.rows);
  op.transA = what.b != CUBLAS_OP_N;
  op.transB = what.a != CUBLAS_OP_N;
  op.k = static_cast<int64_t>(op.transB ? first.rows : first.columns);
  if (!isWhole(what, out) ||
      op.k != static_cast<int64_t>(op.transA ? second.columns : second.rows))
    return std::nullopt;
  op.epilogue = *epilogueOf(what);
  op.auxLd = what.auxLd;
  op.lda = second.ld;
  op.ldb = first.ld;
  op.ldc = out.ld;
  op.batch = out.batch;
  op.strideA = second.stride;
  op.strideB = first.stride;
  op.strideC = out.stride;
  return op;
}

cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
               const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
               const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
               const void *c, cublasLtMatrixLayout_t, void *d,
               cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *how,
               void *, size_t, cudaStream_t stream) {
  const auto &what = as<FakeDesc>(desc);
  const auto &first = as<FakeLayout>(aLayout);
  const auto &second = as<FakeLayout>(bLayout);
  const auto &out = as<FakeLayout>(dLayout);
  bool wide = what.compute == CUBLAS_COMPUTE_64F;
  auto scalar = [&](const void *at) {
    return wide ? *static_cast<const double *>(at)
                : static_cast<double>(*static_cast<const float *>(at));
  };
  if (auto answer = answerTo(desc, aLayout, bLayout, dLayout);
      answer != CUBLAS_STATUS_SUCCESS)
    return answer;
  auto found = gemmOf(what, first, second, out);
  if (c != d || !found)
    return CUBLAS_STATUS_INVALID_VALUE;
  dpc::rt::MatmulOp op = *found;
  op.alpha = scalar(alpha);
  op.beta = scalar(beta);
  DType type = typeOf(first.type), outType = typeOf(out.type);
  bool isCoded = isFp8(first.type);
  if (isCoded && (reinterpret_cast<uintptr_t>(a) % 16 != 0 ||
                  reinterpret_cast<uintptr_t>(b) % 16 != 0))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  op.compute = wide ? DType::F64 : type == DType::F32 ? DType::F32 : type;
  std::optional<double> microseconds =
      takeRoutine(as<FakeHandle>(handle), *how);
  if (!microseconds)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  enqueueOn(
      stream,
      [=, bias = what.bias, aux = what.aux, bType = typeOf(second.type),
       rounds = what.compute == CUBLAS_COMPUTE_32F_FAST_TF32] {
        if (isCoded)
          return multiplyFp8(op, what, a, type, b, bType, d, outType);
        std::vector<float> left, right;
        if (rounds) {
          left = inTf32(b, second);
          right = inTf32(a, first);
        }
        (void)dpc::rt::runMatmul(op, rounds ? left.data() : b, type,
                                 rounds ? right.data() : a, type, d, outType,
                                 bias, aux)
            .ok();
      },
      *microseconds);
  return CUBLAS_STATUS_SUCCESS;
}
}
// NOLINTEND(readability-identifier-naming)
