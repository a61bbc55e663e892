//===- Indexing.cpp - Gather and scatter operators ------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/emit/Experts.h"
#include "frontends/torch/Call.h"
#include "ir/IndexRange.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

Val takenAt(Emitter &e, Val x, int64_t dim, Val indices) {
  Shape list = indices.constant->asInts();
  for (int64_t &index : list) {
    index += index < 0 ? x.dim(dim) : 0;
    if (index < 0 || index >= x.dim(dim))
      return e.fail("index {0} is outside dimension {1} of {2}", index, dim, x);
  }
  Shape shape(x.shape().take_front(dim));
  shape.append(indices.shape().begin(), indices.shape().end());
  shape.append(x.shape().begin() + dim + 1, x.shape().end());
  if (x.constant && x.constant->layout() == ConstTensor::Layout::Splat)
    return Val(ConstTensor::splat(x.element(), shape, x.constant->at(0)));
  return e.reshape(e.take(x, dim, list), shape);
}

Val taken(Call &c, Val x, int64_t dim, Val indices, Negative negative) {
  if (!x || !indices || c.emit.failed())
    return {};
  if (indices.isFloat() || indices.element().isInteger(1) || x.rank() == 0)
    return c.fail("indices {0} must be integers; a mask as an index makes a "
                  "tensor whose shape depends on data: use torch.where instead",
                  indices);
  return indices.constant ? takenAt(c.emit, x, dim, indices)
                          : gatherRows(c.emit, x, indices, dim, negative);
}

/// The row padding_idx is not trained, so lookups of this row have no gradient.
Val embedding(Call &c, Val table) {
  if (c.flag("scale_grad_by_freq"))
    c.fail("scale_grad_by_freq=True is not supported");
  if (table && table.rank() != 2)
    c.fail("the table must be a matrix, not {0}", table);
  Val ids = c.tensor("indices");
  Val rows = taken(c, table, 0, ids, Negative::refuse);
  int64_t padding = c.integer("padding_idx");
  if (rows && c.trains && padding >= 0) {
    Val isPadding = c.emit.eq(ids, padding);
    Shape perRow(ids.shape());
    perRow.push_back(1);
    rows = c.emit.select(c.emit.reshape(isPadding, perRow),
                         withoutGradient(c.emit, rows), rows);
  }
  return rows;
}

Val indexSelect(Call &c, Val x) {
  return taken(c, x, c.dimOf("dim", x.rank()), c.tensor("index"),
               Negative::refuse);
}

/// x[i, j, ..]: broadcasts the index tensors, merges the dimensions that they
/// index, and picks rows of the merged dimension.
Val pickPoints(Call &c, Val x, llvm::ArrayRef<Val> indices) {
  Emitter &e = c.emit;
  auto count = static_cast<int64_t>(indices.size());
  if (count > x.rank() || !llvm::all_of(indices, [](const Val &v) {
        return v && !v.isFloat() && !v.element().isInteger(1);
      }))
    return c.fail("these indices are not supported; accepted: integers for one "
                  "dimension, or for each of the first ones");
  Val position;
  for (int64_t d = 0; d < count; ++d) {
    Val one = wrapped(e, e.convert(indices[d], e.i64()), x.dim(d));
    position = d == 0 ? one : e.add(e.mul(position, x.dim(d)), one);
  }
  Shape shape = {numElements(x.shape().take_front(count))};
  shape.append(x.shape().begin() + count, x.shape().end());
  return taken(c, e.reshape(x, shape), 0, position, Negative::wrap);
}

/// x[i], x[:, i], ..; a null index keeps the whole dimension.
Val index(Call &c, Val x) {
  llvm::SmallVector<Val> indices = c.tensors("indices");
  int64_t dim = -1;
  for (auto [d, one] : llvm::enumerate(indices)) {
    if (!one)
      continue;
    if (dim >= 0) {
      dim = -2;
      break;
    }
    dim = static_cast<int64_t>(d);
  }
  if (c.emit.failed())
    return {};
  if (dim == -1)
    return x;
  if (dim < 0 || dim >= x.rank())
    return pickPoints(c, x, indices);
  return taken(c, x, dim, indices[dim], Negative::wrap);
}

Val gather(Call &c, Val x) {
  Val indices = c.tensor("index");
  if (!indices || x.rank() == 0)
    return {};
  int64_t dim = c.dimOf("dim", x.rank());
  return c.emit.failed()
             ? Val()
             : gatherAlong(c.emit, x, indices, dim, Negative::refuse);
}

/// A gather that broadcasts all other dimensions. Without `dim`, both operands
/// are flattened.
Val takeAlongDim(Call &c, Val x) {
  Emitter &e = c.emit;
  Val indices = c.tensor("indices");
  if (!indices)
    return {};
  if (!c.has("dim")) {
    x = e.reshape(x, {numElements(x.shape())});
    indices = e.reshape(indices, {numElements(indices.shape())});
  }
  int64_t dim = c.has("dim") ? c.dimOf("dim", x.rank()) : 0;
  if (e.failed() || x.rank() == 0 || indices.rank() != x.rank())
    return c.fail("indices {0} do not fit {1}", indices, x);
  Shape own(x.shape()), wanted(indices.shape());
  int64_t size = own[dim], count = wanted[dim];
  own[dim] = wanted[dim] = 1;
  auto shape = e.broadcastShape(own, wanted);
  if (!shape)
    return {};
  own = wanted = *shape;
  own[dim] = size;
  wanted[dim] = count;
  return gatherAlong(e, e.broadcastTo(x, own), e.broadcastTo(indices, wanted),
                     dim, Negative::refuse);
}

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

