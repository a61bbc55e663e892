// The kernels of DeviceKernels::experts. ExpertKernelTest.cpp compiles them for
// the host. The including file provides the functions of TensorCores.cuh.
//
// dpcExpertOrder sorts the rows (PlanExperts.h). The products read the order
// from device memory: the grid has a block for each tile that any ids can need,
// and blocks without rows return. Each element of a result is a sum of one
// thread or of one tensor core in a fixed order, so two runs have equal bits.
#ifndef DPC_RUNTIME_CUDA_EXPERTKERNELS_CUH
#define DPC_RUNTIME_CUDA_EXPERTKERNELS_CUH

#include "runtime/base/DType.h"
#include "runtime/plan/PlanExperts.h"

namespace {

using dpc::rt::DType;
using dpc::rt::ExpertGroup;
using dpc::rt::ExpertTile;

constexpr int kExpertThreads = 256;
constexpr int kExpertTile = dpc::rt::kExpertTileRows;

//===--------------------------------------------------------------------===//
// The order of rows
//===--------------------------------------------------------------------===//

struct ExpertOrder {
  ExpertTile *tiles;
  ExpertGroup *groups;
  int *rows;
};

__device__ ExpertOrder orderIn(void *workspace, long long rows,
                               long long experts) {
  auto *at = static_cast<unsigned char *>(workspace);
  return {
      reinterpret_cast<ExpertTile *>(at),
      reinterpret_cast<ExpertGroup *>(
          at + dpc::rt::expertGroupsOffset(rows, experts)),
      reinterpret_cast<int *>(at + dpc::rt::expertOrderOffset(rows, experts))};
}

struct ExpertIds {
  const void *data;
  bool isLong; // i64, otherwise i32
  long long first, valid, experts;

  __device__ long long groupOf(long long row) const {
    long long id = isLong ? static_cast<const long long *>(data)[row]
                          : static_cast<const int *>(data)[row];
    return id >= first && id < first + valid ? id - first : experts;
  }
};

constexpr int kOrderThreads = 1024, kOrderWarps = kOrderThreads / 32;

// Returns the sum over all threads of a block of kOrderThreads.
__device__ int sumOfBlock(int value, int (&parts)[kOrderWarps]) {
  value = __reduce_add_sync(0xffffffffu, value);
  __syncthreads(); // The block may still read the parts of an earlier sum.
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = value;
  __syncthreads();
  int sum = 0;
  for (int part : parts)
    sum += part;
  return sum;
}

//===--------------------------------------------------------------------===//
// Factors
//===--------------------------------------------------------------------===//

// A matrix in device memory. Row i is row i of `data`, or with an order, row
// order[i] / shares.
template <typename T> struct Factor {
  const T *data;
  const int *order;
  unsigned shares;
  int rows, columns;

  __device__ const T *row(int i) const {
    unsigned at = order ? order[i] : i;
    if (shares != 1)
      at /= shares;
    return data + static_cast<long long>(at) * columns;
  }
  // Whether each group of 8 elements of 16 bits is one aligned vector.
  __device__ bool isVector() const {
    return columns % 8 == 0 &&
           reinterpret_cast<unsigned long long>(data) % 16 == 0;
  }
};

struct TilePlace {
  int row, column;
};

// Returns the place of tile `index` in a grid of tiles. Bands of 16 columns
// follow each other, so that tiles of near indices share both factors.
__device__ TilePlace placeOf(long long index, long long rows,
                             long long columns) {
  constexpr long long kBand = 16;
  long long band = index / (rows * kBand), rest = index % (rows * kBand);
  long long left = columns - band * kBand, width = left < kBand ? left : kBand;
  return {static_cast<int>(rest / width),
          static_cast<int>(band * kBand + rest % width)};
}

//===--------------------------------------------------------------------===//
// Products of 16-bit matrices on tensor cores
//===--------------------------------------------------------------------===//

// A block of 8 warps computes a tile of 128 x 128, each warp 64 x 32. It
// multiplies 32 columns of A by 32 rows of B at a time, while it copies the
// factors of the next two steps.
constexpr int kDepth = 32, kStages = 3;
constexpr int kFactorBytes = kExpertTile * kDepth * 2;
constexpr int kStageBytes = 2 * kFactorBytes;

// A tile of a factor in shared memory, in chunks of 8 elements, whose order in
// a row depends on the row so that loadMatrices() has no bank conflicts. The
// tile has 128 rows of 32 elements along the sum or, with `kAcross`, 32 rows of
// 128 elements across it.
template <bool kAcross> struct SharedTile {
  static constexpr int kChunks = kAcross ? 16 : 4;
  unsigned char *data;

  __device__ unsigned char *at(int row, int chunk) const {
    int moved = kAcross ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return data + (row * kChunks + moved) * 16;
  }
};

// Copies tiles of a factor, which begin at row or column `first` of the factor
// across the sum.
template <typename T, bool kAcross> class TileCopier {
public:
  __device__ TileCopier(const Factor<T> &factor, int first)
      : factor(factor), first(first), isVector(factor.isVector()) {
    if constexpr (!kAcross)
      for (int i = 0; i < kCopies; ++i)
        if (int row = first + rowOf(i); row < factor.rows)
          rows[i] = factor.row(row);
  }

  // Copies the tile of `step` to `shared`.
  __device__ void copy(int step, const SharedTile<kAcross> &shared) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      int chunk = chunkOf(i);
      int column = (kAcross ? first : step * kDepth) + chunk * 8;
      const T *row = rows[i];
      if constexpr (kAcross) {
        int number = step * kDepth + rowOf(i);
        row = number < factor.rows ? factor.row(number) : nullptr;
      }
      copyChunk(row, row ? factor.columns - column : 0, column,
                shared.at(rowOf(i), chunk));
    }
  }

