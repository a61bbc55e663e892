//===- Scatter.cpp - GatherND, ScatterND and related operators ------------===//
//
// Runtime positions are found by comparing, as in Indexing.cpp, or looked up in
// a table whose rows are the slices that indices select.
//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/onnx/NodeContext.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Converts index tuples to row-major row numbers: indices [.., k] into
/// dimensions `sizes` become [..]. Negative indices count from the end.
Val rowNumbers(Emitter &e, Val indices, llvm::ArrayRef<int64_t> sizes) {
  if (!indices)
    return {};
  int64_t last = indices.rank() - 1;
  Val numbers = e.convert(indices, e.builder.getI64Type()), sum;
  Shape shape(indices.shape().drop_back());
  for (auto [n, size] : llvm::enumerate(sizes)) {
    Val one =
        e.reshape(e.sliceDim(numbers, last, static_cast<int64_t>(n), 1), shape);
    if (!one)
      return {};
    Val negative = e.compare(CompareKind::lt, one, e.scalar(0, one.element()));
    one = e.select(negative,
                   e.binary(BinaryKind::add, one, static_cast<double>(size)),
                   one);
    sum = sum ? e.binary(
                    BinaryKind::add,
                    e.binary(BinaryKind::mul, sum, static_cast<double>(size)),
                    one)
              : one;
  }
  return sum;
}

void gatherND(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), indices = c.in(1);
  int64_t batch = c.intAttr("batch_dims", 0);
  if (!x || !indices)
    return;
  int64_t k = indices.rank() ? indices.shape().back() : 0;
  if (indices.isFloat() || k < 1 || batch < 0 || batch + k > x.rank() ||
      batch >= indices.rank()) {
    c.fail("indices " + describe(indices.type()) + " do not fit " +
           describe(x.type()));
    return;
  }
  int64_t batches = numElements(x.shape().take_front(batch));
  llvm::ArrayRef<int64_t> sizes = x.shape().slice(batch, k);
  llvm::ArrayRef<int64_t> rest = x.shape().drop_front(batch + k);
  Val rows = rowNumbers(e, indices, sizes);
  if (!rows)
    return;
  Shape shape(rows.shape());
  int64_t perBatch = numElements(shape) / batches;
  rows = e.reshape(rows, {batches, perBatch});
  if (batches > 1)
    rows = e.binary(BinaryKind::add, rows,
                    e.binary(BinaryKind::mul, e.iota({batches, perBatch}, 0),
                             static_cast<double>(numElements(sizes))));
  Val table = e.reshape(x, {batches * numElements(sizes), numElements(rest)});
  shape.append(rest.begin(), rest.end());
  c.out(e.reshape(e.embedding(table, rows), shape));
}

/// How updates combine with existing elements.
struct Combination {
  ReduceKind reduce;
  BinaryKind join;
  double neutral;
};

std::optional<Combination> combinationOf(llvm::StringRef name) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (name == "none" || name == "add")
    return Combination{ReduceKind::sum, BinaryKind::add, 0};
  if (name == "mul")
    return Combination{ReduceKind::prod, BinaryKind::mul, 1};
  if (name == "max")
    return Combination{ReduceKind::max, BinaryKind::maximum, -inf};
  if (name == "min")
    return Combination{ReduceKind::min, BinaryKind::minimum, inf};
  return std::nullopt;
}

/// Writes updates [count, columns] to rows `at` of data [rows, columns].
Val putRows(NodeContext &c, Val data, Val at, Val updates) {
  Emitter &e = c.emit;
  llvm::StringRef reduction = c.stringAttr("reduction", "none");
  auto how = combinationOf(reduction);
  if (!how || (!updates.isFloat() && std::isinf(how->neutral)))
    return c.fail("reduction '" + reduction + "' of " +
                  describe(updates.type()) +
                  " is not supported: none, add, mul, and max, min of floats");
  int64_t count = at.dim(0), rows = data.dim(0), columns = data.dim(1);
  Val hit = e.compare(CompareKind::eq, e.reshape(at, {count, 1}),
                      e.iota({count, rows}, 1));
  Val wide = e.broadcast(updates, {count, rows, columns}, {0, 2});
  Val chosen = e.select(e.reshape(hit, {count, rows, 1}), wide,
                        e.scalar(how->neutral, updates.element()));
  Val placed = e.reduce(how->reduce, chosen, {0});
  if (reduction != "none")
    return e.binary(how->join, data, placed);
  // Row indices are unique, so the sum has one term.
  Type i64 = e.builder.getI64Type();
  Val times = e.reduce(ReduceKind::sum, e.convert(hit, i64), {0});
  if (!times)
    return {};
  Val named = e.compare(CompareKind::gt, times, e.scalar(0, i64));
  return e.select(e.reshape(named, {rows, 1}), placed, data);
}

