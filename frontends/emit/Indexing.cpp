//===- Indexing.cpp - Gather and scatter by runtime indices ---------------===//
#include "frontends/emit/Indexing.h"

#include "ir/IndexRange.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend {

Val wrapped(Emitter &e, Val indices, int64_t size) {
  if (indices && indices.value && rangeOf(indices.value).low >= 0)
    return indices;
  return e.select(e.lt(indices, 0), e.add(indices, size), indices);
}

Val oneHotMask(Emitter &e, Val indices, int64_t depth) {
  if (!indices)
    return {};
  Shape shape(indices.shape());
  shape.push_back(1);
  Val wanted = e.reshape(e.convert(indices, e.i64()), shape);
  shape.back() = depth;
  return e.eq(e.iota(shape, indices.rank()), wanted);
}

Val bounded(Emitter &e, Val hit, std::optional<int64_t> ignored) {
  if (!hit || hit.constant)
    return hit;
  Operation *compare = hit.value.getDefiningOp();
  compare->setAttr(attr::kBounded, e.builder.getUnitAttr());
  if (ignored)
    compare->setAttr(attr::kIgnored, e.builder.getI64IntegerAttr(*ignored));
  return hit;
}

/// Broadcasts `x` to [b.., k, rows, columns] by the dimension map `dims`. For
/// each of the k indices, sets all rows except row `places` [b.., k] to zero.
/// Then sums over `dim`.
static Val sumWhereHit(Emitter &e, Val x, llvm::ArrayRef<int64_t> dims,
                       Val places, int64_t rows, int64_t dim) {
  Val hit = oneHotMask(e, places, rows);
  if (!x || !hit)
    return {};
  // dpc cannot sum booleans.
  Type element = x.element();
  if (element.isInteger(1))
    x = e.convert(x, e.f32());
  Shape shape(hit.shape());
  shape.push_back(x.shape().back());
  Val chosen = e.select(e.broadcast(hit, shape, iotaDims(hit.rank())),
                        e.broadcast(x, shape, dims), 0);
  return e.convert(e.reduce(ReduceKind::sum, chosen, {dim}), element);
}

Val pickRows(Emitter &e, Val tables, Val places) {
  if (!tables || !places)
    return {};
  int64_t batch = places.rank() - 1;
  Shape dims = iotaDims(batch);
  dims.append({batch + 1, batch + 2});
  return sumWhereHit(e, tables, dims, places, tables.dim(batch), batch + 1);
}

Val addRows(Emitter &e, Val updates, Val places, int64_t rows) {
  if (!updates || !places)
    return {};
  int64_t batch = places.rank() - 1;
  Shape dims = iotaDims(batch + 1);
  dims.push_back(batch + 2);
  return sumWhereHit(e, updates, dims, places, rows, batch);
}

Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis,
               Negative negative) {
  // The runtime checks that the ids of a batch are not negative, and wrapping
  // would hide an embedding.
  llvm::StringRef role = roleOf(x.value);
  bool isTable = (role == role::kParameter || role == role::kBuffer) &&
                 !indices.constant && isInputOrConstant(indices.value);
  if (negative == Negative::wrap && !isTable)
    indices = wrapped(e, indices, x.dim(axis));
  Shape before = iotaDims(axis), after = iotaDims(x.rank(), axis + 1);
  Shape rest(x.shape());
  rest.erase(rest.begin() + axis);
  Val table = e.reshape(e.transpose(x, joinShapes({{axis}, before, after})),
                        {x.dim(axis), numElements(rest)});
  Val rows = e.embedding(table, indices);
  if (!rows)
    return {};
  rows = e.reshape(rows, joinShapes({indices.shape(), rest}));
  // Move the dimensions of the indices to where dimension `axis` of `x` was.
  int64_t k = indices.rank();
  return e.transpose(rows, joinShapes({iotaDims(k + axis, k), iotaDims(k),
                                       iotaDims(k + x.rank() - 1, k + axis)}));
}

namespace {

/// Data and indices of the same rank, with dimension `axis` moved to the end.
struct AlongAxis {
  int64_t axis;
  Val data; ///< sliced to the sizes of `indices`, except along `axis`
  Val hit;  ///< [.., indices, positions]: index == position

