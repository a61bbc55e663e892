//===- KernelBuilder.cpp - A builder that knows the open loops ------------===//
#include "codegen/kernel/KernelBuilder.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dpc::codegen {

KernelBuilder::KernelBuilder(OpBuilder &builder, KernelTarget target)
    : ImplicitLocOpBuilder(UnknownLoc::get(builder.getContext()), builder),
      target(target), math(*this, target != KernelTarget::cpu) {}

Value KernelBuilder::recall(Value value, ArrayRef<Index> indices) const {
  for (const Memo &memo : llvm::reverse(memos))
    if (auto it = memo.find(value); it != memo.end())
      for (const auto &[known, element] : it->second)
        if (ArrayRef<Index>(known) == indices)
          return element;
  return {};
}

void KernelBuilder::remember(Value value, ArrayRef<Index> indices,
                             Value element) {
  memos.back()[value].push_back({Indices(indices), element});
}

Values KernelBuilder::foldLoop(Value upper, ValueRange init,
                               const FoldBody &body) {
  Value zero = constantI64(*this, 0);
  if (auto size = upper.getDefiningOp<arith::ConstantOp>();
      size && cast<IntegerAttr>(size.getValue()).getInt() == 1)
    return body(zero, init);
  return stepLoop(zero, upper, 1, init, body);
}

Values KernelBuilder::stepLoop(Value lower, Value upper, int64_t step,
                               ValueRange init, const FoldBody &body) {
  auto loop =
      scf::ForOp::create(*this, lower, upper, constantI64(*this, step), init);
  OpBuilder::InsertionGuard guard(*this);
  Block *block = loop.getBody();
  if (!block->empty() && block->back().hasTrait<mlir::OpTrait::IsTerminator>())
    block->back().erase();
  setInsertionPointToEnd(block);
  openScope();
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(*this, next);
  closeScope();
  return {loop.getResults().begin(), loop.getResults().end()};
}

void KernelBuilder::stepLoop(Value lower, Value upper, int64_t step,
                             const LoopBody &body) {
  stepLoop(lower, upper, step, {}, [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

void KernelBuilder::forLoop(Value upper, const LoopBody &body) {
  foldLoop(upper, {}, [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

Values KernelBuilder::spaceFold(int64_t size, ValueRange init,
                                const ColumnBody &body, Value limit) {
  Value upper = limit ? limit : constantI64(*this, size);
  return foldLoop(upper, init, [&](Value i, ValueRange carried) {
    int64_t loop = space.push(size, i);
    Values next = body(space.loop(loop), carried);
    space.pop();
    return next;
  });
}

void KernelBuilder::spaceLoop(int64_t size,
                              const std::function<void(Index)> &body,
                              Value limit) {
  auto fold = [&](Index i, ValueRange) {
    body(i);
    return Values();
  };
  spaceFold(size, {}, fold, limit);
}

void KernelBuilder::spaceLoops(ArrayRef<int64_t> sizes, Indices &indices,
                               const std::function<void()> &body) {
  if (sizes.empty())
    return body();
  spaceLoop(sizes.front(), [&](Index i) {
    indices.push_back(i);
    spaceLoops(sizes.drop_front(), indices, body);
    indices.pop_back();
  });
}

void KernelBuilder::when(Value condition, const std::function<void()> &body) {
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&branch.getThenRegion().front());
  openScope();
  body();
  closeScope();
}

void KernelBuilder::whenBelow(Value number, int64_t limit,
                              const std::function<void()> &body) {
  when(cmp(*this, IntPredicate::slt, number, limit), body);
}

void KernelBuilder::pushDims(Value linear, ArrayRef<int64_t> sizes,
                             Indices &indices, int64_t multiple) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= std::max<int64_t>(size, 1);
  // Divides in 32 bits if possible, because 64-bit divisions are slow.
  bool isSmall = count <= std::numeric_limits<int32_t>::max();
  Type type = isSmall ? getI32Type() : getI64Type(), i64 = getI64Type();
  if (isSmall)
    linear = truncate(*this, type, linear);
  Values vars(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    Value size = math.constant(type, static_cast<double>(sizes[d]));
    Value rest = linear;
    if (llvm::any_of(sizes.take_front(d), [](int64_t s) { return s > 1; })) {
      rest = remU(*this, linear, size);
      linear = divU(*this, linear, size);
    }
    vars[d] = isSmall ? extendU(*this, i64, rest) : rest;
    if (rest == linear)
      break;
  }
  for (auto [d, size] : llvm::enumerate(sizes)) {
    Value value = vars[d] ? vars[d] : constantI64(*this, 0);
    bool isLast = d + 1 == sizes.size();
    indices.push_back(
        space.loop(space.push(size, value, isLast ? multiple : 1)));
  }
}

void KernelBuilder::popDims(size_t count) {
  for (size_t i = 0; i < count; ++i)
    space.pop();
}

Combine accumulation(KernelBuilder &b, ArrayRef<ReduceKind> kinds) {
  SmallVector<ReduceKind> copy(kinds);
  return [&b, copy](ValueRange x, ValueRange y) {
    Values sums;
    for (auto [kind, a, c] : llvm::zip_equal(copy, x, y))
      sums.push_back(b.math.accumulate(kind, a, c));
    return sums;
  };
}

void annotateLoops(KernelBuilder &b, func::FuncOp function) {
  Attribute noVectors = parseAttribute(
      "#llvm.loop_annotation<vectorize = <disable = true>>", b.getContext());
  function.walk([&](scf::ForOp loop) {
    if (b.strided.contains(loop.getBody()))
      loop->setAttr("llvm.loop_annotation", noVectors);
  });
}

} // namespace dpc::codegen