/// Returns the bin of each element: `bins` equal parts of [low, high], of which
/// the last includes `high`; -1 for elements outside.
Val binOf(Emitter &e, Val x, int64_t bins, double low, double high) {
  Val place = e.convert(
      e.floor(e.mul(e.sub(x, low), double(bins) / (high - low))), e.i64());
  place = e.select(e.eq(x, high), bins - 1, place);
  return e.select(e.logicalAnd(e.ge(x, low), e.le(x, high)), place, -1);
}

/// Counts in bins. If the elements are ids of the bins, it counts the ids,
/// which are exact beyond 2^24 too.
Val histc(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t bins = c.integer("bins");
  double low = c.number("min"), high = c.number("max");
  if (e.failed())
    return {};
  if (bins < 1 || low >= high)
    return c.fail("bins={0} between {1} and {2} depend on data or are empty; "
                  "pass histc a range, as min < max",
                  bins, low, high);
  // Narrow floats would merge large ids.
  Val ids = x;
  if (auto convert = x.value ? x.value.getDefiningOp<ConvertOp>() : ConvertOp())
    if (isa<IntegerType>(elementTypeOf(convert.getX())) &&
        (x.element().isF32() || x.element().isF64()))
      ids = convert.getX();
  bool isOnePerId =
      high == double(bins - 1) || (high == double(bins) && ids.value &&
                                   rangeOf(ids.value).isWithin(0, bins - 1));
  bool countsIds = !ids.isFloat() && low == 0 && isOnePerId;
  if (!countsIds)
    ids = binOf(e, e.convert(x, e.statisticsType(x)), bins, low, high);
  return countIds(e, ids, bins, c.resultElement());
}

/// Writes the numbers 0, 1, .. to the positions of a permutation, which gives
/// the inverse permutation.
Val indexPut(Call &c, Val x) {
  llvm::SmallVector<Val> indices = c.tensors("indices");
  Val values = c.tensor("values");
  if (!values || c.emit.failed())
    return {};
  Shape shape(x.shape());
  bool isInverse = indices.size() == 1 && isPermutation(indices[0]) &&
                   x.rank() == 1 && values.shape() == x.shape() &&
                   indices[0].shape() == x.shape() && !c.flag("accumulate") &&
                   values.constant && !values.isFloat() &&
                   llvm::equal(values.constant->asInts(), iotaDims(x.dim(0)));
  if (!isInverse)
    return c.fail("only the inverse of a permutation from sort is supported, "
                  "with torch.arange as values; for other writes use scatter, "
                  "or torch.where with a mask");
  return c.emit.convert(inversePermutation(c.emit, indices[0]), x.element());
}

Val groupedFallback(Call &c, Val x, Val w) {
  return groupedMatmul(c.emit, x, w, c.tensor("offs"));
}

/// Groups are rows of both operands, or rows of the left operand.
Val grouped(Call &c, Val x, Val w) {
  Emitter &e = c.emit;
  if (c.has("bias"))
    return c.fail("a bias is not supported; add it to the result");
  if (!c.has("offs"))
    return x && w ? e.matmul(x, w) : Val();
  Val ends = c.tensor("offs");
  if (!x || !w || !ends)
    return {};
  Val y = x.rank() == 2 && w.rank() == 3 ? groupedMatmul(e, x, w, ends)
          : x.rank() == 2 && w.rank() == 2
              ? groupedOuter(e, e.transpose(x, {1, 0}), w, ends)
              : c.fail("cannot multiply groups of {0} by {1}", x, w);
  return y ? e.convert(y, c.resultElement()) : Val();
}

Val oneHot(Call &c, Val indices) {
  Emitter &e = c.emit;
  int64_t classes = c.integer("num_classes");
  if (classes < 1)
    return c.fail("num_classes depends on data; pass it to one_hot");
  return e.convert(bounded(e, oneHotMask(e, indices, classes)), e.i64());
}

} // namespace

void addIndexing(OperatorTable &t) {
  t["embedding.default"] = {
      "weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False",
      embedding};
  t["index_select.default"] = {"self, dim, index", indexSelect};
  t["index.Tensor"] = {"self, indices", index};
  t["gather.default"] = {"self, dim, index, sparse_grad=False", gather};
  t["take_along_dim.default"] = {"self, indices, dim=None", takeAlongDim};
  t["scatter.src"] = {"self, dim, index, src", scatterSource};
  t["scatter.value"] = {"self, dim, index, value", scatterValue};
  t["scatter_add.default"] = {"self, dim, index, src", scatterAdd};
  t["histc.default"] = {"self, bins=100, min=0, max=0", histc};
  t["index_put.default"] = {"self, indices, values, accumulate=False",
                            indexPut};
  // The product of transformers.integrations.moe, and PyTorch's.
  t["transformers.grouped_mm_fallback.default"] = {"input, weight, offs",
                                                   groupedFallback};
  t["_grouped_mm.default"] = {
      "self, mat2, offs=None, bias=None, out_dtype=None", grouped};
  t["one_hot.default"] = {"self, num_classes=-1", oneHot};
}

} // namespace dpc::frontend::pt2
