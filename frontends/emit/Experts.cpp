//===- Experts.cpp - Products of rows with the matrices of experts --------===//
#include "frontends/emit/Experts.h"

#include "frontends/emit/Indexing.h"
#include "ir/TensorUtils.h"

using namespace mlir;

namespace dpc::frontend {

Val countIds(Emitter &e, Val ids, int64_t depth, Type element) {
  if (!ids)
    return {};
  Val list = e.reshape(ids, {numElements(ids.shape())});
  return e.reduce(ReduceKind::sum,
                  e.convert(oneHotMask(e, list, depth), element), {0});
}

static Value skipMovement(Value value) {
  while (
      isa_and_present<ConvertOp, ReshapeOp, BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
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

/// Returns the sorted ids whose running counts are `ends`, or null.
static Value sortedIdsOf(Value ends, int64_t groups) {
  auto sums = skipMovement(ends).getDefiningOp<CumSumOp>();
  if (!sums || sums.getExclusive() || sums.getReverse())
    return {};
  auto counts = skipMovement(sums.getX()).getDefiningOp<ReduceOp>();
  if (!counts || counts.getKind() != ReduceKind::sum ||
      shapeOf(counts.getResult()) != ArrayRef(groups) ||
      !llvm::equal(counts.getDims(), ArrayRef<int64_t>(0)))
    return {};
  auto hit = skipMovement(counts.getX()).getDefiningOp<CompareOp>();
  if (!hit || hit.getKind() != CompareKind::eq)
    return {};
  auto places = hit.getA().getDefiningOp<IotaOp>();
  if (!places || places.getDim() != 1 ||
      shapeOf(hit.getA()) != shapeOf(hit.getResult()))
    return {};
  Value ids = skipMovement(hit.getB());
  TopKOp sort = sortOf(ids);
  return sort && sort.getValues() == ids ? ids : Value();
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
