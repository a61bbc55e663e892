//===- Reductions.cpp - Reductions and sorting ----------------------------===//
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// The meaning of a region, found by evaluating it on sample values.
enum class Arg { none, max, min };

/// Evaluates the region on two constant elements: value `a` at position `i`,
/// and value `b` at position `j`.
std::optional<std::pair<double, int64_t>> tryArg(Call &c, const Val &values,
                                                 const Val &positions, double a,
                                                 int64_t i, double b,
                                                 int64_t j) {
  Emitter &e = c.emit;
  auto at = [&](double value, const Val &like) {
    return e.scalar(value, like.element());
  };
  auto results =
      c.runRegion(c.op->getRegion(0),
                  {at(a, values), at(static_cast<double>(i), positions),
                   at(b, values), at(static_cast<double>(j), positions)});
  if (!results || results->size() != 2 || !(*results)[0].constant ||
      !(*results)[1].constant)
    return std::nullopt;
  Scalar value = (*results)[0].constant->at(0);
  return std::pair(values.isFloat() ? value.f : static_cast<double>(value.i),
                   (*results)[1].constant->at(0).i);
}

Arg argOf(Call &c, const Val &values, const Val &positions) {
  using Found = std::optional<std::pair<double, int64_t>>;
  // On ties, the smaller position must win, whether it is first or second.
  Found first = tryArg(c, values, positions, 1, 5, 1, 3),
        second = tryArg(c, values, positions, 1, 3, 1, 5);
  if (first != Found({1, 3}) || second != Found({1, 3}))
    return Arg::none;
  Found ascending = tryArg(c, values, positions, 1, 3, 2, 5),
        descending = tryArg(c, values, positions, 2, 3, 1, 5);
  if (ascending == Found({2, 5}) && descending == Found({2, 3}))
    return Arg::max;
  if (ascending == Found({1, 3}) && descending == Found({1, 5}))
    return Arg::min;
  return Arg::none;
}

/// Whether the region prefers NaN to every number, as in JAX.
bool nanWins(Call &c, const Val &values, const Val &positions) {
  if (!values.isFloat())
    return false;
  double nan = std::numeric_limits<double>::quiet_NaN();
  auto left = tryArg(c, values, positions, nan, 5, 1, 3),
       right = tryArg(c, values, positions, 1, 3, nan, 5);
  return left && right && left->second == 5 && right->second == 5;
}

Val reduceArg(Call &c, const Shape &dims) {
  Emitter &e = c.emit;
  Val values = c.in(0), positions = c.in(1);
  if (e.failed())
    return {};
  Arg arg = Arg::none;
  if (dims.size() == 1 && values.shape() == positions.shape() &&
      !positions.isFloat() && !values.element().isInteger(1))
    arg = argOf(c, values, positions);
  if (e.failed())
    return {};
  if (arg == Arg::none)
    return c.fail("reduces two values in a way other than argmax or argmin, "
                  "which is not supported");
  ReduceKind kind = arg == Arg::max ? ReduceKind::max : ReduceKind::min;
  Val best = e.reduce(kind, values, dims);
  Val hit = e.eq(values, e.keepDims(best, values, dims));
  if (nanWins(c, values, positions))
    hit = e.logicalOr(hit, e.ne(values, values));
  // Of several best values, take the smallest position.
  Val wide = e.convert(positions, e.i64());
  Val none = e.scalar(static_cast<double>(INT32_MAX), wide.element());
  Val position = e.reduce(ReduceKind::min, e.select(hit, wide, none), dims);
  c.out(0, best);
  c.out(1, e.convert(position, positions.element()));
  return {};
}

Shape reducedDims(Call &c, const Val &x) {
  Shape dims = c.ints("dimensions");
  llvm::sort(dims);
  for (auto [i, d] : llvm::enumerate(dims))
    if (d < 0 || (x && d >= x.rank()) || (i > 0 && dims[i - 1] == d))
      c.fail("dimensions {0} do not fit the operand", dims);
  return dims;
}

