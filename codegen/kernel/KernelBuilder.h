//===- KernelBuilder.h - A builder that knows the open loops ----*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_KERNELBUILDER_H
#define DPC_CODEGEN_KERNEL_KERNELBUILDER_H

#include "codegen/kernel/Index.h"
#include "codegen/kernel/Kernel.h"
#include "codegen/kernel/ScalarMath.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace dpc::codegen {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

using LoopBody = std::function<void(mlir::Value)>;
using FoldBody = std::function<llvm::SmallVector<mlir::Value>(
    mlir::Value, mlir::ValueRange)>;
using ColumnBody =
    std::function<llvm::SmallVector<mlir::Value>(Index, mlir::ValueRange)>;
using Combine = std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange,
                                                             mlir::ValueRange)>;

/// Emits loops and remembers which elements have been computed inside them.
/// Scopes nest as blocks do: an element is known in the scope that computed it
/// and in those inside of it, so what is recalled dominates its use.
class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  KernelBuilder(mlir::OpBuilder &builder, KernelTarget target);

  bool isForGpu() const { return target != KernelTarget::cpu; }

  /// From `lower` to below `upper`; carries values from `init` on.
  llvm::SmallVector<mlir::Value> stepLoop(mlir::Value lower, mlir::Value upper,
                                          int64_t step, mlir::ValueRange init,
                                          const FoldBody &body);
  /// From 0 to below `upper`; a single iteration has no loop.
  llvm::SmallVector<mlir::Value>
  foldLoop(mlir::Value upper, mlir::ValueRange init, const FoldBody &body);
  void forLoop(int64_t size, const LoopBody &body);

  /// Loops that are dimensions of `space` while `body` emits.
  llvm::SmallVector<mlir::Value> spaceFold(int64_t size, mlir::ValueRange init,
                                           const ColumnBody &body);
  void spaceLoop(int64_t size, const std::function<void(Index)> &body);
  void spaceLoops(llvm::ArrayRef<int64_t> sizes, Indices &indices,
                  const std::function<void()> &body);

  void when(mlir::Value condition, const std::function<void()> &body);
  void whenBelow(mlir::Value number, int64_t limit,
                 const std::function<void()> &body);

  /// Adds dimensions of `sizes` of which `linear` is the row-major position, a
  /// multiple of `multiple`, which divides the last size.
  void pushDims(mlir::Value linear, llvm::ArrayRef<int64_t> sizes,
                Indices &indices, int64_t multiple = 1);
  void popDims(size_t count);

  void openScope() { memos.emplace_back(); }
  void closeScope() { memos.pop_back(); }
  /// Closes all scopes and opens that of a function.
  void resetScopes() { memos.assign(1, Memo()); }
  /// The element if an open scope knows it, or null.
  mlir::Value recall(mlir::Value value, llvm::ArrayRef<Index> indices) const;
  void remember(mlir::Value value, llvm::ArrayRef<Index> indices,
                mlir::Value element);

  const KernelTarget target;
  ScalarMath math;
  LoopSpace space;
  /// Bodies of loops with accesses that are not contiguous.
  llvm::SmallPtrSet<mlir::Block *, 8> strided;

private:
  using Memo =
      llvm::DenseMap<mlir::Value,
                     llvm::SmallVector<std::pair<Indices, mlir::Value>, 1>>;
  std::vector<Memo> memos;
};

/// Accumulates values of these kinds with others of them.
Combine accumulation(KernelBuilder &b, llvm::ArrayRef<ReduceKind> kinds);

/// Keeps LLVM from vectorizing the `strided` loops: that would make much code
/// and little speed.
void annotateLoops(KernelBuilder &b, mlir::func::FuncOp function);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELBUILDER_H
