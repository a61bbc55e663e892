//===- Indexing.cpp - Gather and scatter ----------------------------------===//
//
// Gather and scatter transpose their operand to [batching.., indexed.., rest..]
// and their indices to [batching.., others..]. Each batch element then has a
// table with one row per index. Gather picks rows of the table; scatter adds to
// rows or replaces rows. JAX's embeddings, take, take_along_axis, indexing by
// one element or box, and their gradients have this form.
//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// The dimension numbers of gather and scatter, by common names.
struct Numbers {
  Shape window;    ///< offset_dims, update_window_dims
  Shape collapsed; ///< collapsed_slice_dims, inserted_window_dims
  Shape batching, indexBatching;
  Shape indexed; ///< start_index_map, scatter_dims_to_operand_dims
  int64_t vectorDim = 0;
};

class Indexer {
public:
  Indexer(Call &c, Numbers numbers, Val x, Val indices)
      : c(c), e(c.emit), n(std::move(numbers)), x(x), indices(indices) {}

  /// Normalizes the indices; returns false after a failure.
  bool prepare(const Shape &windowSizes);
  Val gather(mlir::RankedTensorType type);
  Val scatter(Combiner kind, Val updates, bool isUnique);

private:
  template <typename... Args> bool bad(const Args &...args) {
    c.fail(args...);
    return false;
  }
  bool arrangeIndices();
  bool isSingle() const { return batchShape.empty() || product == 1; }
  llvm::SmallVector<Val> starts() const;
  Val column(int64_t j) const;
  Val linear(bool drops) const;
  Val tableOf(Val value) const;
  Val fromTable(Val table) const;
  Val pick(Val table, Val places, size_t batching) const;
  Val pickOneByOne() const;
  Val inResultOrder(Val picked, Shape ordered, const Shape &kept) const;
  Val spreadOneByOne(Val updates, bool counts) const;
  Val addUpRows(Val places, Val values, int64_t count) const;
  Val clamped(int64_t j) const;
  Shape inRows(llvm::ArrayRef<int64_t> shape) const;
  Val scatterBox(Combiner kind, Val updates) const;
  Val scatterRows(Combiner kind, Val table, Val places, Val rows,
                  bool isUnique) const;
  Val spreadRows(Val places, Val rows) const;
  Val add(Val table, Val more) const;

  Call &c;
  Emitter &e;
  Numbers n;
  Val x, indices;   ///< indices: [dims.., index vector]
  Shape sizes;      ///< window size per operand dimension
  Shape batchShape; ///< shape of `indices` without the last dimension
  int64_t product = 1;
  Shape batchOrder; ///< batching dimensions of `indices`, then others
  Shape rest;       ///< operand dimensions not batching or indexed
  Shape order;      ///< batching, indexed, rest
  int64_t rows = 1, columns = 1;
  bool oneByOne = false;
};

} // namespace

static std::optional<Numbers> readNumbers(Call &c, bool isGather) {
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

/// Returns the type for sums: `element` if it is a float type, otherwise f64.
static Type wideFloat(Emitter &e, Type element) {
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
    return bad("the indices must be integers, with one column for each of the "
               "dimensions {0}",
               n.indexed);
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
         bad("the batching dimensions do not exist in the indices");
}

bool Indexer::prepare(const Shape &windowSizes) {
  sizes = windowSizes;
  Shape seen;
  for (const Shape *list : {&n.batching, &n.indexed, &n.collapsed})
    for (int64_t d : *list)
      if (d < 0 || d >= x.rank())
        return bad("dimension {0} does not exist in {1}", d, x);
  if (n.batching.size() != n.indexBatching.size() || n.indexed.empty() ||
      static_cast<int64_t>(sizes.size()) != x.rank())
    return bad("the dimension numbers do not fit {0}", x);
  order = n.batching;
  order.append(n.indexed);
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (sizes[d] < 0 || sizes[d] > x.dim(d))
      return bad("the window {0} exceeds {1}", sizes, x);
    if (!llvm::is_contained(order, d))
      rest.push_back(d);
  }
  order.append(rest);
  Shape sorted = order;
  llvm::sort(sorted);
  if (sorted != iotaDims(x.rank()))
    return bad("the dimension numbers name a dimension twice");
  if (!arrangeIndices())
    return false;
  for (auto [mine, theirs] : llvm::zip(n.batching, n.indexBatching))
    if (theirs < 0 || theirs >= static_cast<int64_t>(batchShape.size()) ||
        x.dim(mine) != batchShape[theirs])
      return bad(
          "batching dimensions differ in size between operand and indices");
  for (int64_t d : n.indexed)
    rows *= x.dim(d);
  return true;
}

