//===- Indexing.cpp - Gather, TopK and friends ----------------------------===//
//
// Elements are looked up (GatherElements) and placed (ScatterElements) by
// comparing every index with every position: [.., indices, positions] is never
// stored, the sums over it are one kernel, and all dimensions may be split. It
// costs a comparison per pair, which suits rows of experts; rows of a table go
// through `dpc.embedding` instead.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/NodeContext.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>

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

/// Indices are known: slices where they are regular.
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

/// Rows of any tensor by run-time indices, through a table of rank 2.
Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis) {
  Shape perm = {axis};
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != axis)
      perm.push_back(d);
  Shape rest(x.shape());
  rest.erase(rest.begin() + axis);
  Val table = e.reshape(e.transpose(x, perm), {x.dim(axis), numElements(rest)});
  Val rows = e.embedding(table, indices);
  if (!rows)
    return {};
  Shape shape(indices.shape());
  shape.append(rest.begin(), rest.end());
  rows = e.reshape(rows, shape);
  // [indices.., rest..] -> the indices' dimensions move behind the first
  // `axis` of the rest.
  int64_t k = indices.rank();
  Shape back;
  for (int64_t d = 0; d < axis; ++d)
    back.push_back(k + d);
  for (int64_t d = 0; d < k; ++d)
    back.push_back(d);
  for (int64_t d = axis; d < static_cast<int64_t>(rest.size()); ++d)
    back.push_back(k + d);
  return e.transpose(rows, back);
}

/// Whether `x` is an argument that holds weights.
bool isWeight(Val x) {
  auto argument = dyn_cast_if_present<BlockArgument>(x.value);
  if (!argument)
    return false;
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : StringAttr();
  return role == role::kParameter || role == role::kBuffer;
}

/// Negative indices count from the end.
Val wrapped(Emitter &e, Val indices, int64_t size) {
  return e.select(
      e.compare(CompareKind::lt, indices, e.scalar(0, indices.element())),
      e.binary(BinaryKind::add, indices, static_cast<double>(size)), indices);
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
  // Token ids are never negative: a plain look-up is what embeddings are.
  if (!isWeight(x))
    indices = wrapped(c.emit, indices, x.dim(axis));
  c.out(gatherRows(c.emit, x, indices, axis));
}

