//===- GemmLayout.h - A matmul as BLAS calls -----------------*- C++ -*-===//
//
// dpc-fuse-epilogues uses it, which needs a matmul that is one call, and code
// generation, which makes the calls.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_GEMMLAYOUT_H
#define DPC_IR_GEMMLAYOUT_H

#include "ir/StridedView.h"

namespace dpc {

/// C = op(A) op(B) of row-major matrices, for every point of the batch
/// dimensions. A transposed matrix is stored by columns.
struct GemmLayout {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;

  /// A batch dimension and how far each operand moves along it.
  struct Batch {
    int64_t size, a, b, c;
  };
  /// Outermost first. Adjacent dimensions are one where all operands advance
  /// evenly. The rows of all matrices are one matrix where they share one B.
  llvm::SmallVector<Batch> batches;

  bool isEmpty() const { return m == 0 || n == 0 || k == 0; }
};

/// The layout of a matmul whose matrices are the last two dimensions; `ta` and
/// `tb` transpose them first. Nothing where both rows and columns of a matrix
/// are strided, or where C is stored by columns.
std::optional<GemmLayout> layOutGemm(const StridedView &a, const StridedView &b,
                                     const StridedView &c, bool ta, bool tb);

} // namespace dpc

#endif // DPC_IR_GEMMLAYOUT_H