void scatterND(NodeContext &c) {
  Emitter &e = c.emit;
  Val data = c.in(0), indices = c.in(1), updates = c.in(2);
  if (!data || !indices || !updates)
    return;
  int64_t k = indices.rank() ? indices.shape().back() : 0;
  Shape expected(indices.shape().drop_back(indices.rank() ? 1 : 0));
  if (k >= 1 && k <= data.rank())
    expected.append(data.shape().begin() + k, data.shape().end());
  if (indices.isFloat() || k < 1 || k > data.rank() ||
      updates.shape() != llvm::ArrayRef(expected)) {
    c.fail("indices " + describe(indices.type()) + " and updates " +
           describe(updates.type()) + " do not fit " + describe(data.type()));
    return;
  }
  llvm::ArrayRef<int64_t> sizes = data.shape().take_front(k);
  int64_t rows = numElements(sizes);
  int64_t columns = numElements(data.shape()) / rows;
  int64_t count = numElements(indices.shape()) / k;
  Val at = e.reshape(rowNumbers(e, indices, sizes), {count});
  if (!at)
    return;
  c.out(e.reshape(putRows(c, e.reshape(data, {rows, columns}), at,
                          e.reshape(updates, {count, columns})),
                  data.shape()));
}

/// The positions `at` [B, n] along dimension `dim` of x [B, ..], found by
/// comparing each with every position. An invalid position yields zeros.
Val takeAt(Emitter &e, Val x, int64_t dim, Val at) {
  if (!x || !at)
    return {};
  // [B, n, positions, rest]
  Val front = e.transpose(x, [&] {
    Shape perm = {0, dim};
    for (int64_t d = 1; d < x.rank(); ++d)
      if (d != dim)
        perm.push_back(d);
    return perm;
  }());
  int64_t batch = x.dim(0), count = at.dim(1), size = x.dim(dim);
  int64_t rest = numElements(x.shape()) / (batch * size);
  Val hit = e.compare(CompareKind::eq, e.reshape(at, {batch, count, 1}),
                      e.iota({batch, count, size}, 2));
  Val wide = e.broadcast(e.reshape(front, {batch, size, rest}),
                         {batch, count, size, rest}, {0, 2, 3});
  Val chosen = e.select(e.reshape(hit, {batch, count, size, 1}), wide,
                        e.scalar(0, x.element()));
  Val sum = e.reduce(ReduceKind::sum, chosen, {2});
  Shape shape(front.shape()), back = {0};
  shape[1] = count;
  for (int64_t d = 1; d < x.rank(); ++d)
    back.push_back(d == dim ? 1 : d + (d < dim ? 1 : 0));
  return e.transpose(e.reshape(sum, shape), back);
}

/// Positions 0 .. n - 1 of every sample minus `from` [B].
Val positionsLess(Emitter &e, Val from, int64_t n) {
  int64_t batch = from.dim(0);
  Val start = e.reshape(e.convert(from, e.builder.getI64Type()), {batch, 1});
  return e.binary(BinaryKind::sub, e.iota({batch, n}, 1), start);
}

/// Writes `update` into a cache at a separate position for each sample.
void tensorScatter(NodeContext &c) {
  Emitter &e = c.emit;
  Val past = c.in(0), update = c.in(1);
  if (!past || !update)
    return;
  int64_t axis = c.axis(c.intAttr("axis", -2), past.rank());
  llvm::StringRef mode = c.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.fail("mode '" + mode + "' is not known; accepted: linear, circular");
  if (axis == 0 || update.rank() != past.rank())
    c.fail("update " + describe(update.type()) + " does not fit cache " +
           describe(past.type()));
  if (e.failed())
    return;
  Type i64 = e.builder.getI64Type();
  Val from = c.has(2) ? c.in(2) : e.splat(0, i64, {past.dim(0)});
  int64_t size = past.dim(axis), count = update.dim(axis);
  Val at = positionsLess(e, from, size);
  if (!at)
    return;
  Val zero = e.scalar(0, i64);
  if (mode == "circular")
    at = e.select(e.compare(CompareKind::lt, at, zero),
                  e.binary(BinaryKind::add, at, static_cast<double>(size)), at);
  Val written = takeAt(e, update, axis, at);
  Val inside =
      e.binary(BinaryKind::logical_and, e.compare(CompareKind::ge, at, zero),
               e.compare(CompareKind::lt, at,
                         e.scalar(static_cast<double>(count), i64)));
  if (!inside || !written)
    return;
  Shape shape(past.rank(), 1);
  shape[0] = past.dim(0);
  shape[axis] = size;
  c.out(e.select(e.reshape(inside, shape), written, past));
}

