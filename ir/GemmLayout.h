//===- GemmLayout.h - A matmul as BLAS calls -----------------*- C++ -*-===//
//
// dpc-fuse-epilogues fuses only matmuls that are one BLAS call. Code generation
// emits the calls.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/StridedView.h"

namespace dpc {

/// C = op(A) op(B) for every index of the batch dimensions. Matrices are
/// row-major; a transposed matrix is stored column by column.
struct GemmLayout {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;

  struct Batch {
    int64_t size, a, b, c;
  };
  /// The batch dimensions, outermost first. Adjacent dimensions are merged if
  /// their elements are evenly spaced in A, B and C. If all batches share B,
  /// the rows of A are combined into one matrix where possible.
  llvm::SmallVector<Batch> batches;

  bool isEmpty() const { return m == 0 || n == 0 || k == 0; }
};

/// Returns the layout of a matmul. The matrices are the last two dimensions of
/// the views; `ta` and `tb` transpose A and B. Returns nullopt if both the rows
/// and the columns of a matrix are strided, or if C is stored column by column.
std::optional<GemmLayout> layOutGemm(const StridedView &a, const StridedView &b,
                                     const StridedView &c, bool ta, bool tb);

} // namespace dpc
