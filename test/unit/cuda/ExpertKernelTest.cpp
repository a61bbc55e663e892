//===- ExpertKernelTest.cpp - products of experts, thread by thread -------===//
//
// The CUDA source is compiled for the host (KernelBlock.h), and DeviceKernels
// launches it. The results equal those of the CPU's kernel.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/cuda/DeviceKernels.h"
#include "runtime/plan/PlanExperts.h"
#include "test/unit/cuda/KernelBlock.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>

//===----------------------------------------------------------------------===//
// What the source needs on the host
//===----------------------------------------------------------------------===//

namespace {

using dpc::rt::test::valuesOfWarp;

int sumOfWarp(int value) {
  const int *all = valuesOfWarp(value);
  return std::accumulate(all, all + 32, 0);
}
unsigned votesOfWarp(bool vote) {
  const bool *all = valuesOfWarp(vote);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    bits |= static_cast<unsigned>(all[lane]) << lane;
  return bits;
}

// The functions of TensorCores.cuh.
void copyAsync(void *shared, const void *global, bool isValid) {
  dpc::rt::test::beginCopy(shared, isValid ? global : nullptr);
}
void commitCopies() { dpc::rt::test::commitGroup(); }
template <int kPending> void waitForCopies() {
  dpc::rt::test::waitForGroups(kPending);
}

template <bool kTransposes>
void loadMatrices(unsigned (&to)[4], const void *row) {
  const void *const *rows = valuesOfWarp(row);
  unsigned lane = dpc::rt::test::threadOfKernel.x % 32;
  auto at = [&](unsigned matrix, unsigned r, unsigned c) -> unsigned {
    if (kTransposes)
      std::swap(r, c);
    return static_cast<const uint16_t *>(rows[8 * matrix + r])[c];
  };
  for (unsigned i = 0; i < 4; ++i)
    to[i] = at(i, lane / 4, lane % 4 * 2) | at(i, lane / 4, lane % 4 * 2 + 1)
                                                << 16;
}

/// The operands of a lane for multiplyAdd().
struct Operands {
  unsigned a[4], b[2];
};

/// Returns the low or the high half of a register.
template <typename T> float halfOf(unsigned bits, unsigned half) {
  auto own = static_cast<uint16_t>(bits >> 16 * half);
  return static_cast<float>(std::bit_cast<T>(own));
}

/// Lane 4 r + c holds rows r and r + 8 of A and of the sums, and column r of B.
/// Of these it holds the elements 2 c and 2 c + 1, and of A and B also those 8
/// positions further.
template <typename T>
void multiplyAdd(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                 unsigned b1) {
  const Operands *all =
      valuesOfWarp(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  unsigned lane = dpc::rt::test::threadOfKernel.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k)
      sums[i] += halfOf<T>(all[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2],
                           k % 2) *
                 halfOf<T>(all[column * 4 + k % 8 / 2].b[k / 8], k % 2);
  }
}

} // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __syncthreads dpc::rt::test::waitForBlock
#define __reduce_add_sync(mask, value) sumOfWarp(value)
#define __ballot_sync(mask, value) votesOfWarp(value)
#define __popc(value) std::popcount(value)
// NOLINTEND(bugprone-reserved-identifier)
#define threadIdx dpc::rt::test::threadOfKernel
#define blockIdx dpc::rt::test::blockOfKernel
using std::fma;
using std::min;
#include "runtime/cuda/ExpertKernels.cuh"
#include "test/unit/runtime/SmallIntegers.h"
#undef threadIdx
#undef blockIdx

namespace dpc::rt::test {
namespace {

//===----------------------------------------------------------------------===//
// A CUDA runtime that can only launch these kernels
//===----------------------------------------------------------------------===//

using Launch = std::function<void(void **)>;

template <typename... P> Launch launchOf(void (*kernel)(P...)) {
  return [kernel](void **arguments) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      kernel(*static_cast<std::remove_const_t<P> *>(arguments[I])...);
    }(std::index_sequence_for<P...>());
  };
}

