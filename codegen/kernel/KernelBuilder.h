//===- KernelBuilder.h - A builder that knows the open loops ----*- C++ -*-===//
#pragma once

#include "codegen/kernel/Index.h"
#include "codegen/kernel/Kernel.h"
#include "codegen/kernel/ScalarMath.h"
#include "ir/TensorUtils.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace dpc::codegen {

using LoopBody = std::function<void(Value)>;
using FoldBody = std::function<Values(Value, ValueRange)>;
using ColumnBody = std::function<Values(Index, ValueRange)>;
using Combine = std::function<Values(ValueRange, ValueRange)>;

/// Emits loops and remembers the elements computed inside them. Scopes nest
/// like blocks: an element can be recalled in the scope that computed it and in
/// all inner scopes, so it dominates its uses.
class KernelBuilder : public ImplicitLocOpBuilder {
public:
  KernelBuilder(OpBuilder &builder, KernelTarget target);

  bool isForGpu() const { return target != KernelTarget::cpu; }

  /// Emits a loop from `lower` to `upper` (exclusive) that carries values,
  /// which start as `init`. Returns their final values.
  Values stepLoop(Value lower, Value upper, int64_t step, ValueRange init,
                  const FoldBody &body);
  void stepLoop(Value lower, Value upper, int64_t step, const LoopBody &body);
  /// Emits a loop from 0 to `upper` (exclusive), or only its body if there is a
  /// single iteration.
  Values foldLoop(Value upper, ValueRange init, const FoldBody &body);
  void forLoop(Value upper, const LoopBody &body);

  /// Emits a loop whose variable is a dimension of `space` inside `body`. The
  /// loop ends at `limit`, or at `size` if `limit` is null.
  Values spaceFold(int64_t size, ValueRange init, const ColumnBody &body,
                   Value limit = {});
  void spaceLoop(int64_t size, const std::function<void(Index)> &body,
                 Value limit = {});
  void spaceLoops(ArrayRef<int64_t> sizes, Indices &indices,
                  const std::function<void()> &body);

  void when(Value condition, const std::function<void()> &body);
  void whenBelow(Value number, int64_t limit,
                 const std::function<void()> &body);

  /// Adds dimensions with `sizes` to `space`, for the row-major position
  /// `linear`. `linear` is a multiple of `multiple`, a divisor of the last
  /// size.
  void pushDims(Value linear, ArrayRef<int64_t> sizes, Indices &indices,
                int64_t multiple = 1);
  void popDims(size_t count);

  void openScope() { memos.emplace_back(); }
  void closeScope() { memos.pop_back(); }
  /// Closes all scopes and opens the outermost scope of a function.
  void resetScopes() { memos.assign(1, Memo()); }
  /// Returns the element if an open scope has computed it, else null.
  Value recall(Value value, ArrayRef<Index> indices) const;
  void remember(Value value, ArrayRef<Index> indices, Value element);

  const KernelTarget target;
  ScalarMath math;
  LoopSpace space;
  /// The bodies of loops with strided accesses.
  llvm::SmallPtrSet<mlir::Block *, 8> strided;

private:
  using Memo = llvm::DenseMap<Value, SmallVector<std::pair<Indices, Value>, 1>>;
  std::vector<Memo> memos;
};

/// The function combines two lists of values, item i by `kinds[i]`.
Combine accumulation(KernelBuilder &b, ArrayRef<ReduceKind> kinds);

/// Tells LLVM not to vectorize the `strided` loops, because vector code for
/// them is long and hardly faster.
void annotateLoops(KernelBuilder &b, mlir::func::FuncOp function);

} // namespace dpc::codegen
