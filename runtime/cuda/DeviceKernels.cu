// The runtime's own kernels, see DeviceKernels.h. Compiled without contraction
// to fma, so that sums have the bits of the CPU's.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

constexpr int kMostParts = 16;

struct Parts {
  const void *of[kMostParts];
};

// The values of DType and ReduceKind.
enum Type { F32, F64, BF16, F16, I64, I32 };
enum Kind { Sum, Max, Min, Prod };

// A NaN on either side wins, as on the CPU.
template <typename T> __device__ T combine(T a, T b, long long kind) {
  switch (kind) {
  case Max:
    return a > b || a != a ? a : b;
  case Min:
    return a < b || a != a ? a : b;
  case Prod:
    return a * b;
  default:
    return a + b;
  }
}

template <typename Stored, typename Wide>
__device__ void reduce(Stored *out, const Parts &parts, long long members,
                       long long first, long long count, long long kind,
                       double scale) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x +
                     threadIdx.x;
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

} // namespace

#define PART(i) const void *p##i

extern "C" __global__ void
dpcReduce(void *out, PART(0), PART(1), PART(2), PART(3), PART(4), PART(5),
          PART(6), PART(7), PART(8), PART(9), PART(10), PART(11), PART(12),
          PART(13), PART(14), PART(15), long long members, long long first,
          long long count, long long type, long long kind,
          long long scaleBits) {
  Parts parts = {{p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13,
                  p14, p15}};
  double scale = __longlong_as_double(scaleBits);
#define CASE(TYPE, STORED, WIDE)                                               \
  case TYPE:                                                                   \
    return reduce<STORED, WIDE>(static_cast<STORED *>(out), parts, members,    \
                                first, count, kind, scale);
  switch (type) {
    CASE(F32, float, float)
    CASE(F64, double, double)
    CASE(BF16, __nv_bfloat16, float)
    CASE(F16, __half, float)
    CASE(I64, long long, long long)
    CASE(I32, int, int)
  }
}

extern "C" __global__ void dpcFill(void *to, long long count, long long width,
                                   long long bits) {
  long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x +
                     threadIdx.x;
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