  /// Broadcasts `x` to the shape of `hit`. The shape of `x` is [.., positions]
  /// if `positions` is set, otherwise [.., indices].
  Val spread(Emitter &e, Val x, bool positions) const {
    Shape dims = iotaDims(hit.rank() - 1);
    if (positions)
      ++dims.back();
    return e.broadcast(x, hit.shape(), dims);
  }
};

std::optional<AlongAxis> alongAxis(Emitter &e, Val data, Val indices,
                                   int64_t axis, Negative negative) {
  if (indices.isFloat() || indices.rank() != data.rank()) {
    e.fail("indices must be integers of rank {0}, not {1}", data.rank(),
           indices);
    return std::nullopt;
  }
  AlongAxis result;
  result.axis = axis;
  Shape box(indices.shape());
  box[result.axis] = data.dim(result.axis);
  for (int64_t d = 0; d < data.rank(); ++d)
    if (box[d] > data.dim(d)) {
      e.fail("indices {0} are larger than {1} outside the indexed dimension",
             indices, data);
      return std::nullopt;
    }
  result.data = e.swapWithLast(
      e.slice(data, Shape(box.size(), 0), box, Shape(box.size(), 1)),
      result.axis);
  int64_t size = data.dim(result.axis);
  indices = e.convert(indices, e.i64());
  bool wraps = negative == Negative::wrap;
  if (wraps)
    indices = wrapped(e, indices, size);
  result.hit = oneHotMask(e, e.swapWithLast(indices, axis), size);
  if (!wraps)
    result.hit = bounded(e, result.hit);
  if (!result.hit || !result.data)
    return std::nullopt;
  return result;
}

Val scattered(Emitter &e, const AlongAxis &along, Val updates,
              llvm::StringRef reduction) {
  Val wide = along.spread(e, updates, /*positions=*/false);
  auto how = combinationOf(e, reduction, updates);
  if (!how)
    return {};
  int64_t indexDim = along.hit.rank() - 2;
  Val chosen = e.select(along.hit, wide, how->neutral);
  Val placed = e.reduce(how->reduce, chosen, {indexDim});
  if (reduction != "none")
    return e.binary(how->join, along.data, placed);
  // Without a reduction, the indices of a row are distinct, so at most one term
  // of each sum is nonzero.
  if (isZero(along.data))
    return placed;
  Val count =
      e.reduce(ReduceKind::sum, e.convert(along.hit, e.i64()), {indexDim});
  return e.select(e.gt(count, 0), placed, along.data);
}

} // namespace

std::optional<Combination> combinationOf(Emitter &e, llvm::StringRef reduction,
                                         Val updates) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (reduction == "none" || reduction == "add")
    return Combination{ReduceKind::sum, BinaryKind::add, 0};
  if (reduction == "mul")
    return Combination{ReduceKind::prod, BinaryKind::mul, 1};
  if (reduction == "max" && updates.isFloat())
    return Combination{ReduceKind::max, BinaryKind::maximum, -inf};
  if (reduction == "min" && updates.isFloat())
    return Combination{ReduceKind::min, BinaryKind::minimum, inf};
  e.fail(
      "reduction '{0}' of {1} is not supported; accepted: none, add, mul, and "
      "for floats max and min",
      reduction, updates);
  return std::nullopt;
}

Val gatherAlong(Emitter &e, Val data, Val indices, int64_t axis,
                Negative negative) {
  auto along = alongAxis(e, data, indices, axis, negative);
  if (!along)
    return {};
  Val wide = along->spread(e, along->data, /*positions=*/true);
  Val picked = e.select(along->hit, wide, 0);
  Val result = e.reduce(ReduceKind::sum, picked, {wide.rank() - 1});
  return e.swapWithLast(result, along->axis);
}

Val scatterAlong(Emitter &e, Val data, Val indices, Val updates, int64_t axis,
                 llvm::StringRef reduction, Negative negative) {
  auto along = alongAxis(e, data, indices, axis, negative);
  if (!along)
    return {};
  if (updates.shape() != indices.shape())
    return e.fail("updates {0} do not match indices {1}", updates, indices);
  Val result = e.swapWithLast(
      scattered(e, *along, e.swapWithLast(updates, axis), reduction), axis);
  // Slices of the data beyond the sizes of the indices are unchanged.
  for (int64_t d = 0; result && d < data.rank(); ++d) {
    if (result.dim(d) == data.dim(d))
      continue;
    Shape offsets(data.rank(), 0), sizes(result.shape());
    offsets[d] = result.dim(d);
    sizes[d] = data.dim(d) - result.dim(d);
    Val rest = e.slice(data, offsets, sizes, Shape(data.rank(), 1));
    result = e.concat({result, rest}, d);
  }
  return result;
}

Val argReduce(Emitter &e, ReduceKind kind, Val x, int64_t axis, bool last) {
  Val best = e.keepDims(e.reduce(kind, x, {axis}), x, {axis});
  Val hit = e.eq(x, best);
  if (x.isFloat())
    hit = e.logicalOr(hit, e.ne(x, x));
  double none = last ? -1 : static_cast<double>(x.dim(axis));
  Val place = e.select(hit, e.iota(x.shape(), axis), none);
  return e.keepDims(
      e.reduce(last ? ReduceKind::max : ReduceKind::min, place, {axis}), x,
      {axis});
}

} // namespace dpc::frontend
