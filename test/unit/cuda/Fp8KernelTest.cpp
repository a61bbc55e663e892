//===- Fp8KernelTest.cpp - fp8 kernels, thread by thread ------------------===//
//
// The CUDA source is compiled for the host: each thread of a block is a host
// thread, and blocks run one after another.
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/Fp8.h"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <cuda_fp8.h>
#include <gtest/gtest.h>
#include <limits>
#include <mutex>
#include <thread>

namespace {

struct Index {
  unsigned x = 0;
};
thread_local Index threadIdx, blockIdx;
Index gridDim, blockDim;
std::barrier<> *block = nullptr;

float asFloat(unsigned bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
unsigned asBits(float value) {
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
void waitForBlock() { block->arrive_and_wait(); }
unsigned largestOfWarp(unsigned value) {
  static unsigned values[1024];
  values[threadIdx.x] = value;
  waitForBlock();
  unsigned first = threadIdx.x / 32 * 32;
  return *std::max_element(values + first, values + first + 32);
}
void atomicMax(unsigned *to, unsigned value) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  *to = std::max(*to, value);
}

} // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#undef __shared__
#define __shared__ static
#define __syncthreads waitForBlock
#define __uint_as_float asFloat
#define __float_as_uint asBits
#define __fdiv_rn(a, b) ((a) / (b))
#define __fmul_rn(a, b) ((a) * (b))
#define __reduce_max_sync(mask, value) largestOfWarp(value)
// NOLINTEND(bugprone-reserved-identifier)
using std::max;
#include "runtime/cuda/Fp8Kernels.cuh"

namespace dpc::rt::test {
namespace {

template <typename Kernel>
void launch(unsigned blocks, unsigned threads, Kernel &&kernel) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (unsigned b = 0; b < blocks; ++b) {
    std::barrier<> barrier(threads);
    block = &barrier;
    std::vector<std::thread> all;
    all.reserve(threads);
    for (unsigned t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        threadIdx.x = t;
        blockIdx.x = b;
        kernel();
        barrier.arrive_and_drop(); // waiting threads no longer count this one
      });
    for (std::thread &thread : all)
      thread.join();
  }
}

/// A matrix that begins at element `offset` of an array.
struct Case {
  int64_t rows, columns, ld, offset;
};

/// Returns numbers of many magnitudes, with `special` in the first row.
std::vector<uint16_t> numbers(const Case &shape, float special) {
  std::vector<uint16_t> values(shape.offset + shape.rows * shape.ld);
  for (size_t i = 0; i < values.size(); ++i) {
    int power = static_cast<int>(i * 31 % 40) - 20;
    double at = static_cast<double>(i * i % 7919);
    values[i] =
        floatToBf16(static_cast<float>(std::ldexp(std::sin(at), power)));
  }
  values[shape.offset + 5] = floatToBf16(special);
  return values;
}

void expectCodesOfTheCpu(const Case &shape, float special, DType format) {
  std::vector<uint16_t> values = numbers(shape, special);
  auto [rows, columns, ld, offset] = shape;
  StoredMatrix matrix{values.data() + offset, rows, columns, ld};
  unsigned bits = 0;
  launch(2, 64, [&, m = matrix.data] {
    dpcAmax(m, &bits, shape.rows, shape.columns, shape.ld);
  });
  ASSERT_EQ(bits, amaxBits(matrix));
  float scale = fp8Scale(bits, format);
  for (bool transposes : {false, true}) {
    constexpr uint8_t kUntouched = 0xee;
    int64_t count = rows * columns;
    std::vector<uint8_t> want(count + 64, kUntouched);
    struct alignas(64) Chunk {
      uint8_t bytes[64];
    };
    std::vector<Chunk> chunks(count / 64 + 1);
    std::memset(chunks.data(), kUntouched, chunks.size() * sizeof(Chunk));
    fp8Codes(matrix, scale, format, transposes, want.data());
    float inverse = 0;
    auto type = static_cast<long long>(format);
    auto tiles =
        static_cast<unsigned>((rows + 63) / 64 * ((columns + 63) / 64));
    launch(transposes ? tiles : 2, transposes ? 256 : 64, [&, m = matrix.data] {
      (transposes ? dpcFp8Transposed : dpcFp8)(m, &bits, chunks.data(),
                                               &inverse, shape.rows,
                                               shape.columns, shape.ld, type);
    });
    EXPECT_EQ(inverse, 1 / scale);
    ASSERT_EQ(std::memcmp(chunks.data(), want.data(), count / 64 * 64 + 64), 0)
        << rows << " x " << columns << (transposes ? " transposed" : "");
  }
}

TEST(Fp8Kernels, MatchTheCodesOfTheCpu) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Case &shape : {Case{16, 16, 16, 0},
                            {32, 48, 56, 8},
                            {80, 144, 150, 3},
                            {64, 64, 64, 0},
                            {176, 16, 24, 1}})
    for (float special : {0.5f, 3e38f, -0.0f, 0x1p-130f, -kInf, std::nanf("")})
      for (DType format : {DType::F8E4M3FN, DType::F8E5M2})
        expectCodesOfTheCpu(shape, special, format);
}

} // namespace
} // namespace dpc::rt::test
