//===- Index.h - Affine element indices of a loop nest ----------*- C++ -*-===//
//
// An index is sum(coefs[d] * loop d) + constant + opaque, with loop d running
// from 0 to size[d] - 1. Kept symbolic so that
//   * reshapes of what is affine stay affine (no division at run time):
//     loops i < 8, j < 64: (64 i + j) / 64 = i, (64 i + j) % 64 = j;
//   * a nest can be flattened: loops d, d+1 become one loop when every access
//     has coefs[d] = size[d+1] * coefs[d+1].
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_INDEX_H
#define DPC_CODEGEN_KERNEL_INDEX_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dpc::codegen {

/// See the file comment.
struct Index {
  llvm::SmallVector<int64_t, 6> coefs;
  int64_t constant = 0;
  /// A value known at run time only, or null; `isOpaque` without a value
  /// appears while a nest is analyzed, before anything is emitted.
  mlir::Value opaque;
  bool isOpaque = false;
  /// The opaque part is a multiple of this.
  int64_t multiple = 1;

  bool operator==(const Index &) const = default;
  bool isConstant() const;
};
using Indices = llvm::SmallVector<Index, 6>;

/// The loops that are open where code is being emitted.
class LoopSpace {
public:
  /// Adds a loop and returns its number. `var` is null while analyzing. It may
  /// be known to take multiples of a number only, less than `size`.
  int64_t push(int64_t size, mlir::Value var, int64_t multiple = 1);
  void pop();
  int64_t numLoops() const { return static_cast<int64_t>(sizes.size()); }
  int64_t size(int64_t loop) const { return sizes[loop]; }
  mlir::Value var(int64_t loop) const { return vars[loop]; }
  int64_t multiple(int64_t loop) const { return multiples[loop]; }
  /// The greatest value of a loop.
  int64_t largest(int64_t loop) const { return sizes[loop] - multiples[loop]; }

  /// The index that is loop `loop` itself.
  Index loop(int64_t loop) const;
  static Index constant(int64_t value);
  static Index opaque(mlir::Value value);

  /// Sums and products; `b` emits what run-time terms need and is null while
  /// analyzing.
  static Index add(mlir::ImplicitLocOpBuilder *b, const Index &x,
                   const Index &y);
  static Index scale(mlir::ImplicitLocOpBuilder *b, const Index &x,
                     int64_t factor);
  /// offset + sum(indices[d] * strides[d]).
  static Index linearize(mlir::ImplicitLocOpBuilder *b,
                         llvm::ArrayRef<Index> indices,
                         llvm::ArrayRef<int64_t> strides, int64_t offset);

  /// Quotient and remainder by `divisor` if both are affine.
  std::optional<std::pair<Index, Index>> divide(const Index &index,
                                                int64_t divisor) const;

  /// Emits the index as an i64. A loop without a variable must be flattened
  /// into a later one (see the file comment).
  mlir::Value materialize(mlir::ImplicitLocOpBuilder &b,
                          const Index &index) const;

private:
  llvm::SmallVector<int64_t, 6> sizes, multiples;
  llvm::SmallVector<mlir::Value, 6> vars;
};

/// i64 constant.
mlir::Value constantI64(mlir::ImplicitLocOpBuilder &b, int64_t value);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_INDEX_H
