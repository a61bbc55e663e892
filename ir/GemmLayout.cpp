//===- GemmLayout.cpp - A matmul as BLAS calls -------------------------===//
#include "ir/GemmLayout.h"

#include <algorithm>

using llvm::SmallVector;

namespace dpc {

namespace {

/// The last two dimensions of an operand as a BLAS matrix.
struct Matrix {
  int64_t rows, cols;
  int64_t ld;      ///< stride between rows, or columns if transposed
  bool transposed; ///< stored column by column
};

using Batch = GemmLayout::Batch;

} // namespace

static std::optional<Matrix> matrixOf(const StridedView &view) {
  auto [rows, cols] = std::pair(view.shape.end()[-2], view.shape.end()[-1]);
  int64_t rowStride = view.strides.end()[-2], colStride = view.strides.back();
  if (colStride == 1 || cols == 1) {
    int64_t ld = rows == 1 ? std::max<int64_t>(cols, 1) : rowStride;
    if (ld >= cols)
      return Matrix{rows, cols, ld, false};
  }
  if (rowStride == 1 || rows == 1) {
    int64_t ld = cols == 1 ? std::max<int64_t>(rows, 1) : colStride;
    if (ld >= rows)
      return Matrix{rows, cols, ld, true};
  }
  return std::nullopt;
}

static SmallVector<Batch> batchesOf(const StridedView &a, const StridedView &b,
                                    const StridedView &c) {
  SmallVector<Batch> batches;
  bool shared = b.shape.size() == 2 && a.shape.size() > 2;
  for (size_t d = 0; d + 2 < c.shape.size(); ++d) {
    Batch batch{c.shape[d], a.strides[d], shared ? 0 : b.strides[d],
                c.strides[d]};
    if (batch.size == 1)
      continue;
    if (!batches.empty()) {
      Batch &outer = batches.back();
      if (outer.a == batch.size * batch.a && outer.b == batch.size * batch.b &&
          outer.c == batch.size * batch.c) {
        outer = {outer.size * batch.size, batch.a, batch.b, batch.c};
        continue;
      }
    }
    batches.push_back(batch);
  }
  return batches;
}

/// Merges inner batch dimensions into the rows if all batches share `b`.
static void foldIntoRows(GemmLayout &gemm) {
  while (!gemm.batches.empty() && !gemm.transA) {
    Batch &inner = gemm.batches.back();
    bool isRow = gemm.m == 1;
    bool evenA = isRow || inner.a == gemm.m * gemm.lda;
    bool evenC = isRow || inner.c == gemm.m * gemm.ldc;
    if (inner.b != 0 || !evenA || !evenC || inner.a < gemm.k ||
        inner.c < gemm.n)
      return;
    if (isRow) {
      gemm.lda = inner.a;
      gemm.ldc = inner.c;
    }
    gemm.m *= inner.size;
    gemm.batches.pop_back();
  }
}

std::optional<GemmLayout> layOutGemm(const StridedView &a, const StridedView &b,
                                     const StridedView &c, bool ta, bool tb) {
  auto ma = matrixOf(a), mb = matrixOf(b), mc = matrixOf(c);
  if (!ma || !mb || !mc || mc->transposed)
    return std::nullopt;
  GemmLayout gemm;
  gemm.m = mc->rows;
  gemm.n = mc->cols;
  gemm.k = ta ? ma->rows : ma->cols;
  gemm.transA = ta != ma->transposed;
  gemm.transB = tb != mb->transposed;
  gemm.lda = ma->ld;
  gemm.ldb = mb->ld;
  gemm.ldc = mc->ld;
  gemm.batches = batchesOf(a, b, c);
  foldIntoRows(gemm);
  return gemm;
}

} // namespace dpc
