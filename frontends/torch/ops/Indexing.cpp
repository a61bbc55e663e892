//===- Indexing.cpp - Gather and scatter operators ------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/emit/Experts.h"
#include "frontends/torch/ops/Shared.h"
#include "ir/IndexRange.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Picks the known `positions` of dimension `dim`, whose place in the result
/// has the dimensions `own`. Positions that all samples share are picked once.
Val pickKnown(Emitter &e, Val x, int64_t dim, llvm::ArrayRef<int64_t> positions,
              llvm::ArrayRef<int64_t> own) {
  Shape before(x.shape().take_front(dim)), after(x.shape().drop_front(dim + 1));
  Shape shape = joinShapes({before, own, after});
  if (x.constant && x.constant->layout() == ConstTensor::Layout::Splat)
    return Val(ConstTensor::splat(x.element(), shape, x.constant->at(0)));
  if (own.size() > 1 && own[0] > 1) {
    size_t size = positions.size() / own[0];
    llvm::ArrayRef<int64_t> first = positions.take_front(size);
    bool isShared = size > 0;
    for (size_t n = size; isShared && n < positions.size(); n += size)
      isShared = positions.slice(n, size) == first;
    if (isShared) {
      Shape dims = iotaDims(static_cast<int64_t>(shape.size()));
      dims.erase(dims.begin() + dim);
      return e.broadcast(pickKnown(e, x, dim, first, own.drop_front()), shape,
                         dims);
    }
  }
  return e.reshape(e.take(x, dim, positions), shape);
}

