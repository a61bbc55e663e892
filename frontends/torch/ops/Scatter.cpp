//===- Scatter.cpp - Operators that write by indices or masks -------------===//
#include "frontends/emit/Experts.h"
#include "frontends/emit/Indexing.h"
#include "frontends/torch/ops/Shared.h"
#include "ir/TensorUtils.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

Shape Points::resultPerm() const {
  int64_t k = position.rank();
  auto rank = k + static_cast<int64_t>(perm.size() - indexed);
  return joinShapes(
      {iotaDims(k + front, k), iotaDims(k), iotaDims(rank, k + front)});
}

std::optional<Points> pointsOf(Call &c, Val x, llvm::ArrayRef<Val> indices) {
  Emitter &e = c.emit;
  Points points{{}, {}, 0, 0};
  Shape rest;
  bool adjacent = true;
  for (int64_t d = 0; d < x.rank(); ++d) {
    Val one = d < static_cast<int64_t>(indices.size()) ? indices[d] : Val();
    if (!one) {
      rest.push_back(d);
      continue;
    }
    if (one.isFloat() || one.element().isInteger(1)) {
      c.fail("index {0} is not supported; accepted: integers, or one mask with "
             "a value that fits every element",
             one);
      return std::nullopt;
    }
    adjacent &= points.perm.empty() || points.perm.back() == d - 1;
    Val place = wrapped(e, e.convert(one, e.i64()), x.dim(d));
    points.position = points.perm.empty()
                          ? place
                          : e.add(e.mul(points.position, x.dim(d)), place);
    points.perm.push_back(d);
  }
  if (!points.position || e.failed() ||
      static_cast<int64_t>(indices.size()) > x.rank()) {
    c.fail("the indices do not fit {0}", x);
    return std::nullopt;
  }
  points.indexed = points.perm.size();
  points.front = adjacent ? points.perm.front() : 0;
  points.perm.append(rest);
  return points;
}

