//===- CpuReductions.cpp - Reductions over dimensions, tensors and ids ----===//
#include "codegen/cpu/CpuLoops.h"
#include "codegen/kernel/Nests.h"
#include "codegen/kernel/RowKernels.h"

using namespace mlir;

namespace dpc::codegen {

static bool isUnsigned(Value value) {
  return codegen::isUnsigned(elementTypeOf(value));
}

static Value reduceElement(ElementEmitter &b, ReduceOp op, Indices &indices,
                           unsigned next, Value sum) {
  if (next == op.getDims().size())
    return b.math.accumulate(op.getKind(), sum, b.at(op.getX(), indices),
                             isUnsigned(op.getX()));
  int64_t dim = op.getDims()[next];
  return b.spaceFold(
      shapeOf(op.getX())[dim], sum, [&](Index i, ValueRange carried) -> Values {
        indices[dim] = i;
        return {reduceElement(b, op, indices, next + 1, carried[0])};
      })[0];
}

// If the last dimension is reduced, each result accumulates in a register.
// Otherwise whole rows accumulate into the result in memory. In both cases, the
// inner loop accesses contiguous memory.
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
  Value total = b.math.constant(b.getF64Type(), 0);
  for (Value input : op.getInputs()) {
    std::optional<MemoryRef> flat = flatOperand(b, input);
    SmallVector<int64_t> sizes(flat ? flat->view.shape : shapeOf(input));
    Indices indices;
    std::function<Value(unsigned, Value)> sum = [&](unsigned d, Value partial) {
      if (d == sizes.size())
        return addSquare(b, partial, input, flat, indices);
      return b.spaceFold(sizes[d], partial,
                         [&](Index i, ValueRange carried) -> Values {
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

// Adds rows in the order of the ids, so every run gives the same result.
static void emitEmbeddingGrad(ElementEmitter &b, EmbeddingGradOp op,
                              const MemoryRef &target) {
  Type type = computeTypeOf(op.getDy());
  fill(b, target, type, 0);
  int64_t columns = shapeOf(op.getDy()).back();
  Indices row;
  b.spaceLoops(shapeOf(op.getIds()), row, [&] {
    auto [position, found] =
        lookUp(b, op, b.at(op.getIds(), row), shapeOf(op.getResult())[0]);
    // For an id of another shard, the loop over columns has no iterations.
    Value count = select(b, found, constantI64(b, columns), constantI64(b, 0));
    Index targetRow = LoopSpace::opaque(position);
    auto addColumn = [&](Index j) {
      Indices from(row), to{targetRow, j};
      from.push_back(j);
      b.store(b.math.add(b.load(target, type, to), b.at(op.getDy(), from)),
              target, to);
    };
    b.spaceLoop(columns, addColumn, count);
  });
}

/// Emits elementwise results first, so that reductions read them from memory.
void emitReductions(ElementEmitter &b) {
  SmallVector<unsigned> plain, reductions;
  for (auto [i, value] : llvm::enumerate(b.yields)) {
    Operation *op = value.getDefiningOp();
    (op && isReduction(op) ? reductions : plain).push_back(i);
  }
  for (unsigned i : plain) {
    emitCut(b, i);
    b.stored[b.yields[i]] = b.arguments.outputs[i];
  }
  for (unsigned i : reductions)
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