/// Returns the start in each operand dimension for a single index vector.
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

/// Returns the table row of each index vector, in the order of `batchOrder`.
/// Invalid rows are clamped or, if `drops`, become the row after the last.
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

/// If there are batching dimensions, merges all other dimensions of `shape`.
Shape Indexer::inRows(ArrayRef<int64_t> shape) const {
  if (n.batching.empty())
    return Shape(shape);
  Shape flat(shape.take_front(n.batching.size()));
  flat.push_back(numElements(shape.drop_front(n.batching.size())));
  return flat;
}

/// Returns [batching.., rows, rest..] or, if `oneByOne`, [indexed.., rest..].
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

/// Picks rows of `table` [batching.., rows, rest..] at `places` [batching..,
/// k]. Returns [batching.., k, rest..].
Val Indexer::pick(Val table, Val places, size_t batching) const {
  if (!table || !places)
    return {};
  Shape tail(table.shape().drop_front(batching + 1));
  Shape shape(places.shape());
  shape.append(tail);
  if (batching == 0) {
    if (places.constant) {
      Shape known = places.constant->asInts();
      return e.reshape(e.take(table, 0, known), shape);
    }
    Val flat = e.reshape(table, {table.dim(0), numElements(tail)});
    return e.reshape(e.embedding(flat, places), shape);
  }
  if (tail.empty())
    return gatherAlong(e, table, places, static_cast<int64_t>(batching));
  Shape flat(table.shape().take_front(batching + 1));
  flat.push_back(numElements(tail));
  return e.reshape(pickRows(e, e.reshape(table, flat), places), shape);
}

/// Returns column `j` of the indices, clamped to valid indices.
Val Indexer::clamped(int64_t j) const {
  double last = static_cast<double>(x.dim(n.indexed[j]) - 1);
  return e.minimum(e.maximum(column(j), 0.0), last);
}

/// Picks [indices.., rest..] along one indexed dimension after the other, so
/// that no two dimensions are merged.
Val Indexer::pickOneByOne() const {
  Val rowsLeft = pick(e.transpose(x, order), clamped(0), 0);
  Shape unit = batchShape;
  unit.push_back(1);
  for (int64_t j = 1; j < static_cast<int64_t>(n.indexed.size()); ++j) {
    rowsLeft = pick(rowsLeft, e.reshape(clamped(j), unit), batchShape.size());
    if (!rowsLeft)
      return {};
    Shape shape(rowsLeft.shape());
    shape.erase(shape.begin() + static_cast<int64_t>(batchShape.size()));
    rowsLeft = e.reshape(rowsLeft, shape);
  }
  return rowsLeft;
}

