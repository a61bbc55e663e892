//===- Indexing.cpp - Gather, TopK and related operators ------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Gathers at known indices; regular indices become slices.
Val gatherConstant(NodeContext &c, Val x, const ConstTensor &indices,
                   int64_t axis) {
  Shape list = indices.asInts();
  for (int64_t &index : list) {
    if (index < -x.dim(axis) || index >= x.dim(axis))
      return c.fail("index {0} is outside dimension {1} of {2}", index, axis,
                    x);
    index += index < 0 ? x.dim(axis) : 0;
  }
  return c.emit.reshape(c.emit.take(x, axis, list),
                        joinShapes({x.shape().take_front(axis), indices.shape(),
                                    x.shape().drop_front(axis + 1)}));
}

Val gather(NodeContext &c, Val x, Val indices) {
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (c.emit.failed())
    return {};
  if (indices.isFloat())
    return c.fail("indices must be integers, not {0}", indices);
  if (indices.constant)
    return gatherConstant(c, x, *indices.constant, axis);
  return gatherRows(c.emit, x, indices, axis);
}

Val oneHot(NodeContext &c, Val indices) {
  Emitter &e = c.emit;
  Val values = c.in(2);
  auto depth = static_cast<int64_t>(c.numberIn(1));
  if (e.failed() || !values)
    return {};
  if (values.rank() != 1 || values.dim(0) != 2)
    return c.fail("values must be [off, on], not {0}", values);
  int64_t axis = c.axis(c.intAttr("axis", -1), indices.rank() + 1);
  Val hot = e.select(oneHotMask(e, wrapped(e, indices, depth), depth),
                     e.sliceDim(values, 0, 1, 1), e.sliceDim(values, 0, 0, 1));
  if (!hot)
    return {};
  Shape perm = iotaDims(hot.rank() - 1);
  perm.insert(perm.begin() + axis, hot.rank() - 1);
  return e.transpose(hot, perm);
}

//===----------------------------------------------------------------------===//
// Along one dimension
//===----------------------------------------------------------------------===//

Val topk(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t k =
      c.hasAttr("k") ? c.intAttr("k", 1) : static_cast<int64_t>(c.numberIn(1));
  if (e.failed())
    return {};
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (e.failed())
    return {};
  auto [values, indices] = e.topk(x, axis, k, c.intAttr("largest", 1) != 0);
  c.out(1, indices);
  return values;
}

Val cumsum(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto given = static_cast<int64_t>(c.numberIn(1));
  if (e.failed())
    return {};
  int64_t axis = c.axis(given, x.rank());
  if (e.failed())
    return {};
  Val sum = e.cumsum(e.swapWithLast(x, axis), c.intAttr("exclusive", 0) != 0,
                     c.intAttr("reverse", 0) != 0);
  return e.swapWithLast(sum, axis);
}

Val gatherElements(NodeContext &c, Val data, Val indices) {
  int64_t axis = c.axis(c.intAttr("axis", 0), data.rank());
  return c.emit.failed() ? Val() : gatherAlong(c.emit, data, indices, axis);
}

Val scatterElements(NodeContext &c, Val data, Val indices, Val updates) {
  int64_t axis = c.axis(c.intAttr("axis", 0), data.rank());
  return c.emit.failed() ? Val()
                         : scatterAlong(c.emit, data, indices, updates, axis,
                                        c.stringAttr("reduction", "none"));
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