/// Reverses the first `lengths` positions of each sample.
void reverseSequence(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), lengths = c.in(1);
  if (!x || !lengths)
    return;
  int64_t batch = c.axis(c.intAttr("batch_axis", 1), x.rank());
  int64_t time = c.axis(c.intAttr("time_axis", 0), x.rank());
  if (e.failed() || batch == time) {
    c.fail("batch_axis and time_axis must be two dimensions");
    return;
  }
  // takeAt expects the batch first.
  Val front = e.swapDims(x, 0, batch);
  int64_t dim = time == 0 ? batch : time;
  Type i64 = e.builder.getI64Type();
  Val last = e.binary(BinaryKind::sub, e.convert(lengths, i64), 1.0);
  Val back = e.unary(UnaryKind::neg, positionsLess(e, last, x.dim(time)));
  if (!back)
    return;
  // Positions after the end stay unchanged.
  Val at = e.select(e.compare(CompareKind::ge, back, e.scalar(0, i64)), back,
                    e.iota({x.dim(batch), x.dim(time)}, 1));
  c.out(e.swapDims(takeAt(e, front, dim, at), 0, batch));
}

//===----------------------------------------------------------------------===//
// Arg max
//===----------------------------------------------------------------------===//

template <ReduceKind kind> void argBest(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (e.failed())
    return;
  Val place =
      argReduce(e, kind, x, axis, c.intAttr("select_last_index", 0) != 0);
  if (place && !c.intAttr("keepdims", 1)) {
    Shape shape(x.shape());
    shape.erase(shape.begin() + axis);
    place = e.reshape(place, shape);
  }
  c.out(place);
}

/// 1 at the first greatest element of each row, and 0 elsewhere.
void hardmax(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  bool flat = c.opset() < 13;
  int64_t axis = c.axis(c.intAttr("axis", flat ? 1 : -1), x.rank());
  if (e.failed())
    return;
  Val rows = x;
  if (flat) {
    Shape shape(x.shape().take_front(axis));
    shape.push_back(numElements(x.shape().drop_front(axis)));
    rows = e.reshape(x, shape);
  }
  Val place = argReduce(e, ReduceKind::max, rows, axis, /*last=*/false);
  Val hot = e.compare(CompareKind::eq, e.iota(rows.shape(), axis), place);
  c.out(e.reshape(e.convert(hot, x.element()), x.shape()));
}

/// Cumulative products: each position is the product of all positions up to it.
void cumProd(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto given = static_cast<int64_t>(c.numberIn(1));
  if (!x || e.failed())
    return;
  int64_t axis = c.axis(given, x.rank());
  if (e.failed())
    return;
  Val last = e.swapDims(x, axis, x.rank() - 1);
  Shape shape(last.shape()), dims = iotaDims(x.rank() - 1);
  int64_t size = shape.back();
  shape.push_back(size);
  dims.push_back(x.rank());
  bool reverse = c.intAttr("reverse", 0) != 0;
  bool exclusive = c.intAttr("exclusive", 0) != 0;
  CompareKind takes = reverse ? (exclusive ? CompareKind::gt : CompareKind::ge)
                              : (exclusive ? CompareKind::lt : CompareKind::le);
  // [.., i, j]: whether position i includes j.
  Val taken =
      e.compare(takes, e.iota({size, size}, 1), e.iota({size, size}, 0));
  Val chosen =
      e.select(taken, e.broadcast(last, shape, dims), e.scalar(1, x.element()));
  c.out(e.swapDims(e.reduce(ReduceKind::prod, chosen, {x.rank()}), axis,
                   x.rank() - 1));
}

} // namespace

void addScatterOps(OpTable &table) {
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