namespace {

/// Slices `updates` to the shape of the indices, as ATen does.
Val cutTo(Emitter &e, Val updates, Val indices) {
  if (updates.rank() != indices.rank())
    return e.fail("operands differ in rank: {0} and {1}", updates.shape(),
                  indices.shape());
  for (int64_t d = 0; d < updates.rank(); ++d)
    if (indices.dim(d) > updates.dim(d))
      return e.fail("indices {0} extend beyond {1}", indices.shape(),
                    updates.shape());
  return e.slice(updates, Shape(updates.rank(), 0), indices.shape(),
                 Shape(updates.rank(), 1));
}

Val scatter(Call &c, llvm::StringRef source, llvm::StringRef reduction) {
  Emitter &e = c.emit;
  Val x = c.tensor("self"), indices = c.tensor("index");
  Val updates = c.operand(source);
  if (!x || !indices || !updates || x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  updates = e.convert(updates, x.element());
  updates = updates.rank() == 0 ? e.broadcastTo(updates, indices.shape())
                                : cutTo(e, updates, indices);
  return e.failed() ? Val()
                    : scatterAlong(e, x, indices, updates, dim, reduction,
                                   Negative::refuse);
}

Val scatterSource(Call &c) { return scatter(c, "src", "none"); }
Val scatterValue(Call &c) { return scatter(c, "value", "none"); }
Val scatterAdd(Call &c) { return scatter(c, "src", "add"); }

Val withCount(Emitter &e, Val x, Val indices, int64_t dim, Val result) {
  Val ones = e.splat(1, e.i64(), indices.shape());
  Val counts = scatterAlong(e, e.splat(0, e.i64(), x.shape()), indices, ones,
                            dim, "add", Negative::refuse);
  return e.select(e.gt(counts, 0), result, x);
}

/// With include_self=False, elements that get updates are replaced by these.
Val scatterReduce(Call &c, Val x, Val indices, Val updates) {
  Emitter &e = c.emit;
  std::string name = c.text("reduce");
  std::string reduction = name == "sum"    ? "add"
                          : name == "prod" ? "mul"
                          : name == "amax" ? "max"
                          : name == "amin" ? "min"
                                           : "";
  if (reduction.empty() || x.rank() == 0)
    return c.fail("reduce='{0}' is not supported; accepted: sum, prod, amax, "
                  "amin",
                  name);
  int64_t dim = c.dimOf("dim", x.rank());
  updates = e.failed() ? Val() : cutTo(e, updates, indices);
  auto how = updates ? combinationOf(e, reduction, updates) : std::nullopt;
  if (!how)
    return {};
  Val base = c.flag("include_self")
                 ? x
                 : e.splat(how->neutral, x.element(), x.shape());
  Val result =
      scatterAlong(e, base, indices, updates, dim, reduction, Negative::refuse);
  return c.flag("include_self") ? result
                                : withCount(e, x, indices, dim, result);
}

/// Moves dimension `dim` to the front and merges the others.
Val rowsAlong(Emitter &e, Val x, int64_t dim) {
  Shape perm = iotaDims(x.rank());
  perm.erase(perm.begin() + dim);
  perm.insert(perm.begin(), dim);
  int64_t size = x.dim(dim), all = numElements(x.shape());
  return e.reshape(e.transpose(x, perm), {size, size ? all / size : 0});
}

/// The inverse of rowsAlong for a tensor of `shape`.
Val fromRows(Emitter &e, Val rows, llvm::ArrayRef<int64_t> shape, int64_t dim) {
  Shape front(shape);
  front.erase(front.begin() + dim);
  front.insert(front.begin(), shape[dim]);
  auto rank = static_cast<int64_t>(shape.size());
  Shape back = iotaDims(dim + 1, 1);
  back.push_back(0);
  back.append(iotaDims(rank, dim + 1));
  return e.transpose(e.reshape(rows, front), back);
}

/// index_add, index_copy, index_fill: writes slices to positions of `dim`.
Val writeAlong(Call &c, Val x, Val source, bool adds,
               Negative negative = Negative::refuse) {
  Emitter &e = c.emit;
  Val index = c.tensor("index");
  int64_t dim = c.dimOf("dim", x.rank());
  if (!index || !source || e.failed() || index.rank() > 1 || index.isFloat())
    return c.fail("the index must be a list of integers");
  Shape own(x.shape());
  if (x.rank() == 0)
    x = e.reshape(x, {1});
  Shape shape(x.shape());
  shape[dim] = numElements(index.shape());
  source = e.convert(source, x.element());
  if (!source || source.rank() > x.rank() ||
      (source.rank() > 0 && numElements(source.shape()) != numElements(shape)))
    return c.fail("source {0} does not fit {1}", source, x);
  source = source.rank() > 0 ? e.reshape(source, shape)
                             : e.broadcastTo(source, shape);
  Val places = e.reshape(index, {shape[dim]});
  Val rows = writeRows(e, rowsAlong(e, x, dim), rowsAlong(e, source, dim),
                       places, adds, negative);
  return rows ? e.reshape(fromRows(e, rows, x.shape(), dim), own) : Val();
}

Val indexAdd(Call &c, Val x) {
  Val source = c.tensor("source");
  if (double alpha = c.number("alpha"); alpha != 1 && source)
    source = c.emit.mul(source, alpha);
  return writeAlong(c, x, source, /*adds=*/true);
}
Val indexCopy(Call &c, Val x) {
  return writeAlong(c, x, c.tensor("source"), /*adds=*/false);
}
Val indexFill(Call &c, Val x) {
  return writeAlong(c, x, c.operand("value"), /*adds=*/false, Negative::wrap);
}

/// Writes the numbers 0, 1, .. to the positions of a permutation, which gives
/// the inverse permutation. Returns null for other writes.
Val inverse(Call &c, Val x, llvm::ArrayRef<Val> indices, Val values) {
  bool isInverse = indices.size() == 1 && indices[0] &&
                   isPermutation(indices[0]) && x.rank() == 1 &&
                   values.shape() == x.shape() &&
                   indices[0].shape() == x.shape() && !c.flag("accumulate") &&
                   values.constant && !values.isFloat() &&
                   llvm::equal(values.constant->asInts(), iotaDims(x.dim(0)));
  return isInverse ? c.emit.convert(inversePermutation(c.emit, indices[0]),
                                    x.element())
                   : Val();
}

/// x[.., mask] = v, if v fits every element: selects.
Val putMasked(Call &c, Val x, int64_t front, Val mask, Val values) {
  Emitter &e = c.emit;
  int64_t rest = x.rank() - front - mask.rank();
  if (rest < 0 || x.shape().slice(front, mask.rank()) != mask.shape())
    return c.fail("mask {0} does not fit {1}", mask, x);
  // The masked dimensions are one dimension of the values.
  Shape wide(values.shape());
  while (static_cast<int64_t>(wide.size()) < front + 1 + rest)
    wide.insert(wide.begin(), 1);
  if (static_cast<int64_t>(wide.size()) != front + 1 + rest || wide[front] != 1)
    return c.fail("writes one value per element of the mask, so their number "
                  "depends on data; write torch.where(mask, values, x) with "
                  "values for all elements");
  Shape shape =
      joinShapes({llvm::ArrayRef(wide).take_front(front), Shape(mask.rank(), 1),
                  llvm::ArrayRef(wide).drop_front(front + 1)});
  values = e.reshape(values, shape);
  mask = e.reshape(mask, joinShapes({mask.shape(), Shape(rest, 1)}));
  return e.select(mask, c.flag("accumulate") ? e.add(x, values) : values, x);
}

/// x[i] = v, x[:, i, j] += v, ..: writes rows of the merged dimensions.
Val indexPut(Call &c, Val x) {
  Emitter &e = c.emit;
  llvm::SmallVector<Val> indices = c.tensors("indices");
  Val values = e.convert(c.tensor("values"), x.element());
  if (!values || e.failed())
    return {};
  if (Val permutation = inverse(c, x, indices, values))
    return permutation;
  const auto *mask = llvm::find_if(
      indices, [](const Val &v) { return v && v.element().isInteger(1); });
  if (mask != indices.end() &&
      llvm::count_if(indices, [](const Val &v) { return bool(v); }) == 1)
    return putMasked(c, x, mask - indices.begin(), *mask, values);
  auto points = pointsOf(c, x, indices);
  if (!points)
    return {};
  Val front = e.transpose(x, points->perm);
  Shape rest(front.shape().drop_front(points->indexed));
  Shape places(points->position.shape()), order = points->resultPerm();
  Shape unordered = joinShapes({places, rest}), shape(order.size());
  Shape back(order.size()), backX(x.rank());
  for (auto [to, from] : llvm::enumerate(order)) {
    shape[to] = unordered[from];
    back[from] = static_cast<int64_t>(to);
  }
  for (auto [to, from] : llvm::enumerate(points->perm))
    backX[from] = static_cast<int64_t>(to);
  int64_t count = numElements(places), columns = numElements(rest);
  values = e.reshape(e.transpose(e.broadcastTo(values, shape), back),
                     {count, columns});
  int64_t rows = numElements(front.shape().take_front(points->indexed));
  Val written = writeRows(e, e.reshape(front, {rows, columns}), values,
                          e.reshape(points->position, {count}),
                          c.flag("accumulate"), Negative::wrap);
  return e.transpose(e.reshape(written, front.shape()), backX);
}

/// Returns a mask that repeats each element along the last dimension without
/// these repetitions, as [.., 1]; null for other masks.
Val rowMask(Val mask) {
  auto wide =
      mask.value ? mask.value.getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!wide || shapeOf(wide.getX()).empty() ||
      shapeOf(wide.getX()).back() != 1 ||
      wide.getDims().back() + 1 != mask.rank() ||
      shapeOf(wide.getX()).size() != static_cast<size_t>(mask.rank()) ||
      !llvm::equal(shapeOf(wide.getX()).drop_back(), mask.shape().drop_back()))
    return {};
  return Val(wide.getX());
}

/// The n-th true element of the mask gets the n-th element of `source`. Rows
/// are taken whole if the mask is the same along the last dimension.
Val maskedScatter(Call &c, Val x, Val mask, Val source) {
  Emitter &e = c.emit;
  auto shape = e.broadcastShape(x.shape(), mask.shape());
  if (!shape || shape->empty())
    return c.fail("mask {0} does not fit {1}", mask, x);
  x = e.broadcastTo(x, *shape);
  mask = e.broadcastTo(mask, *shape);
  if (!x || !mask)
    return {};
  int64_t columns = 1, all = numElements(*shape);
  int64_t count = numElements(source.shape());
  if (Val rows = rowMask(mask);
      rows && source.rank() > 0 && source.shape().back() == shape->back()) {
    mask = rows;
    columns = shape->back();
  }
  if (all == 0 || count == 0)
    return x;
  Val flat = e.reshape(mask, {all / columns});
  Val place = e.sub(e.cumsum(e.convert(flat, e.i64()), false, false), 1);
  Val table =
      e.reshape(e.convert(source, x.element()), {count / columns, columns});
  Val rows = e.embedding(table, e.maximum(place, 0));
  return e.select(mask, e.reshape(rows, *shape), x);
}

/// The dimension, first position and step that a slice_scatter writes.
Val sliceScatter(Call &c, Val x, Val part) {
  int64_t dim = c.dimOf("dim", x.rank()), step = c.integer("step");
  if (c.emit.failed() || x.rank() == 0 || part.rank() != x.rank() || step < 1)
    return c.fail("source {0} does not fit {1}", part, x);
  int64_t begin = c.has("start") ? c.integer("start") : 0;
  begin = std::clamp<int64_t>(begin < 0 ? begin + x.dim(dim) : begin, 0,
                              x.dim(dim));
  return replaced(c.emit, x, c.emit.convert(part, x.element()), dim, begin,
                  step);
}

Val selectScatter(Call &c, Val x, Val part) {
  int64_t dim = c.dimOf("dim", x.rank()), index = c.integer("index");
  if (c.emit.failed() || x.rank() == 0)
    return {};
  Shape shape(x.shape());
  shape[dim] = 1;
  return replaced(c.emit, x,
                  c.emit.reshape(c.emit.convert(part, x.element()), shape), dim,
                  index < 0 ? index + x.dim(dim) : index, 1);
}

} // namespace

void addScatter(OperatorTable &t) {
  t["scatter.src"] = {"self, dim, index, src", scatterSource};
  t["scatter.value"] = {"self, dim, index, value", scatterValue};
  t["scatter_add.default"] = {"self, dim, index, src", scatterAdd};
  t["scatter_reduce.two"] = {"self, index, src, dim, reduce, include_self=True",
                             scatterReduce};
  t["index_add.default"] = {"self, dim, index, source, alpha=1", indexAdd};
  t["index_copy.default"] = {"self, dim, index, source", indexCopy};
  for (const char *form : {"int_Scalar", "int_Tensor"})
    t[std::string("index_fill.") + form] = {"self, dim, index, value",
                                            indexFill};
  t["index_put.default"] = {"self, indices, values, accumulate=False",
                            indexPut};
  t["masked_scatter.default"] = {"self, mask, source", maskedScatter};
  t["slice_scatter.default"] = {
      "self, src, dim=0, start=None, end=None, step=1", sliceScatter};
  t["select_scatter.default"] = {"self, src, dim, index", selectScatter};
}

} // namespace dpc::frontend::pt2