Val Indexer::gather(RankedTensorType type) {
  if (n.batching.empty() && isSingle() && numElements(sizes) > 0)
    return e.reshape(dynamicSlice(c, x, starts(), sizes), type.getShape());
  int64_t window = -1; // indexed dimension whose window is not 1
  for (int64_t d : n.indexed)
    if (sizes[d] != 1) {
      if (n.indexed.size() > 1 || !n.batching.empty())
        return c.fail(
            "takes windows of {0} at runtime indices, which is not supported; "
            "accepted: windows of one element in indexed dimensions",
            sizes);
      window = d;
    }
  Shape box(x.shape());
  for (int64_t d : rest)
    box[d] = sizes[d];
  x = e.slice(x, Shape(x.rank(), 0), box, Shape(x.rank(), 1));
  Val places = linear(/*drops=*/false);
  if (!places)
    return {};
  Shape ordered(places.shape());
  size_t batching = n.batching.size();
  oneByOne = batching == 0 && n.indexed.size() > 1 && !places.constant;
  places = e.reshape(places, inRows(ordered));
  if (window >= 0) {
    // Each index selects all positions of its window.
    Shape wide = ordered;
    wide.push_back(sizes[window]);
    int64_t last = places.rank();
    places = e.add(e.broadcast(places, wide, iotaDims(last)),
                   e.broadcast(e.iota({sizes[window]}, 0), wide, {last}));
  }
  Val picked = oneByOne ? pickOneByOne() : pick(tableOf(x), places, batching);
  if (!picked)
    return {};
  Shape kept; // operand dimensions, in their order in `picked`
  if (window >= 0)
    kept.push_back(window);
  kept.append(rest);
  return inResultOrder(picked, ordered, kept);
}

/// Transposes `picked` [batchOrder.., kept..] to the result's order of
/// dimensions. `ordered` has the sizes of the dimensions in batchOrder.
Val Indexer::inResultOrder(Val picked, Shape ordered, const Shape &kept) const {
  int64_t lead = static_cast<int64_t>(ordered.size());
  Shape shape = ordered, perm(ordered.size(), 0), ascending = kept;
  for (int64_t d : kept)
    shape.push_back(sizes[d]);
  picked = e.reshape(picked, shape);
  // Restore the order of the dimensions of the indices and of the operand.
  for (auto [i, d] : llvm::enumerate(batchOrder))
    perm[d] = static_cast<int64_t>(i);
  llvm::sort(ascending);
  for (int64_t d : ascending)
    perm.push_back(lead + (llvm::find(kept, d) - kept.begin()));
  picked = e.transpose(picked, perm);
  // Restore dimensions of size 1 that are indexed but not collapsed.
  shape = batchShape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(n.collapsed, d) &&
        !llvm::is_contained(n.batching, d))
      shape.push_back(sizes[d]);
  picked = e.reshape(picked, shape);
  // Move window dimensions to their positions in the result.
  int64_t batch = 0, offset = lead;
  Shape places;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    places.push_back(llvm::is_contained(n.window, d) ? offset++ : batch++);
  if (batch != lead)
    return c.fail("offset_dims {0} do not fit the result", n.window);
  return e.transpose(picked, places);
}

static Val gather(Call &c, Val x, Val indices) {
  auto numbers = readNumbers(c, /*isGather=*/true);
  RankedTensorType type = c.resultType();
  if (!numbers || !type || c.emit.failed())
    return {};
  Indexer indexer(c, *numbers, x, indices);
  return indexer.prepare(c.ints("slice_sizes")) ? indexer.gather(type) : Val();
}

Val Indexer::scatterBox(Combiner kind, Val updates) const {
  llvm::SmallVector<Val> at = starts();
  Val update = e.reshape(updates, sizes);
  if (kind != Combiner::second)
    update = combined(e, kind, dynamicSlice(c, x, at, sizes), update);
  if (!update)
    return {};
  Val changed = dynamicUpdate(c, x, update, at);
  // A window that is partly outside changes nothing.
  Val valid;
  for (int64_t d : n.indexed) {
    Val last =
        e.scalar(static_cast<double>(x.dim(d) - sizes[d]), at[d].element());
    Val inside = e.logicalAnd(e.ge(at[d], 0), e.le(at[d], last));
    valid = valid ? e.logicalAnd(valid, inside) : inside;
  }
  if (valid && valid.constant)
    return valid.constant->at(0).i ? changed : x;
  return e.select(valid, changed, x);
}

/// Adds rows [batching.., k, columns] to zeros [batching.., rows, columns].
Val Indexer::spreadRows(Val places, Val updates) const {
  if (n.batching.empty())
    return addUpRows(places, updates, rows);
  return addRows(e, updates, places, rows);
}

