//===- KernelBuilder.h - A builder that knows the open loops ----*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_KERNELBUILDER_H
#define DPC_CODEGEN_KERNEL_KERNELBUILDER_H

#include "codegen/kernel/Index.h"
#include "codegen/kernel/Kernel.h"
#include "codegen/kernel/ScalarMath.h"
#include "ir/TensorUtils.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace dpc::codegen {

using LoopBody = std::function<void(mlir::Value)>;
using FoldBody = std::function<llvm::SmallVector<mlir::Value>(
    mlir::Value, mlir::ValueRange)>;
using ColumnBody =
    std::function<llvm::SmallVector<mlir::Value>(Index, mlir::ValueRange)>;
using Combine = std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange,
                                                             mlir::ValueRange)>;

/// Emits loops and remembers the elements computed inside them. Scopes nest
/// like blocks: an element is known in the scope that computed it and in the
/// scopes inside that one. So a recalled element dominates its use.
class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  KernelBuilder(mlir::OpBuilder &builder, KernelTarget target);

  bool isForGpu() const { return target != KernelTarget::cpu; }

  /// A loop from `lower` to below `upper`, which carries values from `init` on.
  llvm::SmallVector<mlir::Value> stepLoop(mlir::Value lower, mlir::Value upper,
                                          int64_t step, mlir::ValueRange init,
                                          const FoldBody &body);
  void stepLoop(mlir::Value lower, mlir::Value upper, int64_t step,
                const LoopBody &body);
  /// The same from 0. A single iteration is emitted without a loop.
  llvm::SmallVector<mlir::Value>
  foldLoop(mlir::Value upper, mlir::ValueRange init, const FoldBody &body);
  void forLoop(mlir::Value upper, const LoopBody &body);

  /// A loop whose variable is a dimension of `space` inside `body`.
  /// It runs below `limit` (null: `size`).
  llvm::SmallVector<mlir::Value> spaceFold(int64_t size, mlir::ValueRange init,
                                           const ColumnBody &body,
                                           mlir::Value limit = {});
  void spaceLoop(int64_t size, const std::function<void(Index)> &body,
                 mlir::Value limit = {});
  void spaceLoops(llvm::ArrayRef<int64_t> sizes, Indices &indices,
                  const std::function<void()> &body);

  void when(mlir::Value condition, const std::function<void()> &body);
  void whenBelow(mlir::Value number, int64_t limit,
                 const std::function<void()> &body);

  /// Adds dimensions of `sizes` to `space`. `linear` is their row-major
  /// position. It is a multiple of `multiple`, and `multiple` divides the last
  /// size.
  void pushDims(mlir::Value linear, llvm::ArrayRef<int64_t> sizes,
                Indices &indices, int64_t multiple = 1);
  void popDims(size_t count);

  void openScope() { memos.emplace_back(); }
  void closeScope() { memos.pop_back(); }
  /// Closes all scopes and opens the outermost scope of a function.
  void resetScopes() { memos.assign(1, Memo()); }
  /// The element if an open scope knows it, else null.
  mlir::Value recall(mlir::Value value, llvm::ArrayRef<Index> indices) const;
  void remember(mlir::Value value, llvm::ArrayRef<Index> indices,
                mlir::Value element);

  const KernelTarget target;
  ScalarMath math;
  LoopSpace space;
  /// Bodies of loops that have accesses that are not contiguous.
  llvm::SmallPtrSet<mlir::Block *, 8> strided;

private:
  using Memo =
      llvm::DenseMap<mlir::Value,
                     llvm::SmallVector<std::pair<Indices, mlir::Value>, 1>>;
  std::vector<Memo> memos;
};

/// A function that accumulates two lists of values; list item i has kind
/// `kinds[i]`.
Combine accumulation(KernelBuilder &b, llvm::ArrayRef<ReduceKind> kinds);

/// Tells LLVM not to vectorize the `strided` loops, because that needs much
/// code and makes them hardly faster.
void annotateLoops(KernelBuilder &b, mlir::func::FuncOp function);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELBUILDER_H
