//===- Indexing.cpp - Gather, scatter and related operators ---------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Gathers at known indices; evenly spaced indices become one slice.
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

//===----------------------------------------------------------------------===//
// GatherND, ScatterND and related operators
//
// Runtime indices are compared with every position, as in emit/Indexing.cpp, or
// look up rows of a table that consists of slices of the data.
//===----------------------------------------------------------------------===//

/// Converts indices [.., k], with one column per dimension in `sizes`, to
/// row-major row numbers [..]. Negative indices count from the end.
Val rowNumbers(Emitter &e, Val indices, llvm::ArrayRef<int64_t> sizes) {
  int64_t last = indices.rank() - 1;
  Val numbers = e.convert(indices, e.i64()), sum;
  Shape shape(indices.shape().drop_back());
  for (auto [n, size] : llvm::enumerate(sizes)) {
    auto column = static_cast<int64_t>(n);
    Val one = e.reshape(e.sliceDim(numbers, last, column, 1), shape);
    one = wrapped(e, one, size);
    sum = sum ? e.add(e.mul(sum, size), one) : one;
  }
  return sum;
}

Val gatherND(NodeContext &c, Val x, Val indices) {
  Emitter &e = c.emit;
  int64_t batch = c.intAttr("batch_dims", 0);
  int64_t k = indices.rank() ? indices.shape().back() : 0;
  if (indices.isFloat() || k < 1 || batch < 0 || batch + k > x.rank() ||
      batch >= indices.rank())
    return c.fail("indices {0} do not fit {1}", indices, x);
  int64_t batches = numElements(x.shape().take_front(batch));
  llvm::ArrayRef<int64_t> sizes = x.shape().slice(batch, k);
  llvm::ArrayRef<int64_t> rest = x.shape().drop_front(batch + k);
  Val rows = rowNumbers(e, indices, sizes);
  if (!rows)
    return {};
  Shape shape(rows.shape());
  int64_t perBatch = numElements(shape) / batches;
  rows = e.reshape(rows, {batches, perBatch});
  if (batches > 1)
    rows =
        e.add(rows, e.mul(e.iota({batches, perBatch}, 0), numElements(sizes)));
  Val table = e.reshape(x, {batches * numElements(sizes), numElements(rest)});
  shape.append(rest.begin(), rest.end());
  return e.reshape(e.embedding(table, rows), shape);
}

/// Writes `updates` [count, columns] to rows `at` of `data` [rows, columns].
Val putRows(NodeContext &c, Val data, Val at, Val updates) {
  Emitter &e = c.emit;
  llvm::StringRef reduction = c.stringAttr("reduction", "none");
  auto how = combinationOf(e, reduction, updates);
  if (!how)
    return {};
  int64_t count = at.dim(0), rows = data.dim(0), columns = data.dim(1);
  Val hit = e.eq(e.reshape(at, {count, 1}), e.iota({count, rows}, 1));
  Val wide = e.broadcast(updates, {count, rows, columns}, {0, 2});
  Val chosen = e.select(e.reshape(hit, {count, rows, 1}), wide, how->neutral);
  Val placed = e.reduce(how->reduce, chosen, {0});
  if (reduction != "none")
    return e.binary(how->join, data, placed);
  // Row indices are unique, so each sum has at most one nonzero term.
  Val times = e.reduce(ReduceKind::sum, e.convert(hit, e.i64()), {0});
  return e.select(e.reshape(e.gt(times, 0), {rows, 1}), placed, data);
}

Val scatterND(NodeContext &c, Val data, Val indices, Val updates) {
  Emitter &e = c.emit;
  int64_t k = indices.rank() ? indices.shape().back() : 0;
  Shape expected(indices.shape().drop_back(indices.rank() ? 1 : 0));
  if (k >= 1 && k <= data.rank())
    expected.append(data.shape().begin() + k, data.shape().end());
  if (indices.isFloat() || k < 1 || k > data.rank() ||
      updates.shape() != llvm::ArrayRef(expected))
    return c.fail("indices {0} and updates {1} do not fit {2}", indices,
                  updates, data);
  llvm::ArrayRef<int64_t> sizes = data.shape().take_front(k);
  int64_t rows = numElements(sizes);
  int64_t columns = numElements(data.shape()) / rows;
  int64_t count = numElements(indices.shape()) / k;
  Val at = e.reshape(rowNumbers(e, indices, sizes), {count});
  if (!at)
    return {};
  return e.reshape(putRows(c, e.reshape(data, {rows, columns}), at,
                           e.reshape(updates, {count, columns})),
                   data.shape());
}

/// Takes positions `at` [B, n] along dimension `dim` of x [B, ..]; an invalid
/// position yields zeros. Compares each element of `at` with every position.
Val takeAt(Emitter &e, Val x, int64_t dim, Val at) {
  if (!x || !at)
    return {};
  // [B, n, positions, rest]
  Val front = e.transpose(
      x, joinShapes({{0, dim}, iotaDims(dim, 1), iotaDims(x.rank(), dim + 1)}));
  int64_t batch = x.dim(0), count = at.dim(1), size = x.dim(dim);
  int64_t rest = numElements(x.shape()) / (batch * size);
  Val hit =
      e.eq(e.reshape(at, {batch, count, 1}), e.iota({batch, count, size}, 2));
  Val wide = e.broadcast(e.reshape(front, {batch, size, rest}),
                         {batch, count, size, rest}, {0, 2, 3});
  Val chosen = e.select(e.reshape(hit, {batch, count, size, 1}), wide, 0);
  Val sum = e.reduce(ReduceKind::sum, chosen, {2});
  Shape shape(front.shape());
  shape[1] = count;
  return e.transpose(
      e.reshape(sum, shape),
      joinShapes(
          {{0}, iotaDims(dim + 1, 2), {1}, iotaDims(x.rank(), dim + 1)}));
}