/// Adds updates to zeros along several indexed dimensions: expands each update
/// along all indexed dimensions except the first, then adds rows along the
/// first. If `counts` is set, counts the updates per element instead.
Val Indexer::spreadOneByOne(Val updates, bool counts) const {
  int64_t batch = static_cast<int64_t>(batchShape.size());
  Val spread =
      counts ? e.splat(1, e.f32(), batchShape) : updates; // [indices.., rest..]
  for (int64_t j = static_cast<int64_t>(n.indexed.size()) - 1; j > 0; --j) {
    int64_t size = x.dim(n.indexed[j]);
    Val hit = oneHotMask(e, column(j), size);
    if (!spread || !hit)
      return {};
    Shape shape = batchShape, dims = iotaDims(batch);
    shape.push_back(size);
    for (int64_t d = batch; d < spread.rank(); ++d) {
      shape.push_back(spread.dim(d));
      dims.push_back(d + 1);
    }
    spread = e.select(e.broadcast(hit, shape, iotaDims(batch + 1)),
                      e.broadcast(spread, shape, dims), 0);
  }
  if (!spread)
    return {};
  int64_t first = x.dim(n.indexed[0]);
  Val place = column(0);
  place = e.select(e.ge(place, 0), place, first);
  Shape flat = batchShape;
  flat.push_back(numElements(spread.shape().drop_front(batch)));
  return e.reshape(addUpRows(place, e.reshape(spread, flat), first),
                   {first, flat.back()});
}

/// Adds `values` [places.., columns] to zeros [count, columns].
Val Indexer::addUpRows(Val places, Val values, int64_t count) const {
  if (!places || !values)
    return {};
  Type element = wideFloat(e, values.element());
  Val wide = e.convert(values, element);
  auto type = RankedTensorType::get({count, wide.shape().back()}, element);
  Value ids = e.materialize(places), data = e.materialize(wide);
  Val sums = e.make<EmbeddingGradOp>(type, ids, data, TypeAttr());
  return e.convert(sums, values.element());
}

Val Indexer::add(Val table, Val more) const {
  return isNeutral(Combiner::add, table) ? more : e.add(table, more);
}

Val Indexer::scatterRows(Combiner kind, Val table, Val places, Val updates,
                         bool isUnique) const {
  int64_t axis = static_cast<int64_t>(n.batching.size());
  bool single = rest.empty() && !oneByOne;
  if (kind == Combiner::second && !isUnique)
    return c.fail("writes several elements to indices that can coincide, which "
                  "is not supported; accepted: unique_indices=True, one index, "
                  "or adding (x.at[i].add)");
  if (single &&
      (axis > 0 || (kind != Combiner::add && kind != Combiner::second))) {
    llvm::StringRef how = kind == Combiner::add   ? "add"
                          : kind == Combiner::mul ? "mul"
                          : kind == Combiner::max ? "max"
                          : kind == Combiner::min ? "min"
                                                  : "none";
    if (kind == Combiner::logicalAnd || kind == Combiner::logicalOr)
      return c.fail("is not supported for booleans");
    Shape flat(places.shape().take_front(axis));
    flat.push_back(numElements(places.shape().drop_front(axis)));
    return scatterAlong(e, table, e.reshape(places, flat),
                        e.reshape(updates, flat), axis, how);
  }
  if (kind != Combiner::add && kind != Combiner::second)
    return c.fail("combines rows by an operation other than add, which is not "
                  "supported; accepted: add, or updates of single elements");
  Shape flat(places.shape());
  flat.push_back(columns);
  Val sums = oneByOne ? spreadOneByOne(updates, /*counts=*/false)
                      : spreadRows(places, e.reshape(updates, flat));
  if (!sums)
    return {};
  Val placed = e.reshape(sums, table.shape());
  if (kind == Combiner::add)
    return add(table, placed);
  Shape ones = flat;
  ones.back() = 1;
  Val count = oneByOne ? spreadOneByOne(updates, /*counts=*/true)
                       : spreadRows(places, e.splat(1, e.f32(), ones));
  Shape unit(table.shape().take_front(oneByOne ? n.indexed.size() : axis + 1));
  unit.append(table.rank() - unit.size(), 1);
  Val hit = e.gt(e.reshape(count, unit), 0);
  return e.select(hit, placed, table);
}