std::map<std::string, Launch> &kernels() {
  static std::map<std::string, Launch> all = {
      {"dpcExpertOrder", launchOf(dpcExpertOrder)},
      {"dpcExpertForwardF32", launchOf(dpcExpertForwardF32)},
      {"dpcExpertForwardF64", launchOf(dpcExpertForwardF64)},
      {"dpcExpertForwardBF16", launchOf(dpcExpertForwardBF16)},
      {"dpcExpertForwardF16", launchOf(dpcExpertForwardF16)},
      {"dpcExpertGradientF32", launchOf(dpcExpertGradientF32)},
      {"dpcExpertGradientF64", launchOf(dpcExpertGradientF64)},
      {"dpcExpertGradientBF16", launchOf(dpcExpertGradientBF16)},
      {"dpcExpertGradientF16", launchOf(dpcExpertGradientF16)}};
  return all;
}

BlockOrder blockOrder;
std::string fault;
std::vector<unsigned> launchedBlocks;

CudaApi hostCuda() {
  CudaApi api;
  api.cudaLibraryLoadData = [](cudaLibrary_t *, const void *, cudaJitOption *,
                               void **, unsigned, cudaLibraryOption *, void **,
                               unsigned) { return cudaSuccess; };
  api.cudaLibraryUnload = [](cudaLibrary_t) { return cudaSuccess; };
  api.cudaLibraryGetKernel = [](cudaKernel_t *kernel, cudaLibrary_t,
                                const char *name) {
    *kernel = reinterpret_cast<cudaKernel_t>(&kernels()[name]);
    return cudaSuccess;
  };
  api.cudaLaunchKernel = [](const void *kernel, dim3 blocks, dim3 threads,
                            void **arguments, size_t, cudaStream_t) {
    launchedBlocks.push_back(blocks.x);
    fault += runKernel(blocks.x, threads.x, blockOrder, [&] {
      (*static_cast<const Launch *>(kernel))(arguments);
    });
    return cudaSuccess;
  };
  return api;
}

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

struct Case {
  ExpertMatmulOp op;
  DType result, idType = DType::I64;
  int64_t first = 0, valid = 0;
  int64_t low = 0, high = 0; ///< of ids

  bool isForward() const { return op.kind == ExpertMatmulKind::Forward; }
};

Case make(ExpertMatmulKind kind, DType compute, int64_t rows, int64_t experts,
          int64_t k, int64_t n) {
  Case c{.op = {}, .result = compute};
  c.op.kind = kind;
  c.op.compute = compute;
  c.op.rows = rows;
  c.op.experts = c.valid = experts;
  c.op.k = k;
  c.op.n = n;
  c.high = experts - 1;
  return c;
}

HostTensor idsOf(const Case &c) {
  HostTensor tensor = HostTensor::zeros(c.idType, {c.op.rows});
  std::mt19937 random(7);
  for (int64_t i = 0; i < c.op.rows; ++i)
    tensor.set(i, static_cast<double>(
                      c.low + int64_t(random() % (c.high - c.low + 1))));
  return tensor;
}

HostTensor nans(int64_t count, DType type) {
  HostTensor tensor = HostTensor::zeros(type, {count});
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, std::numeric_limits<double>::quiet_NaN());
  return tensor;
}

struct Arrays {
  HostTensor x, ids, w, y;

  explicit Arrays(const Case &c) : ids(idsOf(c)) {
    const ExpertMatmulOp &op = c.op;
    int64_t matrix = op.k * op.n, rows = op.rows / op.sharesY;
    x = smallIntegers(op.rows / op.sharesX * op.k, op.compute, 1);
    w = c.isForward() ? smallIntegers(op.experts * matrix, op.compute, 2)
                      : nans(op.experts * matrix, c.result);
    y = c.isForward() ? nans(rows * op.n, c.result)
                      : smallIntegers(rows * op.n, op.compute, 3);
    if (c.isForward()) // A rank does not read experts that are padding.
      for (int64_t i = c.valid * matrix; i < op.experts * matrix; ++i)
        w.set(i, std::numeric_limits<double>::quiet_NaN());
  }

