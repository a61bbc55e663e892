//===- Indexing.cpp - Gather and scatter by runtime indices ---------------===//
#include "frontends/emit/Indexing.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend {

/// Whether `x` is a weight argument.
static bool isWeight(Val x) {
  auto argument = dyn_cast_if_present<BlockArgument>(x.value);
  if (!argument)
    return false;
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : StringAttr();
  return role == role::kParameter || role == role::kBuffer;
}

Val wrapped(Emitter &e, Val indices, int64_t size) {
  return e.select(
      e.compare(CompareKind::lt, indices, e.scalar(0, indices.element())),
      e.binary(BinaryKind::add, indices, static_cast<double>(size)), indices);
}

Val oneHotMask(Emitter &e, Val indices, int64_t depth) {
  if (!indices)
    return {};
  Shape shape(indices.shape());
  shape.push_back(1);
  Val wanted = e.reshape(e.convert(indices, e.builder.getI64Type()), shape);
  shape.back() = depth;
  return e.compare(CompareKind::eq, e.iota(shape, indices.rank()), wanted);
}

/// Broadcasts `x` to [b.., k, rows, columns], where `places` selects rows, and
/// sums the selected elements over `dim`. `dims` maps the dimensions of `x` to
/// those of the result.
static Val sumWhereHit(Emitter &e, Val x, llvm::ArrayRef<int64_t> dims,
                       Val places, int64_t rows, int64_t dim) {
  Val hit = oneHotMask(e, places, rows);
  if (!x || !hit)
    return {};
  // dpc has no sums of booleans.
  Type element = x.element();
  if (element.isInteger(1))
    x = e.convert(x, e.builder.getF32Type());
  Shape shape(hit.shape());
  shape.push_back(x.shape().back());
  Val chosen = e.select(e.broadcast(hit, shape, iotaDims(hit.rank())),
                        e.broadcast(x, shape, dims), e.scalar(0, x.element()));
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

Val gatherRows(Emitter &e, Val x, Val indices, int64_t axis) {
  // Token ids are never negative, and a plain lookup is recognized as an
  // embedding.
  if (indices.constant || !isWeight(x))
    indices = wrapped(e, indices, x.dim(axis));
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
  // The dimensions are [indices.., rest..]; move those of the indices after the
  // first `axis` dimensions of the rest.
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

//===----------------------------------------------------------------------===//
// Gather and scatter along one dimension
//===----------------------------------------------------------------------===//

namespace {

Val swappedToLast(Emitter &e, Val x, int64_t axis) {
  return x ? e.swapDims(x, axis, x.rank() - 1) : Val();
}

/// Data and indices of the same rank.
struct AlongAxis {
  int64_t axis;
  Val data;    ///< sliced to the indices' sizes except along `axis`; axis last
  Val indices; ///< i64, not negative; axis last
  Val hit;     ///< [.., indices, positions]: the index is the position

  /// Broadcasts `x` [.., indices] or, if `positions`, [.., positions] to the
  /// shape of `hit`.
  Val spread(Emitter &e, Val x, bool positions) const {
    Shape dims = iotaDims(hit.rank() - 1);
    if (positions)
      ++dims.back();
    return e.broadcast(x, hit.shape(), dims);
  }
};

std::optional<AlongAxis> alongAxis(Emitter &e, Val data, Val indices,
                                   int64_t axis) {
  if (indices.isFloat() || indices.rank() != data.rank()) {
    e.fail("indices must be integers of rank " + llvm::Twine(data.rank()) +
           ", not " + describe(indices.type()));
    return std::nullopt;
  }
  AlongAxis result;
  result.axis = axis;
  Shape box(indices.shape());
  box[result.axis] = data.dim(result.axis);
  for (int64_t d = 0; d < data.rank(); ++d)
    if (box[d] > data.dim(d)) {
      e.fail("indices " + describe(indices.type()) + " reach beyond " +
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

/// `along.data` with the updates written; null for an unknown reduction.
Val scattered(Emitter &e, const AlongAxis &along, Val updates,
              llvm::StringRef reduction) {
  Val wide = along.spread(e, updates, /*positions=*/false);
  int64_t indexDim = along.hit.rank() - 2;
  auto combined = [&](ReduceKind kind, double neutral) {
    Val chosen =
        e.select(along.hit, wide, e.scalar(neutral, updates.element()));
    return e.reduce(kind, chosen, {indexDim});
  };
  if (reduction == "none") {
    // The indices of one row are distinct, so the sum has one term.
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
  return e.fail("reduction '" + reduction + "' of " + describe(updates.type()) +
                " is not supported: none, add, mul, and max, min of floats");
}

} // namespace

Val gatherAlong(Emitter &e, Val data, Val indices, int64_t axis) {
  auto along = alongAxis(e, data, indices, axis);
  if (!along)
    return {};
  Val wide = along->spread(e, along->data, /*positions=*/true);
  Val picked = e.select(along->hit, wide, e.scalar(0, wide.element()));
  Val result = e.reduce(ReduceKind::sum, picked, {wide.rank() - 1});
  return swappedToLast(e, result, along->axis);
}

Val scatterAlong(Emitter &e, Val data, Val indices, Val updates, int64_t axis,
                 llvm::StringRef reduction) {
  auto along = alongAxis(e, data, indices, axis);
  if (!along)
    return {};
  if (updates.shape() != indices.shape())
    return e.fail("updates " + describe(updates.type()) +
                  " do not match indices " + describe(indices.type()));
  Val result = swappedToLast(
      e, scattered(e, *along, swappedToLast(e, updates, axis), reduction),
      axis);
  // Elements outside the box of the indices stay unchanged.
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
  Val hit = e.compare(CompareKind::eq, x, best);
  if (x.isFloat())
    hit =
        e.binary(BinaryKind::logical_or, hit, e.compare(CompareKind::ne, x, x));
  Type i64 = e.builder.getI64Type();
  double none = last ? -1 : static_cast<double>(x.dim(axis));
  Val place = e.select(hit, e.iota(x.shape(), axis), e.scalar(none, i64));
  return e.keepDims(
      e.reduce(last ? ReduceKind::max : ReduceKind::min, place, {axis}), x,
      {axis});
}

} // namespace dpc::frontend