/// Whether each position of the last dimension equals the index there:
/// [.., n] against iota.
Val oneHotMask(Emitter &e, Val indices, int64_t depth) {
  if (!indices)
    return {};
  Shape shape(indices.shape());
  shape.push_back(1);
  Val wanted = e.reshape(e.convert(indices, e.builder.getI64Type()), shape);
  shape.back() = depth;
  return e.compare(CompareKind::eq, e.iota(shape, indices.rank()), wanted);
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

/// The operands of GatherElements and ScatterElements.
struct AlongAxis {
  int64_t axis;
  Val data;    ///< cut to the indices' sizes but along `axis`; axis last
  Val indices; ///< i64, not negative; axis last
  Val hit;     ///< [.., indices, positions]: the index is the position

  /// `x` [.., indices] or, with `positions`, [.., positions] as hit's shape.
  Val spread(Emitter &e, Val x, bool positions) const {
    Shape dims = iotaDims(hit.rank() - 1);
    if (positions)
      ++dims.back();
    return e.broadcast(x, hit.shape(), dims);
  }
};

std::optional<AlongAxis> alongAxis(NodeContext &c) {
  Emitter &e = c.emit;
  Val data = c.in(0), indices = c.in(1);
  if (!data || !indices)
    return std::nullopt;
  if (indices.isFloat() || indices.rank() != data.rank()) {
    c.fail("indices must be integers of rank " + llvm::Twine(data.rank()) +
           ", not " + describe(indices.type()));
    return std::nullopt;
  }
  AlongAxis result;
  result.axis = c.axis(c.intAttr("axis", 0), data.rank());
  if (e.failed())
    return std::nullopt;
  Shape box(indices.shape());
  box[result.axis] = data.dim(result.axis);
  for (int64_t d = 0; d < data.rank(); ++d)
    if (box[d] > data.dim(d)) {
      c.fail("indices " + describe(indices.type()) + " reach beyond " +
             describe(data.type()));
      return std::nullopt;
    }
  result.data = swappedToLast(
      e, e.slice(data, Shape(box.size(), 0), box, Shape(box.size(), 1)),
      result.axis);
  int64_t size = data.dim(result.axis);
  result.indices = swappedToLast(
      e, wrapped(e, e.convert(indices, e.builder.getI64Type()), size),
      result.axis);
  result.hit = oneHotMask(e, result.indices, size);
  if (!result.hit || !result.data)
    return std::nullopt;
  return result;
}

void gatherElements(NodeContext &c) {
  Emitter &e = c.emit;
  auto along = alongAxis(c);
  if (!along)
    return;
  Val wide = along->spread(e, along->data, /*positions=*/true);
  Val picked = e.select(along->hit, wide, e.scalar(0, wide.element()));
  Val result = e.reduce(ReduceKind::sum, picked, {wide.rank() - 1});
  c.out(swappedToLast(e, result, along->axis));
}

bool isZero(const Val &v) {
  return v.constant && v.constant->layout() == ConstTensor::Layout::Splat &&
         (v.isFloat() ? v.constant->at(0).f == 0 : v.constant->at(0).i == 0);
}

/// `along.data` with the updates put in; null for an unknown reduction.
Val scattered(NodeContext &c, const AlongAxis &along, Val updates) {
  Emitter &e = c.emit;
  llvm::StringRef reduction = c.stringAttr("reduction", "none");
  Val wide = along.spread(e, updates, /*positions=*/false);
  int64_t indexDim = along.hit.rank() - 2;
  auto combined = [&](ReduceKind kind, double neutral) {
    Val chosen =
        e.select(along.hit, wide, e.scalar(neutral, updates.element()));
    return e.reduce(kind, chosen, {indexDim});
  };
  if (reduction == "none") {
    // Indices of one row are distinct, so that the sum has one term.
    Val placed = combined(ReduceKind::sum, 0);
    if (isZero(along.data))
      return placed;
    Val count =
        e.reduce(ReduceKind::sum, e.convert(along.hit, e.builder.getI64Type()),
                 {indexDim});
    return e.select(
        e.compare(CompareKind::gt, count, e.scalar(0, e.builder.getI64Type())),
        placed, along.data);
  }
  if (reduction == "add")
    return e.binary(BinaryKind::add, along.data, combined(ReduceKind::sum, 0));
  if (reduction == "mul")
    return e.binary(BinaryKind::mul, along.data, combined(ReduceKind::prod, 1));
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (updates.isFloat() && reduction == "max")
    return e.binary(BinaryKind::maximum, along.data,
                    combined(ReduceKind::max, -inf));
  if (updates.isFloat() && reduction == "min")
    return e.binary(BinaryKind::minimum, along.data,
                    combined(ReduceKind::min, inf));
  return c.fail("reduction '" + reduction + "' of " + describe(updates.type()) +
                " is not supported: none, add, mul, and max, min of floats");
}

void scatterElements(NodeContext &c) {
  Emitter &e = c.emit;
  auto along = alongAxis(c);
  Val data = c.in(0), updates = c.in(2);
  if (!along || !updates)
    return;
  if (updates.shape() != c.in(1).shape()) {
    c.fail("updates " + describe(updates.type()) + " do not match indices " +
           describe(c.in(1).type()));
    return;
  }
  Val result = swappedToLast(
      e, scattered(c, *along, swappedToLast(e, updates, along->axis)),
      along->axis);
  // What lies beside the indices' box stays as it is.
  for (int64_t d = 0; result && d < data.rank(); ++d) {
    if (result.dim(d) == data.dim(d))
      continue;
    Shape offsets(data.rank(), 0), sizes(result.shape());
    offsets[d] = result.dim(d);
    sizes[d] = data.dim(d) - result.dim(d);
    Val rest = e.slice(data, offsets, sizes, Shape(data.rank(), 1));
    result = e.concat({result, rest}, d);
  }
  c.out(result);
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
