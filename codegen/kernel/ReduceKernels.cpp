//===- ReduceKernels.cpp - Sums over dimensions, tensors and ids ----------===//
#include "codegen/kernel/KernelEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dpc::codegen {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementOf(Value value) { return computeTypeOf(value); }
static bool isUnsigned(Value value) {
  return codegen::isUnsigned(
      cast<RankedTensorType>(value.getType()).getElementType());
}

bool isReduction(Operation *op) {
  return isa<ReduceOp, SumSquaresOp, EmbeddingGradOp>(op);
}

/// Elementwise results first: the reductions then read them from memory.
LogicalResult KernelEmitter::emitReductions() {
  SmallVector<unsigned> plain, sums;
  for (auto [i, value] : llvm::enumerate(yields)) {
    Operation *op = value.getDefiningOp();
    (op && isReduction(op) ? sums : plain).push_back(i);
  }
  for (unsigned i : plain) {
    emitCut(i);
    stored[yields[i]] = outputs[i];
  }
  for (unsigned i : sums)
    TypeSwitch<Operation *>(yields[i].getDefiningOp())
        .Case([&](ReduceOp op) { emitReduce(op, outputs[i]); })
        .Case([&](SumSquaresOp op) { emitSumSquares(op, outputs[i]); })
        .Case([&](EmbeddingGradOp op) { emitEmbeddingGrad(op, outputs[i]); });
  return success();
}

/// Accumulates over the reduced dimensions from the `next`-th on.
Value KernelEmitter::reduceElement(ReduceOp op, Indices &indices, unsigned next,
                                   Value sum) {
  if (next == op.getDims().size())
    return math.accumulate(op.getKind(), sum, at(op.getX(), indices),
                           isUnsigned(op.getX()));
  int64_t dim = op.getDims()[next];
  return spaceFold(shapeOf(op.getX())[dim], sum,
                   [&](Index i, ValueRange carried) -> SmallVector<Value> {
                     indices[dim] = i;
                     return {reduceElement(op, indices, next + 1, carried[0])};
                   })[0];
}

// Rows are summed in registers; sums over rows add whole rows to the result,
// so that the inner loop always runs along memory.
void KernelEmitter::emitReduce(ReduceOp op, const MemoryRef &target) {
  ArrayRef<int64_t> shape = shapeOf(op.getX()), dims = op.getDims();
  int64_t rank = shape.size();
  Type type = elementOf(op.getX());
  Indices kept;
  if (dims.empty() || dims.back() == rank - 1) {
    spaceLoops(shapeOf(op.getResult()), kept, [&] {
      Indices indices;
      unsigned next = 0;
      for (int64_t d = 0; d < rank; ++d)
        indices.push_back(llvm::is_contained(dims, d) ? Index() : kept[next++]);
      Value sum = reduceElement(
          op, indices, 0,
          math.neutral(op.getKind(), type, isUnsigned(op.getX())));
      store(sum, target, kept);
    });
    return;
  }
  spaceLoops(target.view.shape, kept, [&] {
    store(math.neutral(op.getKind(), type, isUnsigned(op.getX())), target,
          kept);
  });
  Indices indices;
  spaceLoops(shape, indices, [&] {
    Indices result;
    for (int64_t d = 0; d < rank; ++d)
      if (!llvm::is_contained(dims, d))
        result.push_back(indices[d]);
    Value sum = math.accumulate(op.getKind(), load(target, type, result),
                                at(op.getX(), indices), isUnsigned(op.getX()));
    store(sum, target, result);
  });
}

void KernelEmitter::emitSumSquares(SumSquaresOp op, const MemoryRef &target) {
  Type f64 = b.getF64Type();
  Value total = math.constant(f64, 0);
  for (Value input : op.getInputs()) {
    SmallVector<int64_t> sizes(shapeOf(input));
    // A dense operand is one long row.
    auto argument = dyn_cast<BlockArgument>(input);
    MemoryRef flat;
    if (argument && inputs[argument.getArgNumber()].view.isDense()) {
      int64_t count = 1;
      for (int64_t size : sizes)
        count *= size;
      sizes = {count};
      flat = {inputs[argument.getArgNumber()].pointer,
              StridedView::dense(sizes),
              inputs[argument.getArgNumber()].element};
    }
    Indices indices;
    std::function<Value(unsigned, Value)> sum = [&](unsigned d, Value partial) {
      if (d == sizes.size()) {
        Value x = flat.pointer ? load(flat, elementOf(input), indices)
                               : at(input, indices);
        x = math.convert(x, f64);
        return math.accumulate(ReduceKind::sum, partial, math.mul(x, x));
      }
      return spaceFold(sizes[d], partial,
                       [&](Index i, ValueRange carried) -> SmallVector<Value> {
                         indices.push_back(i);
                         Value next = sum(d + 1, carried[0]);
                         indices.pop_back();
                         return {next};
                       })[0];
    };
    total = sum(0, total);
  }
  store(math.convert(total, elementOf(op.getResult())), target, {});
}

// Rows are added in the order of the ids: the same on every run.
void KernelEmitter::emitEmbeddingGrad(EmbeddingGradOp op,
                                      const MemoryRef &target) {
  Type type = elementOf(op.getDy());
  fill(target, type, 0);
  int64_t columns = shapeOf(op.getDy()).back();
  Indices row;
  spaceLoops(shapeOf(op.getIds()), row, [&] {
    auto [position, found] =
        lookup(op, at(op.getIds(), row), shapeOf(op.getResult())[0]);
    // A loop of no iterations skips ids that are elsewhere.
    Value count = arith::SelectOp::create(b, found, constantI64(b, columns),
                                          constantI64(b, 0));
    Index targetRow = LoopSpace::opaque(position);
    foldLoop(count, {}, [&](Value i, ValueRange) {
      int64_t loop = space.push(columns, i);
      Index j = space.loop(loop);
      Indices from(row), to{targetRow, j};
      from.push_back(j);
      store(math.add(load(target, type, to), at(op.getDy(), from)), target, to);
      space.pop();
      return SmallVector<Value>();
    });
  });
}

} // namespace dpc::codegen
