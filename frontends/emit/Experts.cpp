//===- Experts.cpp - Products of rows with the matrices of experts --------===//
#include "frontends/emit/Experts.h"

#include "frontends/emit/Indexing.h"
#include "ir/IndexRange.h"

using namespace mlir;

namespace dpc::frontend {

Val countIds(Emitter &e, Val ids, int64_t depth, Type element) {
  if (!ids)
    return {};
  Val list = e.reshape(ids, {numElements(ids.shape())});
  return e.reduce(ReduceKind::sum,
                  e.convert(oneHotMask(e, list, depth), element), {0});
}

static bool isCountType(Type element) {
  return element.isF32() || element.isF64() || element.isInteger(32) ||
         element.isInteger(64);
}

/// Returns `value` before reshapes and conversions that keep counts and ids.
static Value skipExact(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ConvertOp, ReshapeOp>(op) || !isCountType(elementTypeOf(value)) ||
        (!isCountType(elementTypeOf(op->getOperand(0))) &&
         !elementTypeOf(op->getOperand(0)).isInteger(1)))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Returns the sort that gives all elements of a list in ascending order.
static TopKOp sortOf(Value value) {
  auto sort = value.getDefiningOp<TopKOp>();
  return sort && sort.getSmallest() && shapeOf(sort.getX()).size() == 1 &&
                 shapeOf(sort.getX()) == shapeOf(value)
             ? sort
             : TopKOp();
}

/// Returns the ids [rows] that `counts` [groups] counts, or null.
static Value countedIds(Value counts, int64_t groups) {
  auto sum = skipExact(counts).getDefiningOp<ReduceOp>();
  if (!sum || sum.getKind() != ReduceKind::sum ||
      shapeOf(sum.getResult()) != ArrayRef(groups) ||
      !llvm::equal(sum.getDims(), ArrayRef<int64_t>(0)))
    return {};
  // 1 where the number of the group, along dimension 1, is the id of the row.
  auto convert = sum.getX().getDefiningOp<ConvertOp>();
  auto hit = convert ? convert.getX().getDefiningOp<CompareOp>() : CompareOp();
  if (!hit || hit.getKind() != CompareKind::eq ||
      !isCountType(elementTypeOf(sum.getX())))
    return {};
  auto group = hit.getA().getDefiningOp<IotaOp>();
  auto repeat = hit.getB().getDefiningOp<BroadcastOp>();
  if (!group || group.getDim() != 1 || !repeat)
    return {};
  ArrayRef<int64_t> dims = repeat.getDims(), from = shapeOf(repeat.getX());
  bool isColumn = !dims.empty() && dims.front() == 0 &&
                  (from.size() == 1 || (from.size() == 2 && from[1] == 1));
  return isColumn ? skipExact(repeat.getX()) : Value();
}

/// Returns the sorted ids whose running counts are `ends`, or null. Ids below 0
/// are in no group, but come first.
static Value sortedIdsOf(Value ends, int64_t groups) {
  auto sums = skipExact(ends).getDefiningOp<CumSumOp>();
  if (!sums || sums.getExclusive() || sums.getReverse() ||
      shapeOf(sums.getX()) != ArrayRef(groups))
    return {};
  Value ids = countedIds(sums.getX(), groups);
  TopKOp sort = ids ? sortOf(ids) : TopKOp();
  return sort && sort.getValues() == ids && rangeOf(ids).low >= 0 ? ids
                                                                  : Value();
}

/// Returns the group of each row, which is the number of groups that end before
/// the row or at it; `groups` for rows after the last group.
static Val groupOfRows(Emitter &e, Val ends, int64_t rows) {
  int64_t groups = ends.dim(0);
  if (ends.value)
    if (Value ids = sortedIdsOf(ends.value, groups);
        ids && shapeOf(ids) == ArrayRef(rows))
      return ids;
  Val row = e.iota({rows, groups}, 0);
  Val limits = e.broadcast(e.convert(ends, e.i64()), {rows, groups}, {1});
  return e.reduce(ReduceKind::sum, e.convert(e.ge(row, limits), e.i64()), {1});
}

Val groupedMatmul(Emitter &e, Val x, Val w, Val ends) {
  if (!x || !w || !ends)
    return {};
  if (x.rank() != 2 || w.rank() != 3 || ends.rank() != 1 ||
      w.dim(0) != ends.dim(0) || w.dim(1) != x.dim(1))
    return e.fail("cannot multiply groups of {0} by {1} with ends {2}", x, w,
                  ends);
  auto type = RankedTensorType::get({x.dim(0), w.dim(2)}, x.element());
  Value ids = e.materialize(groupOfRows(e, ends, x.dim(0)));
  return e.make<ExpertMatmulOp>(type, e.materialize(x), ids, e.materialize(w),
                                /*tb=*/false, TypeAttr());
}

Val groupedOuter(Emitter &e, Val x, Val y, Val ends) {
  if (!x || !y || !ends)
    return {};
  if (x.rank() != 2 || y.rank() != 2 || ends.rank() != 1 ||
      x.dim(0) != y.dim(0))
    return e.fail("cannot multiply groups of {0} by {1} with ends {2}", x, y,
                  ends);
  auto type =
      RankedTensorType::get({ends.dim(0), x.dim(1), y.dim(1)}, x.element());
  Value ids = e.materialize(groupOfRows(e, ends, x.dim(0)));
  return e.make<ExpertMatmulGradOp>(type, e.materialize(x), ids,
                                    e.materialize(y), TypeAttr());
}

bool isPermutation(const Val &positions) {
  if (!positions.value)
    return false;
  TopKOp sort = sortOf(positions.value);
  return sort && sort.getIndices() == positions.value;
}

Val inversePermutation(Emitter &e, Val positions) {
  if (!positions)
    return {};
  return e.topk(positions, positions.dim(0), /*largest=*/false).second;
}

} // namespace dpc::frontend
