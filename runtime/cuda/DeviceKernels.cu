// The kernels of DeviceKernels.h. They are compiled without fma contraction, so
// that sums have the same bits as on CPUs.
#include "runtime/base/DType.h"
#include "runtime/base/Group.h"
#include "runtime/cuda/Fp8Kernels.cuh"
#include "runtime/cuda/TensorCores.cuh"
#include "runtime/plan/PlanEpilogue.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// It uses the functions of TensorCores.cuh.
#include "runtime/cuda/ExpertKernels.cuh"

namespace {

using dpc::rt::DType;
using dpc::rt::Epilogue;
using dpc::rt::ReduceKind;

constexpr int kMostParts = 16;

struct Parts {
  const void *of[kMostParts];
};

// The result is NaN if an operand is NaN, as on CPUs.
template <typename T> __device__ T combine(T a, T b, ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Max:
    return a > b || a != a ? a : b;
  case ReduceKind::Min:
    return a < b || a != a ? a : b;
  case ReduceKind::Prod:
    return a * b;
  default:
    return a + b;
  }
}

template <typename Stored, typename Wide>
__device__ void reduce(Stored *out, const Parts &parts, long long members,
                       long long first, long long count, ReduceKind kind,
                       double scale) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    Wide all = 0;
    for (long long p = 0; p < members; ++p) {
      Wide value = static_cast<Wide>(
          static_cast<const Stored *>(parts.of[p])[first + i]);
      if (scale != 1)
        value = static_cast<Wide>(scale) * value;
      all = p == 0 ? value : combine(all, value, kind);
    }
    out[i] = static_cast<Stored>(all);
  }
}

__device__ float geluTanh(float x) {
  return tanhf(0.79788456f * (x + 0.044715f * x * x * x));
}

__device__ float geluGrad(float x) {
  float t = geluTanh(x);
  return 0.5f * (1 + t) +
         0.5f * x * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x * x);
}

template <typename T>
__device__ void epilogue(T *c, const T *bias, T *aux, long long rows,
                         long long columns, long long ldc, long long auxLd,
                         Epilogue kind) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * columns; i += step) {
    long long row = i / columns, column = i % columns;
    T *at = c + row * ldc + column;
    float value = static_cast<float>(*at);
    if (readsBias(kind))
      value += static_cast<float>(bias[column]);
    if (writesAux(kind))
      aux[row * auxLd + column] = static_cast<T>(value);
    if (readsAux(kind))
      value *= geluGrad(static_cast<float>(aux[row * auxLd + column]));
    else if (kind == Epilogue::Relu || kind == Epilogue::ReluBias)
      value = value < 0 ? 0 : value;
    else if (kind != Epilogue::Bias)
      value = 0.5f * value * (1 + geluTanh(value));
    *at = static_cast<T>(value);
  }
}

template <typename From, typename To>
__device__ void sumColumns(const From *matrix, To *to, long long rows,
                           long long columns, long long ld) {
  __shared__ float parts[8][32];
  int lane = static_cast<int>(threadIdx.x) % 32;
  int warp = static_cast<int>(threadIdx.x) / 32;
  long long column = static_cast<long long>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < columns)
    for (long long row = warp; row < rows; row += 8)
      sum += static_cast<float>(matrix[row * ld + column]);
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns)
    return;
  for (int other = 1; other < 8; ++other)
    sum += parts[other][lane];
  to[column] = static_cast<To>(sum);
}

// An element of F8E4M3FNUZ or F8E5M2FNUZ, for findNan(). The code 0x80, the
// only NaN, converts to NaN. All other codes convert to 0.
struct ZeroFloat {
  unsigned char bits;
  __device__ explicit operator float() const {
    return bits == 0x80 ? __int_as_float(0x7fffffff) : 0.0f;
  }
};

template <typename T>
__device__ void findNan(const T *data, int *flag, long long count,
                        bool infinitiesToo) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step) {
    auto value = static_cast<float>(data[i]);
    if (value != value || (infinitiesToo && fabsf(value) > 0x1.fffffep127f))
      *flag = 1; // all threads write the same value
  }
}

} // namespace