Val Indexer::scatter(Combiner kind, Val updates, bool isUnique) {
  // Put scatter dimensions before window dimensions.
  Shape perm;
  for (bool isWindow : {false, true})
    for (int64_t d = 0; d < updates.rank(); ++d)
      if (llvm::is_contained(n.window, d) == isWindow)
        perm.push_back(d);
  updates = e.transpose(updates, perm);
  if (n.batching.empty() && isSingle())
    return scatterBox(kind, updates);
  for (int64_t d : n.indexed)
    if (sizes[d] != 1)
      return c.fail(
          "writes windows of {0} at several indices, which is not supported; "
          "accepted: windows of one element in indexed dimensions",
          sizes);
  // In dimensions that are not indexed, every window starts at 0.
  Shape tail, full;
  for (int64_t d : rest) {
    tail.push_back(sizes[d]);
    full.push_back(x.dim(d));
    columns *= x.dim(d);
  }
  if (tail != full && kind != Combiner::add)
    return c.fail(
        "writes windows of {0} to {1}, which is accepted only for add", sizes,
        x);
  Val places = linear(/*drops=*/true);
  if (!places)
    return {};
  oneByOne = n.batching.empty() && n.indexed.size() > 1 && !places.constant &&
             (kind == Combiner::add || kind == Combiner::second);
  Shape shape = batchShape;
  shape.append(tail);
  updates = e.reshape(updates, shape);
  Shape ordered = batchOrder;
  for (size_t i = 0; i < tail.size(); ++i)
    ordered.push_back(static_cast<int64_t>(batchShape.size() + i));
  updates = e.transpose(updates, ordered);
  Shape flat = inRows(places.shape());
  places = e.reshape(places, flat);
  Shape small = flat, large = flat;
  small.append(tail);
  large.append(full);
  updates = padded(e, e.reshape(updates, small), Shape(small.size(), 0), large,
                   Shape(small.size(), 1));
  Val table = tableOf(x);
  if (!table || !updates)
    return {};
  return fromTable(scatterRows(kind, table, places, updates, isUnique));
}

static Val scatter(Call &c) {
  if (c.operands() != 3 || c.op->getNumRegions() != 1)
    return c.fail(
        "has several operands, which is not supported; accepted: one");
  Val x = c.in(0), indices = c.in(1), updates = c.in(2);
  auto numbers = readNumbers(c, /*isGather=*/false);
  if (!numbers || c.emit.failed())
    return {};
  auto kind = combinerOf(c.op->getRegion(0));
  if (!kind)
    return c.fail("combines elements by an unsupported region; accepted: {0}, "
                  "or the update itself",
                  combinersText());
  // Order the window sizes by operand dimension.
  Shape sizes, window = numbers->window;
  llvm::sort(window);
  size_t next = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool isUnit = llvm::is_contained(numbers->collapsed, d) ||
                  llvm::is_contained(numbers->batching, d);
    bool known = !isUnit && next < window.size() && window[next] >= 0 &&
                 window[next] < updates.rank();
    sizes.push_back(known ? updates.dim(window[next++]) : 1);
  }
  Indexer indexer(c, *numbers, x, indices);
  int64_t vectors =
      numElements(indices.shape()) /
      std::max<int64_t>(1, static_cast<int64_t>(numbers->indexed.size()));
  if (next != window.size() ||
      numElements(updates.shape()) != numElements(sizes) * vectors)
    return c.fail("updates {0} do not fit operand {1} and indices {2}", updates,
                  x, indices);
  return indexer.prepare(sizes)
             ? indexer.scatter(*kind, updates, c.flag("unique_indices"))
             : Val();
}

void addIndexing(OperatorTable &table) {
  table["stablehlo.gather"] = gather;
  table["stablehlo.scatter"] = scatter;
}

} // namespace dpc::frontend::hlo