/// Returns positions 0 to n - 1 minus `from` [B], as [B, n].
Val positionsLess(Emitter &e, Val from, int64_t n) {
  int64_t batch = from.dim(0);
  Val start = e.reshape(e.convert(from, e.i64()), {batch, 1});
  return e.sub(e.iota({batch, n}, 1), start);
}

/// Writes `update` to a cache; each sample has its own start position.
Val tensorScatter(NodeContext &c, Val past, Val update) {
  Emitter &e = c.emit;
  int64_t axis = c.axis(c.intAttr("axis", -2), past.rank());
  llvm::StringRef mode = c.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.fail("mode '{0}' is not known; accepted: linear, circular", mode);
  if (axis == 0 || update.rank() != past.rank())
    c.fail("update {0} does not fit cache {1}", update, past);
  if (e.failed())
    return {};
  Val from = c.has(2) ? c.in(2) : e.splat(0, e.i64(), {past.dim(0)});
  int64_t size = past.dim(axis), count = update.dim(axis);
  Val at = positionsLess(e, from, size);
  if (mode == "circular")
    at = wrapped(e, at, size);
  Val written = takeAt(e, update, axis, at);
  Val inside = e.inRange(at, count);
  if (!written)
    return {};
  Shape shape = unitShape(past.rank(), axis, size);
  shape[0] = past.dim(0);
  return e.select(e.reshape(inside, shape), written, past);
}

/// Reverses the first lengths[b] positions of sample b along the time axis.
Val reverseSequence(NodeContext &c, Val x, Val lengths) {
  Emitter &e = c.emit;
  int64_t batch = c.axis(c.intAttr("batch_axis", 1), x.rank());
  int64_t time = c.axis(c.intAttr("time_axis", 0), x.rank());
  if (e.failed() || batch == time)
    return c.fail("batch_axis and time_axis must be different dimensions");
  // takeAt expects the batch in dimension 0.
  Val front = e.swapDims(x, 0, batch);
  int64_t dim = time == 0 ? batch : time;
  Val last = e.sub(e.convert(lengths, e.i64()), 1);
  Val back = e.neg(positionsLess(e, last, x.dim(time)));
  // Positions from lengths[b] on are unchanged.
  Val at =
      e.select(e.ge(back, 0), back, e.iota({x.dim(batch), x.dim(time)}, 1));
  return e.swapDims(takeAt(e, front, dim, at), 0, batch);
}

template <ReduceKind kind> Val argBest(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (e.failed())
    return {};
  Val place =
      argReduce(e, kind, x, axis, c.intAttr("select_last_index", 0) != 0);
  return c.intAttr("keepdims", 1) ? place : e.dropDim(place, axis);
}

/// Returns 1 at the first maximum of each row and 0 elsewhere.
Val hardmax(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  bool flat = c.opset() < 13;
  int64_t axis = c.axis(c.intAttr("axis", flat ? 1 : -1), x.rank());
  if (e.failed())
    return {};
  Val rows = flat ? e.reshape(x, mergedFrom(x.shape(), axis)) : x;
  Val place = argReduce(e, ReduceKind::max, rows, axis, /*last=*/false);
  Val hot = e.eq(e.iota(rows.shape(), axis), place);
  return e.reshape(e.convert(hot, x.element()), x.shape());
}

Val cumProd(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto given = static_cast<int64_t>(c.numberIn(1));
  if (e.failed())
    return {};
  int64_t axis = c.axis(given, x.rank());
  if (e.failed())
    return {};
  Val last = e.swapWithLast(x, axis);
  int64_t size = last.shape().back();
  Shape shape = joinShapes({last.shape(), {size}});
  Shape dims = joinShapes({iotaDims(x.rank() - 1), {x.rank()}});
  bool reverse = c.intAttr("reverse", 0) != 0;
  bool exclusive = c.intAttr("exclusive", 0) != 0;
  CompareKind takes = reverse ? (exclusive ? CompareKind::gt : CompareKind::ge)
                              : (exclusive ? CompareKind::lt : CompareKind::le);
  // [i, j]: whether product i includes element j
  Val taken =
      e.compare(takes, e.iota({size, size}, 1), e.iota({size, size}, 0));
  Val chosen = e.select(taken, e.broadcast(last, shape, dims), 1);
  return e.swapWithLast(e.reduce(ReduceKind::prod, chosen, {x.rank()}), axis);
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
  table["GatherND"] = gatherND;
  table["ScatterND"] = scatterND;
  table["TensorScatter"] = tensorScatter;
  table["ReverseSequence"] = reverseSequence;
  table["ArgMax"] = argBest<ReduceKind::max>;
  table["ArgMin"] = argBest<ReduceKind::min>;
  table["Hardmax"] = hardmax;
  table["CumProd"] = cumProd;
}

} // namespace dpc::frontend
