//===- GemmLayout.h - A matmul as BLAS calls -----------------*- C++ -*-===//
//
// Used by the pass that lets products do more than multiply, which takes one
// call, and by the one that makes the calls.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_GEMMLAYOUT_H
#define DPC_IR_GEMMLAYOUT_H

#include "ir/StridedView.h"

namespace dpc {

/// C = op(A) op(B) of row-major matrices, which a transposed one is by columns,
/// for every point of some batch dimensions.
struct ProductLayout {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;

  /// A batch dimension and how far each operand moves along it.
  struct Batch {
    int64_t size, a, b, c;
  };
  /// Outermost first. Neighbours are one where all operands advance evenly, and
  /// rows of all matrices are one matrix where a plain B is applied to them.
  llvm::SmallVector<Batch> batches;

  bool isEmpty() const { return m == 0 || n == 0 || k == 0; }
};

/// The last two dimensions are the matrices; `ta`, `tb`: they are transposed
/// first. Nothing where rows and columns of one are both strided, or those of C
/// are the other way round.
std::optional<ProductLayout> layOutProduct(const StridedView &a,
                                           const StridedView &b,
                                           const StridedView &c, bool ta,
                                           bool tb);

} // namespace dpc

#endif // DPC_IR_GEMMLAYOUT_H