Val takenAt(Emitter &e, Val x, int64_t dim, Val indices) {
  Shape list = indices.constant->asInts();
  for (int64_t &index : list) {
    index += index < 0 ? x.dim(dim) : 0;
    if (index < 0 || index >= x.dim(dim))
      return e.fail("index {0} is outside dimension {1} of {2}", index, dim, x);
  }
  return pickKnown(e, x, dim, list, indices.shape());
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

/// The offsets of bags that have `size` elements each, as embedding_bag gets
/// them from a matrix of indices.
bool isEven(const Val &offsets, int64_t count, int64_t size) {
  if (!offsets.constant || size < 1)
    return false;
  for (auto [n, offset] : llvm::enumerate(offsets.constant->asInts()))
    if (offset != static_cast<int64_t>(n) * size)
      return false;
  return offsets.dim(0) * size == count;
}

/// The number of the bag of each of `count` elements.
Val bagsOf(Emitter &e, Val offsets, int64_t count) {
  int64_t bags = offsets.dim(0);
  Val begins = e.broadcast(e.convert(offsets, e.i64()), {count, bags}, {1});
  Val begun = e.ge(e.iota({count, bags}, 0), begins);
  return e.sub(e.reduce(ReduceKind::sum, e.convert(begun, e.i64()), {1}), 1);
}

/// Sums, averages or maximizes the rows of each bag. The row padding_idx does
/// not count.
Val embeddingBag(Call &c, Val table, Val indices, Val offsets) {
  Emitter &e = c.emit;
  enum Mode : int64_t { Sum, Mean, Max };
  int64_t mode = c.integer("mode");
  if (c.flag("scale_grad_by_freq"))
    c.fail("scale_grad_by_freq=True is not supported");
  if (table.rank() != 2 || indices.rank() != 1 || offsets.rank() != 1)
    return c.fail("needs a matrix, a list of indices and a list of offsets");
  int64_t count = indices.dim(0);
  if (c.flag("include_last_offset"))
    offsets = e.sliceDim(offsets, 0, 0, offsets.dim(0) - 1);
  Val rows = taken(c, table, 0, indices, Negative::refuse);
  if (!rows || !offsets)
    return {};
  Type element = rows.element();
  int64_t bags = offsets.dim(0), size = bags ? count / bags : 0;
  bool even = isEven(offsets, count, size);
  if (mode == Max && !even)
    return c.fail("mode 'max' needs bags of one size, known from the shape");
  Val counts = e.splat(1, element, {count, 1});
  int64_t padding = c.has("padding_idx") ? c.integer("padding_idx") : -1;
  if (c.has("per_sample_weights"))
    rows = e.mul(rows, e.reshape(c.tensor("per_sample_weights"), {count, 1}));
  if (padding >= 0) {
    Val skips = e.reshape(e.eq(indices, padding), {count, 1});
    counts = e.select(skips, 0, counts);
    rows = e.select(skips, mode == Max ? -1e30 : 0, rows);
  }
  auto sums = [&](Val x) {
    if (!even)
      return rowSums(e, x, bagsOf(e, offsets, count), bags);
    Val wide = e.reshape(x, {bags, size, x ? x.dim(1) : 0});
    return e.reduce(ReduceKind::sum, wide, {1});
  };
  if (mode != Max) {
    Val total = sums(rows);
    return mode == Sum ? total : e.div(total, e.maximum(sums(counts), 1));
  }
  Val best = e.reduce(ReduceKind::max,
                      e.reshape(rows, {bags, size, table.dim(1)}), {1});
  return e.select(e.gt(sums(counts), 0), best, 0);
}

Val indexSelect(Call &c, Val x) {
  return taken(c, x, c.dimOf("dim", x.rank()), c.tensor("index"),
               Negative::refuse);
}

/// x[i, j, ..], x[:, i, j], ..: merges the indexed dimensions, and picks rows
/// of the merged dimension.
Val pickPoints(Call &c, Val x, llvm::ArrayRef<Val> indices) {
  Emitter &e = c.emit;
  auto points = pointsOf(c, x, indices);
  if (!points)
    return {};
  Val rows = e.transpose(x, points->perm);
  auto count = static_cast<int64_t>(points->indexed);
  Shape shape = {numElements(rows.shape().take_front(count))};
  shape.append(rows.shape().begin() + count, rows.shape().end());
  Val picked =
      taken(c, e.reshape(rows, shape), 0, points->position, Negative::refuse);
  return picked ? e.transpose(picked, points->resultPerm()) : Val();
}

/// x[arange(n), i]: picks a row of each sample. The samples stay apart, so that
/// micro-batches can split them. Returns null for other indices.
Val pickPerSample(Emitter &e, Val x, llvm::ArrayRef<Val> indices) {
  if (indices.size() != 2 || !indices[0] || !indices[1] || x.rank() < 2)
    return {};
  const Val &samples = indices[0], &rows = indices[1];
  bool isEach = samples.constant && !samples.isFloat() && rows.value &&
                isa<IntegerType>(rows.element()) &&
                !rows.element().isInteger(1) &&
                samples.shape() == x.shape().take_front(1) &&
                rows.shape() == samples.shape() &&
                llvm::equal(samples.constant->asInts(), iotaDims(x.dim(0)));
  if (!isEach)
    return {};
  Shape shape(x.shape());
  shape[1] = 1;
  Val picked = gatherAlong(e, x, e.broadcast(rows, shape, {0}), /*axis=*/1);
  shape.erase(shape.begin() + 1);
  return picked ? e.reshape(picked, shape) : Val();
}

/// x[i], x[:, i], ..; a null index keeps the whole dimension.
Val index(Call &c, Val x) {
  llvm::SmallVector<Val> indices = c.tensors("indices");
  int64_t dim = -1;
  for (auto [d, one] : llvm::enumerate(indices)) {
    if (!one)
      continue;
    dim = dim == -1 ? static_cast<int64_t>(d) : -2;
  }
  if (c.emit.failed())
    return {};
  if (dim == -1)
    return x;
  if (Val picked = pickPerSample(c.emit, x, indices))
    return picked;
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

/// Counts the boundaries below each element or, if `right`, up to it.
Val countBelow(Call &c, Val sorted, Val x, bool right) {
  Emitter &e = c.emit;
  Type element = c.resultElement();
  int64_t k = sorted.rank() ? sorted.shape().back() : 0;
  bool isShared = sorted.rank() == 1;
  if (!element || sorted.rank() == 0 ||
      (!isShared && (x.rank() != sorted.rank() ||
                     x.shape().drop_back() != sorted.shape().drop_back())))
    return c.fail("boundaries {0} do not fit {1}", sorted, x);
  Shape own(x.shape()), edges(sorted.shape());
  own.push_back(1);
  edges.insert(edges.end() - 1, 1);
  Type common = commonType(sorted, false, x, x.rank() == 0);
  Val left = e.reshape(e.convert(sorted, common), isShared ? Shape{k} : edges);
  Val value = e.reshape(e.convert(x, common), own);
  Val below = right ? e.le(left, value) : e.lt(left, value);
  return below ? e.reduce(ReduceKind::sum, e.convert(below, element),
                          {below.rank() - 1})
               : Val();
}

Val searchSorted(Call &c, Val sorted) {
  Val x = c.operand("self");
  std::string side = c.text("side");
  if (c.has("sorter"))
    return c.fail("a sorter is not supported; sort the boundaries");
  return x ? countBelow(c, sorted, x, c.flag("right") || side == "right")
           : Val();
}

Val bucketize(Call &c, Val boundaries) {
  Val x = c.operand("self");
  return x ? countBelow(c, boundaries, x, c.flag("right")) : Val();
}

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
  t["embedding_bag.padding_idx"] = {
      "weight, indices, offsets, scale_grad_by_freq=False, mode=0, "
      "sparse=False, per_sample_weights=None, include_last_offset=False, "
      "padding_idx=None",
      embeddingBag};
  for (const char *name : {"embedding_bag.default", "_embedding_bag.default",
                           "_embedding_bag_forward_only.default"})
    t[name] = {"weight, indices, offsets, scale_grad_by_freq=False, mode=0, "
               "sparse=False, per_sample_weights=None, "
               "include_last_offset=False, padding_idx=-1",
               embeddingBag};
  t["index_select.default"] = {"self, dim, index", indexSelect};
  t["index.Tensor"] = {"self, indices", index};
  t["gather.default"] = {"self, dim, index, sparse_grad=False", gather};
  t["take_along_dim.default"] = {"self, indices, dim=None", takeAlongDim};
  for (const char *form : {"Tensor", "Scalar"}) {
    t[std::string("searchsorted.") + form] = {
        "sorted_sequence, self, out_int32=False, right=False, side=None, "
        "sorter=None",
        searchSorted};
    t[std::string("bucketize.") + form] = {
        "boundaries, self, out_int32=False, right=False", bucketize};
  }
  t["histc.default"] = {"self, bins=100, min=0, max=0", histc};
  // The product of transformers.integrations.moe, and PyTorch's.
  t["transformers.grouped_mm_fallback.default"] = {"input, weight, offs",
                                                   groupedFallback};
  t["_grouped_mm.default"] = {
      "self, mat2, offs=None, bias=None, out_dtype=None", grouped};
  t["one_hot.default"] = {"self, num_classes=-1", oneHot};
}

} // namespace dpc::frontend::pt2
