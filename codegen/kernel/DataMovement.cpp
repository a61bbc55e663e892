//===- DataMovement.cpp - Indices of ops that move elements ---------------===//
#include "codegen/kernel/ElementEmitter.h"

using namespace mlir;

namespace dpc::codegen {

Indices delinearize(ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, ArrayRef<int64_t> shape) {
  Indices indices(shape.size(), LoopSpace::constant(0));
  bool outermost = true;
  for (size_t d = 0; d < shape.size() && outermost; ++d)
    outermost = shape[d] == 1;
  if (outermost)
    return indices;
  size_t first = 0;
  while (shape[first] == 1)
    ++first;
  for (size_t d = shape.size(); d-- > first + 1;) {
    if (shape[d] == 1)
      continue;
    if (auto parts = space.divide(linear, shape[d])) {
      indices[d] = parts->second;
      linear = parts->first;
      continue;
    }
    if (!b) {
      indices[d] = linear = LoopSpace::opaque({});
      continue;
    }
    Value whole = space.materialize(*b, linear);
    Value size = constantI64(*b, shape[d]);
    indices[d] = LoopSpace::opaque(remU(*b, whole, size));
    linear = LoopSpace::opaque(divU(*b, whole, size));
  }
  indices[first] = linear;
  return indices;
}

static Indices reshapedIndices(ImplicitLocOpBuilder *b, const LoopSpace &space,
                               ReshapeOp op, ArrayRef<Index> indices) {
  ArrayRef<int64_t> from = shapeOf(op.getX()), to = shapeOf(op.getResult());
  // Drops unit dimensions, which need no arithmetic.
  SmallVector<int64_t> fromSizes, toSizes;
  for (int64_t size : from)
    if (size != 1)
      fromSizes.push_back(size);
  Indices kept;
  for (auto [size, index] : llvm::zip_equal(to, indices))
    if (size != 1) {
      toSizes.push_back(size);
      kept.push_back(index);
    }
  if (fromSizes == toSizes) {
    Indices result;
    unsigned next = 0;
    for (int64_t size : from)
      result.push_back(size == 1 ? LoopSpace::constant(0) : kept[next++]);
    return result;
  }
  Index linear =
      LoopSpace::linearize(b, indices, StridedView::dense(to).strides, 0);
  return delinearize(b, space, linear, from);
}

std::optional<Indices> movedIndices(ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, Operation *op,
                                    ArrayRef<Index> indices) {
  Indices result;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    ArrayRef<int64_t> to = shapeOf(broadcast.getResult());
    for (auto [size, d] :
         llvm::zip_equal(shapeOf(broadcast.getX()), broadcast.getDims()))
      result.push_back(size == to[d] ? indices[d] : LoopSpace::constant(0));
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    result.resize(indices.size());
    for (auto [i, d] : llvm::enumerate(transpose.getPerm()))
      result[d] = indices[i];
    return result;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [index, offset, stride] :
         llvm::zip_equal(indices, slice.getOffsets(), slice.getStrides()))
      result.push_back(
          LoopSpace::shift(LoopSpace::scale(b, index, stride), offset));
    return result;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapedIndices(b, space, reshape, indices);
  return std::nullopt;
}

} // namespace dpc::codegen