  HostTensor &result(const Case &c) { return c.isForward() ? y : w; }
  ExpertArrays pointers(const Case &c) {
    return {x.data.data(), ids.data.data(), w.data.data(), y.data.data(),
            c.idType,      c.result,        c.first,       c.valid};
  }
};

/// Compares the results of the kernels for GPUs with that for CPUs.
void expectResultsOfTheCpu(const Case &c, BlockOrder order = {}) {
  Arrays cpu(c), gpu(c);
  ASSERT_EQ(runExpertMatmul(c.op, cpu.pointers(c)).message(), "");
  const CudaApi cuda = hostCuda();
  auto device = DeviceKernels::load(cuda, "image");
  ASSERT_TRUE(device.ok()) << device.status().message();
  struct alignas(64) Chunk {
    char bytes[64];
  };
  std::vector<Chunk> workspace(
      expertWorkspaceBytes(c.op.rows, c.op.experts) / 64 + 1);
  std::memset(workspace.data(), 0xff, workspace.size() * sizeof(Chunk));
  blockOrder = order;
  fault = "";
  Status status =
      (*device)->experts(c.op, gpu.pointers(c), workspace.data(), nullptr);
  ASSERT_EQ(status.message() + fault, "");
  HostTensor &want = cpu.result(c), &got = gpu.result(c);
  for (int64_t i = 0; i < want.elements(); ++i)
    ASSERT_EQ(got.at(i), want.at(i)) << "element " << i;
}

constexpr ExpertMatmulKind kKinds[] = {ExpertMatmulKind::Forward,
                                       ExpertMatmulKind::GradWeight};
constexpr DType kTypes[] = {DType::BF16, DType::F16, DType::F32, DType::F64};

/// Sizes that are no multiples of tiles, or of vectors of 8 elements.
TEST(ExpertKernels, AllTypesMatchTheCpu) {
  for (ExpertMatmulKind kind : kKinds)
    for (DType type : kTypes)
      for (auto [k, n] : {std::pair(70, 147), {152, 40}, {12, 136}}) {
        SCOPED_TRACE(std::string(nameOf(type)) + " " + std::to_string(k));
        Case c = make(kind, type, 150, 3, k, n);
        expectResultsOfTheCpu(c);
        c.op.transW = c.isForward();
        if (type == DType::BF16 || type == DType::F16)
          c.result = DType::F32;
        c.idType = DType::I32;
        expectResultsOfTheCpu(c);
      }
}

/// Several tiles of a factor in each direction, and all orders of warps and
/// copies.
TEST(ExpertKernels, OrdersOfABlockChangeNothing) {
  for (ExpertMatmulKind kind : kKinds)
    for (DType type : {DType::BF16, DType::F32})
      for (bool lastWarpFirst : {false, true})
        for (bool copiesEarly : {false, true})
          expectResultsOfTheCpu(make(kind, type, 200, 1, 136, 136),
                                {lastWarpFirst, copiesEarly});
}

/// Consecutive choices share a row of x or, in the gradient, of y.
TEST(ExpertKernels, ChoicesShareRows) {
  for (ExpertMatmulKind kind : kKinds)
    for (DType type : {DType::BF16, DType::F32})
      for (int64_t shares : {2, 3}) {
        Case c = make(kind, type, 60, 4, 40, 24);
        c.op.sharesX = shares;
        expectResultsOfTheCpu(c);
        if (c.isForward())
          continue;
        std::swap(c.op.sharesX, c.op.sharesY);
        expectResultsOfTheCpu(c);
      }
}