private:
  static constexpr int kChunks = SharedTile<kAcross>::kChunks;
  static constexpr int kCopies = kFactorBytes / 16 / kExpertThreads;

  __device__ static int rowOf(int i) {
    return (static_cast<int>(threadIdx.x) + i * kExpertThreads) / kChunks;
  }
  __device__ static int chunkOf(int i) {
    return (static_cast<int>(threadIdx.x) + i * kExpertThreads) % kChunks;
  }

  // Copies `count` elements, at most 8, and fills the rest with zeros.
  __device__ void copyChunk(const T *row, int count, int column,
                            unsigned char *to) const {
    if (isVector) {
      copyAsync(to, count > 0 ? row + column : factor.data, count > 0);
      return;
    }
    uint4 words = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < 8; ++j)
      if (j < count) {
        unsigned bits =
            reinterpret_cast<const unsigned short *>(row)[column + j];
        (&words.x)[j / 2] |= bits << j % 2 * 16;
      }
    *reinterpret_cast<uint4 *>(to) = words;
  }

  Factor<T> factor;
  int first;
  bool isVector;
  const T *rows[kCopies] = {}; // null beyond the factor
};

// The sums of a lane for 4 x 4 matrices of 16 x 8.
using WarpSums = float[4][4][4];

// Adds the product of two tiles in shared memory.
template <typename T, bool kAcrossA, bool kAcrossB>
__device__ void multiplyTiles(WarpSums &sums, const SharedTile<kAcrossA> &a,
                              const SharedTile<kAcrossB> &b) {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int top = warp / 4 * 64, left = warp % 4 * 32;
  // The row of an 8 x 8 matrix that the lane passes, and whether the matrix is
  // the second one in the order of the registers' low and high bit.
  int line = lane % 8, low = lane / 8 % 2, high = lane / 16;
#pragma unroll
  for (int depth = 0; depth < kDepth; depth += 16) {
    unsigned right[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      int column = left + j * 16;
      if constexpr (kAcrossB)
        loadMatrices<true>(right[j],
                           b.at(depth + line + 8 * low, column / 8 + high));
      else
        loadMatrices<false>(right[j],
                            b.at(column + line + 8 * high, depth / 8 + low));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unsigned factor[4];
      int row = top + i * 16;
      if constexpr (kAcrossA)
        loadMatrices<true>(factor,
                           a.at(depth + line + 8 * high, row / 8 + low));
      else
        loadMatrices<false>(factor,
                            a.at(row + line + 8 * low, depth / 8 + high));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        multiplyAdd<T>(sums[i][j], factor, right[j / 2][j % 2 * 2],
                       right[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// Adds to `sums` the product of the tiles of A and B that begin at `top` and
// `left`, over `depth` elements. A factor is stored along or across the sum.
template <typename T, bool kAcrossA, bool kAcrossB>
__device__ void addProduct(WarpSums &sums, const Factor<T> &a, int top,
                           const Factor<T> &b, int left, int depth,
                           unsigned char *shared) {
  TileCopier<T, kAcrossA> copyA(a, top);
  TileCopier<T, kAcrossB> copyB(b, left);
  int steps = (depth + kDepth - 1) / kDepth;
  auto begin = [&](int step) {
    unsigned char *stage = shared + step % kStages * kStageBytes;
    if (step < steps) {
      copyA.copy(step, {stage});
      copyB.copy(step, {stage + kFactorBytes});
    }
    commitCopies();
  };
  for (int step = 0; step < kStages - 1; ++step)
    begin(step);
  for (int step = 0; step < steps; ++step) {
    waitForCopies<kStages - 2>();
    __syncthreads(); // All copies of the step and uses of the stage have ended.
    begin(step + kStages - 1);
    unsigned char *stage = shared + step % kStages * kStageBytes;
    multiplyTiles<T, kAcrossA, kAcrossB>(sums, {stage}, {stage + kFactorBytes});
  }
  waitForCopies<0>();
}

// Calls store(row, column, value, next) for pairs of elements of the tile.
template <typename Store>
__device__ void forEachPair(const WarpSums &sums, Store &&store) {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        store(warp / 4 * 64 + i * 16 + half * 8 + lane / 4,
              warp % 4 * 32 + j * 8 + lane % 4 * 2, sums[i][j][half * 2],
              sums[i][j][half * 2 + 1]);
}

//===--------------------------------------------------------------------===//
// Products of f32 and f64 matrices
//===--------------------------------------------------------------------===//

// Each thread computes 8 rows and `kColumns` columns of a tile, which are 16
// columns apart.
constexpr int kPlainDepth = 8, kPlainRows = 8;
template <typename T> constexpr int kColumns = sizeof(T) == 4 ? 8 : 4;
template <typename T> using PlainSums = T[kPlainRows][kColumns<T>];

// A tile of a factor: `kWidth` elements across the sum at each of 8 positions.
template <typename T, bool kAcross, int kWidth> class PlainTile {
public:
  // Adjacent rows begin 4 banks apart.
  static constexpr int kRow = kWidth + 16 / static_cast<int>(sizeof(T));

  __device__ PlainTile(const Factor<T> &factor, int first)
      : factor(factor), first(first) {}

  __device__ void load(int step) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      int across = first + acrossOf(i), along = step * kPlainDepth + alongOf(i);
      int row = kAcross ? along : across, column = kAcross ? across : along;
      values[i] = row < factor.rows && column < factor.columns
                      ? factor.row(row)[column]
                      : T(0);
    }
  }
  __device__ void store(T *shared) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      shared[alongOf(i) * kRow + acrossOf(i)] = values[i];
  }

private:
  static constexpr int kLoads = kWidth * kPlainDepth / kExpertThreads;

  __device__ static int acrossOf(int i) {
    int id = static_cast<int>(threadIdx.x) + i * kExpertThreads;
    return kAcross ? id % kWidth : id / kPlainDepth;
  }
  __device__ static int alongOf(int i) {
    int id = static_cast<int>(threadIdx.x) + i * kExpertThreads;
    return kAcross ? id / kWidth : id % kPlainDepth;
  }

  Factor<T> factor;
  int first;
  T values[kLoads];
};

template <typename T, bool kAcrossA, bool kAcrossB>
__device__ void addProduct(PlainSums<T> &sums, const Factor<T> &a, int top,
                           const Factor<T> &b, int left, int depth,
                           unsigned char *shared) {
  PlainTile<T, kAcrossA, kExpertTile> tileA(a, top);
  PlainTile<T, kAcrossB, 16 * kColumns<T>> tileB(b, left);
  constexpr int kRowA = decltype(tileA)::kRow, kRowB = decltype(tileB)::kRow;
  T *sharedA = reinterpret_cast<T *>(shared);
  T *sharedB = sharedA + kPlainDepth * kRowA;
  int down = static_cast<int>(threadIdx.x) / 16 * kPlainRows;
  int right = static_cast<int>(threadIdx.x) % 16;
  int steps = (depth + kPlainDepth - 1) / kPlainDepth;
  tileA.load(0);
  tileB.load(0);
  for (int step = 0; step < steps; ++step) {
    __syncthreads(); // The uses of the shared tiles have ended.
    tileA.store(sharedA);
    tileB.store(sharedB);
    __syncthreads();
    tileA.load(step + 1);
    tileB.load(step + 1);
#pragma unroll
    for (int d = 0; d < kPlainDepth; ++d)
#pragma unroll
      for (int i = 0; i < kPlainRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns<T>; ++j)
          sums[i][j] = fma(sharedA[d * kRowA + down + i],
                           sharedB[d * kRowB + right + 16 * j], sums[i][j]);
  }
}

//===--------------------------------------------------------------------===//
// Products of any type
//===--------------------------------------------------------------------===//

// The sums of a thread, the width of a tile, and its shared memory.
template <typename T> struct TileOf {
  using Sums = PlainSums<T>;
  static constexpr int kWidth = 16 * kColumns<T>;
  static constexpr int kShared = kPlainDepth *
                                 (PlainTile<T, false, kExpertTile>::kRow +
                                  PlainTile<T, false, kWidth>::kRow) *
                                 static_cast<int>(sizeof(T));
};
struct HalfTile {
  using Sums = WarpSums;
  static constexpr int kWidth = kExpertTile;
  static constexpr int kShared = kStages * kStageBytes;
};
template <> struct TileOf<__nv_bfloat16> : HalfTile {};
template <> struct TileOf<__half> : HalfTile {};

// Stores a tile. Row i of the tile is row rowOf(i) of `to`, or no row if that
// is -1. `left` is the first column of the tile.
template <typename Out, typename RowOf>
__device__ void storeTile(const WarpSums &sums, Out *to, int columns, int left,
                          RowOf &&rowOf) {
  struct alignas(2 * sizeof(Out)) Pair {
    Out one, next;
  };
  bool isPaired = columns % 2 == 0 &&
                  reinterpret_cast<unsigned long long>(to) % sizeof(Pair) == 0;
  forEachPair(sums, [&](int row, int column, float one, float next) {
    long long line = rowOf(row);
    column += left;
    if (line < 0 || column >= columns)
      return;
    Out *at = to + line * columns + column;
    if (isPaired) {
      *reinterpret_cast<Pair *>(at) = {static_cast<Out>(one),
                                       static_cast<Out>(next)};
      return;
    }
    at[0] = static_cast<Out>(one);
    if (column + 1 < columns)
      at[1] = static_cast<Out>(next);
  });
}
template <typename T, typename RowOf>
__device__ void storeTile(const PlainSums<T> &sums, T *to, int columns,
                          int left, RowOf &&rowOf) {
#pragma unroll
  for (int i = 0; i < kPlainRows; ++i) {
    long long at = rowOf(static_cast<int>(threadIdx.x) / 16 * kPlainRows + i);
#pragma unroll
    for (int j = 0; j < kColumns<T>; ++j) {
      int column = left + static_cast<int>(threadIdx.x) % 16 + 16 * j;
      if (at >= 0 && column < columns)
        to[at * columns + column] = sums[i][j];
    }
  }
}

// Stores in the type of the result, which is `T` or f32.
template <typename T, typename RowOf>
__device__ void storeResult(const typename TileOf<T>::Sums &sums, void *to,
                            bool isWide, int columns, int left, RowOf &&rowOf) {
  if constexpr (sizeof(T) == 2)
    if (isWide)
      return storeTile(sums, static_cast<float *>(to), columns, left, rowOf);
  storeTile(sums, static_cast<T *>(to), columns, left, rowOf);
}

template <typename T>
__device__ void expertForward(const void *x, const void *w, void *y,
                              void *workspace, long long rows, long long shares,
                              long long experts, long long k, long long n,
                              bool transposes, bool isWide,
                              unsigned char *shared) {
  using Tile = TileOf<T>;
  ExpertOrder order = orderIn(workspace, rows, experts);
  TilePlace place = placeOf(blockIdx.x, dpc::rt::expertTiles(rows, experts),
                            (n + Tile::kWidth - 1) / Tile::kWidth);
  ExpertTile tile = order.tiles[place.row];
  if (tile.begin == tile.end)
    return;
  int left = place.column * Tile::kWidth, count = tile.end - tile.begin;
  const int *rowsOfTile = order.rows + tile.begin;
  int depth = static_cast<int>(k), columns = static_cast<int>(n);
  typename Tile::Sums sums = {};
  if (tile.group < experts) {
    const T *matrix = static_cast<const T *>(w) + tile.group * k * n;
    Factor<T> a = {static_cast<const T *>(x), rowsOfTile,
                   static_cast<unsigned>(shares), count, depth};
    if (transposes)
      addProduct<T, false, false>(sums, a, 0,
                                  {matrix, nullptr, 1, columns, depth}, left,
                                  depth, shared);
    else
      addProduct<T, false, true>(sums, a, 0,
                                 {matrix, nullptr, 1, depth, columns}, left,
                                 depth, shared);
  }
  storeResult<T>(sums, y, isWide, columns, left, [&](int i) -> long long {
    return i < count ? rowsOfTile[i] : -1;
  });
}

template <typename T>
__device__ void expertGradient(const void *x, const void *y, void *w,
                               void *workspace, long long rows,
                               long long sharesX, long long sharesY,
                               long long experts, long long k, long long n,
                               bool isWide, unsigned char *shared) {
  using Tile = TileOf<T>;
  ExpertOrder order = orderIn(workspace, rows, experts);
  long long down = (k + kExpertTile - 1) / kExpertTile,
            across = (n + Tile::kWidth - 1) / Tile::kWidth;
  long long expert = blockIdx.x / (down * across);
  TilePlace place = placeOf(blockIdx.x % (down * across), down, across);
  ExpertGroup group = order.groups[expert];
  int top = place.row * kExpertTile, left = place.column * Tile::kWidth;
  int count = group.end - group.begin;
  const int *rowsOfExpert = order.rows + group.begin;
  int height = static_cast<int>(k), columns = static_cast<int>(n);
  typename Tile::Sums sums = {};
  addProduct<T, true, true>(sums,
                            {static_cast<const T *>(x), rowsOfExpert,
                             static_cast<unsigned>(sharesX), count, height},
                            top,
                            {static_cast<const T *>(y), rowsOfExpert,
                             static_cast<unsigned>(sharesY), count, columns},
                            left, count, shared);
  storeResult<T>(sums, w, isWide, columns, left, [&](int i) -> long long {
    return top + i < height ? expert * k + top + i : -1;
  });
}

} // namespace

// Block g writes group g. It counts the rows of smaller groups, and then lists
// its rows in ascending order.
extern "C" __global__ void __launch_bounds__(kOrderThreads)
    dpcExpertOrder(const void *ids, void *workspace, long long rows,
                   long long experts, long long first, long long valid,
                   long long type) {
  __shared__ int parts[kOrderWarps];
  ExpertIds all = {ids, static_cast<DType>(type) == DType::I64, first, valid,
                   experts};
  ExpertOrder order = orderIn(workspace, rows, experts);
  int group = static_cast<int>(blockIdx.x);
  int thread = static_cast<int>(threadIdx.x);
  int smaller = 0, equal = 0;
  for (long long row = thread; row < rows; row += kOrderThreads) {
    long long other = all.groupOf(row);
    smaller += other < group;
    equal += other == group;
  }
  int begin = sumOfBlock(smaller, parts);
  int end = begin + sumOfBlock(equal, parts);
  if (thread == 0)
    order.groups[group] = {begin, end};
  int more = end / kExpertTile - begin / kExpertTile;
  for (int i = thread; i <= more; i += kOrderThreads) {
    int from = begin + min(i * kExpertTile, end - begin);
    order.tiles[begin / kExpertTile + group + i] = {
        group, from, from + min(kExpertTile, end - from), 0};
  }
  int next = begin;
  for (long long base = 0; next < end; base += kOrderThreads) {
    long long row = base + thread;
    bool isMine = row < rows && all.groupOf(row) == group;
    unsigned votes = __ballot_sync(0xffffffffu, isMine);
    __syncthreads(); // The block may still read the counts of the last rows.
    if (thread % 32 == 0)
      parts[thread / 32] = __popc(votes);
    __syncthreads();
    int before = 0, added = 0;
    for (int warp = 0; warp < kOrderWarps; ++warp) {
      before += warp < thread / 32 ? parts[warp] : 0;
      added += parts[warp];
    }
    if (isMine)
      order.rows[next + before + __popc(votes & ((1u << thread % 32) - 1))] =
          static_cast<int>(row);
    next += added;
  }
}

// Two blocks of the 16-bit products share a multiprocessor.
#define DPC_EXPERT_KERNELS(T, NAME, BLOCKS)                                    \
  extern "C" __global__ void __launch_bounds__(kExpertThreads, BLOCKS)         \
      dpcExpertForward##NAME(                                                  \
          const void *x, const void *w, void *y, void *workspace,              \
          long long rows, long long shares, long long experts, long long k,    \
          long long n, long long transposes, long long isWide) {               \
    __shared__ __align__(128) unsigned char shared[TileOf<T>::kShared];        \
    expertForward<T>(x, w, y, workspace, rows, shares, experts, k, n,          \
                     transposes != 0, isWide != 0, shared);                    \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kExpertThreads, BLOCKS)         \
      dpcExpertGradient##NAME(                                                 \
          const void *x, const void *y, void *w, void *workspace,              \
          long long rows, long long sharesX, long long sharesY,                \
          long long experts, long long k, long long n, long long isWide) {     \
    __shared__ __align__(128) unsigned char shared[TileOf<T>::kShared];        \
    expertGradient<T>(x, y, w, workspace, rows, sharesX, sharesY, experts, k,  \
                      n, isWide != 0, shared);                                 \
  }
DPC_EXPERT_KERNELS(__nv_bfloat16, BF16, 2)
DPC_EXPERT_KERNELS(__half, F16, 2)
DPC_EXPERT_KERNELS(float, F32, 1)
DPC_EXPERT_KERNELS(double, F64, 1)
#undef DPC_EXPERT_KERNELS

#endif // DPC_RUNTIME_CUDA_EXPERTKERNELS_CUH