extern "C" __global__ void dpcEpilogue(void *c, const void *bias, void *aux,
                                       long long rows, long long columns,
                                       long long ldc, long long auxLd,
                                       long long type, long long kind) {
#define FINISH(TYPE, T)                                                        \
  case DType::TYPE:                                                            \
    return epilogue<T>(static_cast<T *>(c), static_cast<const T *>(bias),      \
                       static_cast<T *>(aux), rows, columns, ldc, auxLd,       \
                       static_cast<Epilogue>(kind));
  switch (static_cast<DType>(type)) {
    FINISH(F32, float)
    FINISH(BF16, __nv_bfloat16)
    FINISH(F16, __half)
  default:
    __trap();
  }
}

extern "C" __global__ void dpcSumColumns(const void *matrix, void *to,
                                         long long rows, long long columns,
                                         long long ld, long long type,
                                         long long toType) {
#define SUM(FROM, From, TO, To)                                                \
  if (static_cast<DType>(type) == DType::FROM &&                               \
      static_cast<DType>(toType) == DType::TO)                                 \
    return sumColumns<From, To>(static_cast<const From *>(matrix),             \
                                static_cast<To *>(to), rows, columns, ld);
  SUM(F32, float, F32, float)
  SUM(BF16, __nv_bfloat16, BF16, __nv_bfloat16)
  SUM(BF16, __nv_bfloat16, F32, float)
  SUM(F16, __half, F16, __half)
  SUM(F16, __half, F32, float)
  __trap();
}

extern "C" __global__ void dpcFindNan(const void *data, void *flag,
                                      long long count, long long type,
                                      long long infinitiesToo) {
#define FIND(TYPE, T)                                                          \
  case DType::TYPE:                                                            \
    return findNan(static_cast<const T *>(data), static_cast<int *>(flag),     \
                   count, infinitiesToo != 0);
  switch (static_cast<DType>(type)) {
    FIND(F32, float)
    FIND(F64, double)
    FIND(BF16, __nv_bfloat16)
    FIND(F16, __half)
    FIND(F8E4M3FN, __nv_fp8_e4m3)
    FIND(F8E5M2, __nv_fp8_e5m2)
    FIND(F8E4M3FNUZ, ZeroFloat)
    FIND(F8E5M2FNUZ, ZeroFloat)
  default:
    __trap();
  }
}

#define PART(i) const void *p##i

extern "C" __global__ void
dpcReduce(void *out, PART(0), PART(1), PART(2), PART(3), PART(4), PART(5),
          PART(6), PART(7), PART(8), PART(9), PART(10), PART(11), PART(12),
          PART(13), PART(14), PART(15), long long members, long long first,
          long long count, long long type, long long kind,
          long long scaleBits) {
  Parts parts = {
      {p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15}};
  double scale = __longlong_as_double(scaleBits);
#define CASE(TYPE, STORED, WIDE)                                               \
  case DType::TYPE:                                                            \
    return reduce<STORED, WIDE>(static_cast<STORED *>(out), parts, members,    \
                                first, count, static_cast<ReduceKind>(kind),   \
                                scale);
  switch (static_cast<DType>(type)) {
    CASE(F32, float, float)
    CASE(F64, double, double)
    CASE(BF16, __nv_bfloat16, float)
    CASE(F16, __half, float)
    CASE(I64, long long, long long)
    CASE(I32, int, int)
  default:
    __trap();
  }
}

extern "C" __global__ void dpcFill(void *to, long long count, long long width,
                                   long long bits) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < count; i += step)
    switch (width) {
    case 1:
      static_cast<unsigned char *>(to)[i] = static_cast<unsigned char>(bits);
      break;
    case 2:
      static_cast<unsigned short *>(to)[i] = static_cast<unsigned short>(bits);
      break;
    case 4:
      static_cast<unsigned *>(to)[i] = static_cast<unsigned>(bits);
      break;
    default:
      static_cast<long long *>(to)[i] = bits;
    }
}