/// The rows of other experts are zero, and experts without rows have gradients
/// of zero.
TEST(ExpertKernels, SkipsRowsOfOtherExperts) {
  for (ExpertMatmulKind kind : kKinds)
    for (DType type : {DType::BF16, DType::F32}) {
      Case c = make(kind, type, 140, 5, 24, 32);
      c.first = 5;
      c.low = -1;
      c.high = 14;
      expectResultsOfTheCpu(c);
      c.first = 10;
      c.valid = 4;
      expectResultsOfTheCpu(c);
      c.low = 1000; // no row is of this rank
      c.high = 1001;
      expectResultsOfTheCpu(c);
    }
}

TEST(ExpertKernels, AllRowsOfOneExpert) {
  for (ExpertMatmulKind kind : kKinds)
    for (DType type : {DType::BF16, DType::F32})
      for (int64_t rows : {0, 1, 127, 128, 129, 256}) {
        SCOPED_TRACE(rows);
        Case c = make(kind, type, rows, 4, 16, 8);
        c.low = c.high = 2;
        expectResultsOfTheCpu(c);
      }
}

TEST(ExpertKernels, EmptySizes) {
  for (auto [k, n] : {std::pair(0, 8), {8, 0}})
    for (ExpertMatmulKind kind : kKinds)
      expectResultsOfTheCpu(make(kind, DType::F32, 8, 2, k, n));
  Case none = make(ExpertMatmulKind::Forward, DType::BF16, 8, 0, 8, 8);
  none.high = 3;
  expectResultsOfTheCpu(none);
}

/// A CUDA graph contains the launches of one step, so they may not depend on
/// the ids.
TEST(ExpertKernels, IdsDoNotChangeLaunches) {
  Case c = make(ExpertMatmulKind::Forward, DType::F32, 300, 4, 8, 8);
  launchedBlocks.clear();
  expectResultsOfTheCpu(c);
  std::vector<unsigned> first = std::exchange(launchedBlocks, {});
  EXPECT_EQ(first, (std::vector<unsigned>{5, 300 / 128 + 5}));
  c.low = c.high = 1;
  expectResultsOfTheCpu(c);
  EXPECT_EQ(launchedBlocks, first);
}

/// The order lists the rows of each group in ascending order, and its tiles
/// cover each position once.
TEST(ExpertKernels, OrderIsStable) {
  constexpr int64_t kRows = 2500, kExperts = 3; // several rounds of a block
  Case c = make(ExpertMatmulKind::Forward, DType::F32, kRows, kExperts, 1, 1);
  c.low = -1;
  HostTensor ids = idsOf(c);
  std::vector<ExpertTile> workspace(
      expertWorkspaceBytes(kRows, kExperts) / sizeof(ExpertTile) + 1,
      {-1, -1, -1, -1});
  ASSERT_EQ(runKernel(kExperts + 1, 1024, {},
                      [&] {
                        dpcExpertOrder(ids.data.data(), workspace.data(), kRows,
                                       kExperts, 0, kExperts,
                                       static_cast<long long>(DType::I64));
                      }),
            "");
  ExpertOrder order = orderIn(workspace.data(), kRows, kExperts);
  auto groupOf = [&](int64_t row) {
    auto id = static_cast<int64_t>(ids.at(row));
    return id < 0 ? kExperts : id;
  };
  std::vector<int> want(kRows);
  std::iota(want.begin(), want.end(), 0);
  std::ranges::sort(want, {},
                    [&](int row) { return std::pair(groupOf(row), row); });
  EXPECT_EQ(std::vector<int>(order.rows, order.rows + kRows), want);
  int at = 0;
  for (int64_t i = 0; i < expertTiles(kRows, kExperts); ++i) {
    const ExpertTile &tile = order.tiles[i];
    if (tile.begin == tile.end)
      continue;
    ASSERT_EQ(tile.begin, at);
    ASSERT_LE(tile.end - tile.begin, kExpertTileRows);
    EXPECT_EQ(groupOf(want[tile.begin]), tile.group);
    EXPECT_EQ(groupOf(want[tile.end - 1]), tile.group);
    at = tile.end;
  }
  EXPECT_EQ(at, kRows);
}

} // namespace
} // namespace dpc::rt::test