Val reduce(Call &c) {
  unsigned count = c.operands() / 2;
  if (count == 0 || c.op->getNumRegions() != 1)
    return c.fail("needs operands, their initial values and a region");
  Shape dims = reducedDims(c, c.in(0));
  if (c.emit.failed())
    return {};
  if (count == 2)
    return reduceArg(c, dims);
  auto kind = combinerOf(c.op->getRegion(0));
  if (count != 1 || !kind || *kind == Combiner::second)
    return c.fail("combines elements by an unsupported region; accepted: {0}, "
                  "and an argmax or argmin",
                  combinersText());
  Val x = c.in(0), init = c.in(1);
  Val result = reducedBy(c.emit, *kind, x, dims);
  if (result && init && !isNeutral(*kind, init))
    result = combined(c.emit, *kind, result, init);
  return result;
}

/// Whether the region sorts element `a` of operand `key` before element `b`, if
/// all other operands are equal. Returns nullopt if this cannot be evaluated.
std::optional<bool> isBefore(Call &c, double a, double b, unsigned key = 0) {
  llvm::SmallVector<Val> operands;
  for (unsigned i = 0; i < c.operands(); ++i) {
    Type element = c.in(i).element();
    operands.push_back(c.emit.scalar(i == key ? a : 0, element));
    operands.push_back(c.emit.scalar(i == key ? b : 0, element));
  }
  auto results = c.runRegion(c.op->getRegion(0), operands);
  if (!results || results->size() != 1 || !results->front().constant)
    return std::nullopt;
  return results->front().constant->at(0).i != 0;
}

/// Picks the elements of each row of `x` [.., n] at `positions` [.., n].
Val alongRows(Emitter &e, Val x, Val positions) {
  Shape shape(positions.shape());
  shape.push_back(x.shape().back());
  Shape kept = iotaDims(x.rank());
  Shape spread = kept;
  ++spread.back();
  Val hit = e.eq(e.iota(shape, x.rank()), e.broadcast(positions, shape, kept));
  Val wide = e.broadcast(x, shape, spread);
  return e.reduce(ReduceKind::sum, e.select(hit, wide, 0), {x.rank()});
}

/// Whether the region compares other operands if the first operand has a tie.
bool hasMoreKeys(Call &c) {
  for (unsigned i = 1; i < c.operands(); ++i)
    for (auto [a, b] : {std::pair(0, 1), std::pair(1, 0)})
      if (isBefore(c, a, b, i).value_or(true))
        return true;
  return false;
}

/// Sorts by the first operand and permutes the others in the same way.
Val sort(Call &c, Val key) {
  Emitter &e = c.emit;
  if (e.failed())
    return {};
  int64_t dim = c.integer("dimension", -1);
  dim = dim < 0 ? dim + key.rank() : dim;
  if (dim < 0 || dim >= key.rank() || c.op->getNumRegions() != 1)
    return c.fail("the sort dimension does not exist in {0}", key);
  auto ascends = isBefore(c, 1, 2), descends = isBefore(c, 2, 1),
       same = isBefore(c, 1, 1);
  if (e.failed())
    return {};
  if (!ascends || !descends || !same || *ascends == *descends || *same ||
      !key.isFloat() || hasMoreKeys(c))
    return c.fail("sorts by an unsupported region; accepted: comparisons of "
                  "the first operand alone, of floats");
  auto [values, positions] =
      e.topk(e.swapWithLast(key, dim), key.dim(dim), *descends);
  c.out(0, e.swapWithLast(values, dim));
  for (unsigned i = 1; i < c.operands() && !e.failed(); ++i) {
    Val x = c.in(i);
    if (!x || x.shape() != key.shape())
      return c.fail("sorts operands of different shapes");
    Val along = e.swapDims(x, dim, key.rank() - 1);
    c.out(i, e.swapDims(alongRows(e, along, positions), dim, key.rank() - 1));
  }
  return {};
}

Val topK(Call &c) {
  auto [values, positions] =
      c.emit.topk(c.in(0), c.integer("k", 0), /*largest=*/true);
  RankedTensorType type = c.resultType(1);
  if (!type || !values)
    return {};
  c.out(0, values);
  c.out(1, c.emit.convert(positions, type.getElementType()));
  return {};
}

} // namespace

void addReductions(OperatorTable &table) {
  table["stablehlo.reduce"] = reduce;
  table["stablehlo.sort"] = sort;
  table["chlo.top_k"] = topK;
}

} // namespace dpc::frontend::hlo
