//===- CpuReductions.cpp - Sums over dimensions, tensors and ids ----------===//
#include "codegen/cpu/CpuLoops.h"
#include "codegen/kernel/Nests.h"
#include "codegen/kernel/RowKernels.h"

using namespace mlir;

namespace dpc::codegen {

static bool isUnsigned(Value value) {
  return codegen::isUnsigned(
      cast<RankedTensorType>(value.getType()).getElementType());
}

/// Accumulates over the reduced dimensions from the `next`-th on.
static Value reduceElement(ElementEmitter &b, ReduceOp op, Indices &indices,
                           unsigned next, Value sum) {
  if (next == op.getDims().size())
    return b.math.accumulate(op.getKind(), sum, b.at(op.getX(), indices),
                             isUnsigned(op.getX()));
  int64_t dim = op.getDims()[next];
  return b.spaceFold(shapeOf(op.getX())[dim], sum,
                     [&](Index i, ValueRange carried) -> SmallVector<Value> {
                       indices[dim] = i;
                       return {
                           reduceElement(b, op, indices, next + 1, carried[0])};
                     })[0];
}

// Rows are summed in registers; sums over rows add whole rows to the result,
// so that the inner loop always runs along memory.
static void emitReduce(ElementEmitter &b, ReduceOp op,
                       const MemoryRef &target) {
  ArrayRef<int64_t> shape = shapeOf(op.getX()), dims = op.getDims();
  int64_t rank = shape.size();
  Type type = computeTypeOf(op.getX());
  Indices kept;
  if (dims.empty() || dims.back() == rank - 1) {
    b.spaceLoops(shapeOf(op.getResult()), kept, [&] {
      Indices indices;
      unsigned next = 0;
      for (int64_t d = 0; d < rank; ++d)
        indices.push_back(llvm::is_contained(dims, d) ? Index() : kept[next++]);
      Value sum = reduceElement(
          b, op, indices, 0,
          b.math.neutral(op.getKind(), type, isUnsigned(op.getX())));
      b.store(sum, target, kept);
    });
    return;
  }
  b.spaceLoops(target.view.shape, kept, [&] {
    b.store(b.math.neutral(op.getKind(), type, isUnsigned(op.getX())), target,
            kept);
  });
  Indices indices;
  b.spaceLoops(shape, indices, [&] {
    Indices result;
    for (int64_t d = 0; d < rank; ++d)
      if (!llvm::is_contained(dims, d))
        result.push_back(indices[d]);
    Value sum =
        b.math.accumulate(op.getKind(), b.load(target, type, result),
                          b.at(op.getX(), indices), isUnsigned(op.getX()));
    b.store(sum, target, result);
  });
}

static void emitSumSquares(ElementEmitter &b, SumSquaresOp op,
                           const MemoryRef &target) {
  Type f64 = b.getF64Type();
  Value total = b.math.constant(f64, 0);
  for (Value input : op.getInputs()) {
    SmallVector<int64_t> sizes(shapeOf(input));
    // A dense operand is one long row.
    auto argument = dyn_cast<BlockArgument>(input);
    MemoryRef flat;
    if (argument &&
        b.arguments.inputs[argument.getArgNumber()].view.isDense()) {
      int64_t count = 1;
      for (int64_t size : sizes)
        count *= size;
      sizes = {count};
      flat = {b.arguments.inputs[argument.getArgNumber()].pointer,
              StridedView::dense(sizes),
              b.arguments.inputs[argument.getArgNumber()].element};
    }
    Indices indices;
    std::function<Value(unsigned, Value)> sum = [&](unsigned d, Value partial) {
      if (d == sizes.size()) {
        Value x = flat.pointer ? b.load(flat, computeTypeOf(input), indices)
                               : b.at(input, indices);
        x = b.math.convert(x, f64);
        return b.math.accumulate(ReduceKind::sum, partial, b.math.mul(x, x));
      }
      return b.spaceFold(
          sizes[d], partial,
          [&](Index i, ValueRange carried) -> SmallVector<Value> {
            indices.push_back(i);
            Value next = sum(d + 1, carried[0]);
            indices.pop_back();
            return {next};
          })[0];
    };
    total = sum(0, total);
  }
  b.store(b.math.convert(total, computeTypeOf(op.getResult())), target, {});
}

// Rows are added in the order of the ids: the same on every run.
static void emitEmbeddingGrad(ElementEmitter &b, EmbeddingGradOp op,
                              const MemoryRef &target) {
  Type type = computeTypeOf(op.getDy());
  fill(b, target, type, 0);
  int64_t columns = shapeOf(op.getDy()).back();
  Indices row;
  b.spaceLoops(shapeOf(op.getIds()), row, [&] {
    auto [position, found] =
        lookUp(b, op, b.at(op.getIds(), row), shapeOf(op.getResult())[0]);
    // A loop of no iterations skips ids that are elsewhere.
    Value count = arith::SelectOp::create(b, found, constantI64(b, columns),
                                          constantI64(b, 0));
    Index targetRow = LoopSpace::opaque(position);
    b.foldLoop(count, {}, [&](Value i, ValueRange) {
      int64_t loop = b.space.push(columns, i);
      Index j = b.space.loop(loop);
      Indices from(row), to{targetRow, j};
      from.push_back(j);
      b.store(b.math.add(b.load(target, type, to), b.at(op.getDy(), from)),
              target, to);
      b.space.pop();
      return SmallVector<Value>();
    });
  });
}

/// Elementwise results first: the reductions then read them from memory.
void emitReductions(ElementEmitter &b) {
  SmallVector<unsigned> plain, sums;
  for (auto [i, value] : llvm::enumerate(b.yields)) {
    Operation *op = value.getDefiningOp();
    (op && isReduction(op) ? sums : plain).push_back(i);
  }
  for (unsigned i : plain) {
    emitCut(b, i);
    b.stored[b.yields[i]] = b.arguments.outputs[i];
  }
  for (unsigned i : sums)
    TypeSwitch<Operation *>(b.yields[i].getDefiningOp())
        .Case([&](ReduceOp op) { emitReduce(b, op, b.arguments.outputs[i]); })
        .Case([&](SumSquaresOp op) {
          emitSumSquares(b, op, b.arguments.outputs[i]);
        })
        .Case([&](EmbeddingGradOp op) {
          emitEmbeddingGrad(b, op, b.arguments.outputs[i]);
        });
}

} // namespace dpc::codegen
