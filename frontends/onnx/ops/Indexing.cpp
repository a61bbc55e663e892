//===- Indexing.cpp - Gather, TopK and related operators ------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// The result shape: `x` with dimension `axis` replaced by `indexShape`.
Shape gatheredShape(Val x, int64_t axis, llvm::ArrayRef<int64_t> indexShape) {
  Shape shape(x.shape().take_front(axis));
  shape.append(indexShape.begin(), indexShape.end());
  shape.append(x.shape().begin() + axis + 1, x.shape().end());
  return shape;
}

/// Gathers at known indices; regular indices become slices.
Val gatherConstant(NodeContext &c, Val x, const ConstTensor &indices,
                   int64_t axis) {
  Shape list = indices.asInts();
  for (int64_t &index : list) {
    if (index < -x.dim(axis) || index >= x.dim(axis))
      return c.fail("index " + llvm::Twine(index) + " is outside dimension " +
                    llvm::Twine(axis) + " of " + describe(x.type()));
    index += index < 0 ? x.dim(axis) : 0;
  }
  return c.emit.reshape(c.emit.take(x, axis, list),
                        gatheredShape(x, axis, indices.shape()));
}

void gather(NodeContext &c) {
  Val x = c.in(0), indices = c.in(1);
  if (!x || !indices)
    return;
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (c.emit.failed())
    return;
  if (indices.isFloat()) {
    c.fail("indices must be integers, not " + describe(indices.type()));
    return;
  }
  if (indices.constant)
    return c.out(gatherConstant(c, x, *indices.constant, axis));
  c.out(gatherRows(c.emit, x, indices, axis));
}

void oneHot(NodeContext &c) {
  Emitter &e = c.emit;
  Val indices = c.in(0), values = c.in(2);
  auto depth = static_cast<int64_t>(c.numberIn(1));
  if (e.failed() || !values)
    return;
  if (values.rank() != 1 || values.dim(0) != 2) {
    c.fail("values must be [off, on], not " + describe(values.type()));
    return;
  }
  int64_t axis = c.axis(c.intAttr("axis", -1), indices.rank() + 1);
  Val hot = e.select(oneHotMask(e, wrapped(e, indices, depth), depth),
                     e.sliceDim(values, 0, 1, 1), e.sliceDim(values, 0, 0, 1));
  if (!hot)
    return;
  Shape perm = iotaDims(hot.rank() - 1);
  perm.insert(perm.begin() + axis, hot.rank() - 1);
  c.out(e.transpose(hot, perm));
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

Val swappedToLast(Emitter &e, Val x, int64_t axis) {
  return x ? e.swapDims(x, axis, x.rank() - 1) : Val();
}

void topk(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  int64_t k =
      c.hasAttr("k") ? c.intAttr("k", 1) : static_cast<int64_t>(c.numberIn(1));
  if (e.failed() || !x)
    return;
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (e.failed())
    return;
  auto [values, indices] =
      e.topk(swappedToLast(e, x, axis), k, c.intAttr("largest", 1) != 0);
  c.out(0, swappedToLast(e, values, axis));
  c.out(1, swappedToLast(e, indices, axis));
}

void cumsum(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto given = static_cast<int64_t>(c.numberIn(1));
  if (e.failed() || !x)
    return;
  int64_t axis = c.axis(given, x.rank());
  if (e.failed())
    return;
  Val sum = e.cumsum(swappedToLast(e, x, axis), c.intAttr("exclusive", 0) != 0,
                     c.intAttr("reverse", 0) != 0);
  c.out(swappedToLast(e, sum, axis));
}

void gatherElements(NodeContext &c) {
  Val data = c.in(0), indices = c.in(1);
  if (!data || !indices)
    return;
  int64_t axis = c.axis(c.intAttr("axis", 0), data.rank());
  if (!c.emit.failed())
    c.out(gatherAlong(c.emit, data, indices, axis));
}

void scatterElements(NodeContext &c) {
  Val data = c.in(0), indices = c.in(1), updates = c.in(2);
  if (!data || !indices || !updates)
    return;
  int64_t axis = c.axis(c.intAttr("axis", 0), data.rank());
  if (!c.emit.failed())
    c.out(scatterAlong(c.emit, data, indices, updates, axis,
                       c.stringAttr("reduction", "none")));
}

} // namespace

void addIndexingOps(OpTable &table) {
  table["Gather"] = gather;
  table["GatherElements"] = gatherElements;
  table["OneHot"] = oneHot;
  table["Scatter"] = scatterElements;
  table["ScatterElements"] = scatterElements;
  table["TopK"] = topk;
  table["CumSum"] = cumsum;
}

} // namespace dpc::frontend
