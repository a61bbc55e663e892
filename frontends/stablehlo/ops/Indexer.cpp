//===- Indexer.cpp - Common indexing of gather and scatter ----------------===//
#include "frontends/stablehlo/ops/Indexer.h"

using namespace mlir;

namespace dpc::frontend::hlo {

std::optional<Numbers> readNumbers(Call &c, bool isGather) {
  llvm::StringMap<Shape> f =
      c.fields(isGather ? "dimension_numbers" : "scatter_dimension_numbers");
  Numbers n;
  n.window = f[isGather ? "offset_dims" : "update_window_dims"];
  n.collapsed = f[isGather ? "collapsed_slice_dims" : "inserted_window_dims"];
  n.batching = f[isGather ? "operand_batching_dims" : "input_batching_dims"];
  n.indexBatching = f[isGather ? "start_indices_batching_dims"
                               : "scatter_indices_batching_dims"];
  n.indexed = f[isGather ? "start_index_map" : "scatter_dims_to_operand_dims"];
  n.vectorDim =
      f["index_vector_dim"].empty() ? 0 : f["index_vector_dim"].front();
  if (c.emit.failed())
    return std::nullopt;
  return n;
}

Type wideFloat(Emitter &e, Type element) {
  return isa<FloatType>(element) ? element : Type(e.f64());
}

bool Indexer::arrangeIndices() {
  int64_t rank = indices.rank();
  if (n.vectorDim == rank) {
    Shape shape(indices.shape());
    shape.push_back(1);
    indices = e.reshape(indices, shape);
  } else if (n.vectorDim < 0 || n.vectorDim > rank) {
    return bad("index_vector_dim {0} is not a dimension of {1}", n.vectorDim,
               indices);
  } else {
    Shape perm;
    for (int64_t d = 0; d < rank; ++d)
      if (d != n.vectorDim)
        perm.push_back(d);
    perm.push_back(n.vectorDim);
    indices = e.transpose(indices, perm);
  }
  if (!indices || indices.isFloat() ||
      indices.shape().back() != static_cast<int64_t>(n.indexed.size()))
    return bad("its indices do not fit the dimensions {0}", n.indexed);
  indices = e.convert(indices, e.i64());
  batchShape = Shape(indices.shape().drop_back());
  product = numElements(batchShape);
  for (int64_t &d : n.indexBatching)
    d -= d > n.vectorDim;
  batchOrder = n.indexBatching;
  for (int64_t d = 0; d < static_cast<int64_t>(batchShape.size()); ++d)
    if (!llvm::is_contained(n.indexBatching, d))
      batchOrder.push_back(d);
  return batchOrder.size() == batchShape.size() ||
         bad("its batching dimensions do not exist in the indices");
}

bool Indexer::prepare(const Shape &windowSizes) {
  sizes = windowSizes;
  Shape seen;
  for (const Shape *list : {&n.batching, &n.indexed, &n.collapsed})
    for (int64_t d : *list)
      if (d < 0 || d >= x.rank())
        return bad("names dimension {0} of {1}", d, x);
  if (n.batching.size() != n.indexBatching.size() || n.indexed.empty() ||
      static_cast<int64_t>(sizes.size()) != x.rank())
    return bad("its dimension numbers do not fit {0}", x);
  order = n.batching;
  order.append(n.indexed);
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (sizes[d] < 0 || sizes[d] > x.dim(d))
      return bad("its window {0} exceeds {1}", sizes, x);
    if (!llvm::is_contained(order, d))
      rest.push_back(d);
  }
  order.append(rest);
  Shape sorted = order;
  llvm::sort(sorted);
  if (sorted != iotaDims(x.rank()))
    return bad("names a dimension twice");
  if (!arrangeIndices())
    return false;
  for (auto [mine, theirs] : llvm::zip(n.batching, n.indexBatching))
    if (theirs < 0 || theirs >= static_cast<int64_t>(batchShape.size()) ||
        x.dim(mine) != batchShape[theirs])
      return bad("its batching dimensions have different sizes");
  for (int64_t d : n.indexed)
    rows *= x.dim(d);
  return true;
}

/// The start in every dimension of the operand, from a single index vector.
llvm::SmallVector<Val> Indexer::starts() const {
  llvm::SmallVector<Val> starts(x.rank(), e.scalar(0, e.i64()));
  for (auto [j, d] : llvm::enumerate(n.indexed))
    starts[d] = e.reshape(column(static_cast<int64_t>(j)), {});
  return starts;
}

Val Indexer::column(int64_t j) const {
  int64_t last = indices.rank() - 1;
  return e.reshape(e.sliceDim(indices, last, j, 1), batchShape);
}

/// The row that each index vector selects, in the order of `batchOrder`. Rows
/// out of range are clamped or, if `drops`, become the row after the last.
Val Indexer::linear(bool drops) const {
  Val row, valid;
  for (auto [j, d] : llvm::enumerate(n.indexed)) {
    Val index = column(static_cast<int64_t>(j));
    double last = static_cast<double>(x.dim(d) - (drops ? 1 : sizes[d]));
    if (drops) {
      Val inside = e.logicalAnd(e.ge(index, 0), e.le(index, last));
      valid = valid ? e.logicalAnd(valid, inside) : inside;
    } else {
      index = e.minimum(e.maximum(index, 0.0), last);
    }
    row = row ? e.add(e.mul(row, x.dim(d)), index) : index;
  }
  if (drops)
    row = e.select(valid, row, rows);
  return e.transpose(row, batchOrder);
}

/// The shape of the indices; with batching dimensions, the others are merged
/// into one.
Shape Indexer::inRows(ArrayRef<int64_t> shape) const {
  if (n.batching.empty())
    return Shape(shape);
  Shape flat(shape.take_front(n.batching.size()));
  flat.push_back(numElements(shape.drop_front(n.batching.size())));
  return flat;
}

/// The table [batching.., rows, rest..], or [indexed.., rest..] if `oneByOne`.
Val Indexer::tableOf(Val value) const {
  Val ordered = e.transpose(value, order);
  if (!ordered || oneByOne)
    return ordered;
  size_t batching = n.batching.size(), indexed = n.indexed.size();
  Shape shape(ordered.shape().take_front(batching));
  shape.push_back(rows);
  shape.append(ordered.shape().begin() + batching + indexed,
               ordered.shape().end());
  return e.reshape(ordered, shape);
}

Val Indexer::fromTable(Val table) const {
  Shape shape, back(order.size(), 0);
  for (auto [i, d] : llvm::enumerate(order)) {
    shape.push_back(x.dim(d));
    back[d] = static_cast<int64_t>(i);
  }
  return e.transpose(e.reshape(table, shape), back);
}

} // namespace dpc::frontend::hlo
