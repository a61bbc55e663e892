// The kernels of DeviceKernels::amax and fp8Codes. They compute the same bits
// as Fp8.cpp on CPUs. Fp8KernelTest.cpp compiles them for the host.
#ifndef DPC_RUNTIME_CUDA_FP8KERNELS_CUH
#define DPC_RUNTIME_CUDA_FP8KERNELS_CUH

#include "runtime/base/DType.h"

#include <cuda_fp8.h>

namespace {

// Eight consecutive bf16 elements of a row.
struct Eight {
  uint4 words;

  __device__ float at(int i) const {
    unsigned word = (&words.x)[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
};

__device__ Eight loadEight(const unsigned short *from) {
  Eight eight;
  if (reinterpret_cast<unsigned long long>(from) % 16 == 0) {
    eight.words = *reinterpret_cast<const uint4 *>(from);
    return eight;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    (&eight.words.x)[i] = from[2 * i] | static_cast<unsigned>(from[2 * i + 1])
                                            << 16;
  return eight;
}

constexpr unsigned kInfinity = 0x7f800000u;

// Returns the scale of a matrix, see Fp8Factors.
__device__ float scaleFor(unsigned amaxBits, dpc::rt::DType format) {
  if (amaxBits == 0 || amaxBits >= kInfinity)
    return 1;
  float largest = format == dpc::rt::DType::F8E4M3FN ? 448.0f : 57344.0f;
  return fminf(__fdiv_rn(largest, __uint_as_float(amaxBits)), 0x1p126f);
}

__device__ unsigned codeFor(float x, float scale, dpc::rt::DType format) {
  float scaled = __fmul_rn(x, scale);
  unsigned bits = __float_as_uint(scaled), magnitude = bits & 0x7fffffffu;
  bool isE4 = format == dpc::rt::DType::F8E4M3FN;
  if (magnitude > kInfinity)
    return isE4 ? 0x7f : 0x7e;
  if (magnitude == kInfinity)
    return (isE4 ? 0x7f : 0x7c) | (bits >> 31) << 7;
  return __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE,
                               isE4 ? __NV_E4M3 : __NV_E5M2);
}

__device__ bool isFirstThread() { return blockIdx.x == 0 && threadIdx.x == 0; }

} // namespace

extern "C" __global__ void dpcAmax(const void *matrix, void *to, long long rows,
                                   long long columns, long long ld) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  long long eights = columns / 8;
  unsigned most = 0;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * eights; i += step) {
    Eight eight = loadEight(static_cast<const unsigned short *>(matrix) +
                            i / eights * ld + i % eights * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      most = max(most, __float_as_uint(eight.at(j)) & 0x7fffffffu);
  }
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0)
    atomicMax(static_cast<unsigned *>(to), most);
}

extern "C" __global__ void dpcFp8(const void *matrix, const void *amaxBits,
                                  void *codes, void *inverse, long long rows,
                                  long long columns, long long ld,
                                  long long type) {
  auto format = static_cast<dpc::rt::DType>(type);
  float scale = scaleFor(*static_cast<const unsigned *>(amaxBits), format);
  if (isFirstThread())
    *static_cast<float *>(inverse) = __fdiv_rn(1.0f, scale);
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  long long eights = columns / 8;
  for (long long i =
           static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * eights; i += step) {
    Eight eight = loadEight(static_cast<const unsigned short *>(matrix) +
                            i / eights * ld + i % eights * 8);
    uint2 made = {0, 0};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      made.x |= codeFor(eight.at(j), scale, format) << 8 * j;
      made.y |= codeFor(eight.at(4 + j), scale, format) << 8 * j;
    }
    static_cast<uint2 *>(codes)[i] = made;
  }
}

// Each block transposes a 64 x 64 tile. Each thread reads eight elements of a
// row, then of another row, and writes sixteen elements of a column.
extern "C" __global__ void dpcFp8Transposed(const void *matrix,
                                            const void *amaxBits, void *codes,
                                            void *inverse, long long rows,
                                            long long columns, long long ld,
                                            long long type) {
  constexpr int kTile = 64, kPadded = kTile + 4;
  __shared__ __align__(4) unsigned char tile[kTile][kPadded];
  auto format = static_cast<dpc::rt::DType>(type);
  float scale = scaleFor(*static_cast<const unsigned *>(amaxBits), format);
  if (isFirstThread())
    *static_cast<float *>(inverse) = __fdiv_rn(1.0f, scale);
  long long across = (columns + kTile - 1) / kTile;
  long long top = blockIdx.x / across * kTile,
            left = blockIdx.x % across * kTile;
  int thread = static_cast<int>(threadIdx.x);
  for (int half = 0; half < 2; ++half) {
    int row = half * 32 + thread / 8, column = thread % 8 * 8;
    if (top + row >= rows || left + column >= columns)
      continue;
    Eight eight = loadEight(static_cast<const unsigned short *>(matrix) +
                            (top + row) * ld + left + column);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      tile[column + j][row] =
          static_cast<unsigned char>(codeFor(eight.at(j), scale, format));
  }
  __syncthreads();
  int column = thread / 4, row = thread % 4 * 16;
  if (top + row >= rows || left + column >= columns)
    return;
  uint4 made;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    (&made.x)[j] =
        *reinterpret_cast<const unsigned *>(&tile[column][row + 4 * j]);
  *reinterpret_cast<uint4 *>(static_cast<unsigned char *>(codes) +
                             (left + column) * rows + top + row) = made;
}

#endif // DPC_RUNTIME_CUDA_FP8KERNELS_CUH
