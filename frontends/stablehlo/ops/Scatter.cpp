//===- Scatter.cpp - Scatter operations -----------------------------------===//
#include "frontends/stablehlo/ops/Indexer.h"

using namespace mlir;

namespace dpc::frontend::hlo {

/// Scatters a single box.
Val Indexer::scatterBox(Combiner kind, Val updates) const {
  llvm::SmallVector<Val> at = starts();
  Val update = e.reshape(updates, sizes);
  if (kind != Combiner::second)
    update = combined(e, kind, dynamicSlice(c, x, at, sizes), update);
  if (!update)
    return {};
  Val changed = dynamicUpdate(c, x, update, at);
  // A box out of range changes nothing.
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

/// Adds rows [batching.., k, columns] at indices into [batching.., rows,
/// columns].
Val Indexer::spreadRows(Val places, Val updates) const {
  if (n.batching.empty())
    return addUpRows(places, updates, rows);
  return addRows(e, updates, places, rows);
}

/// Adds updates when several dimensions are indexed: each update is expanded
/// along all of them except the first, then rows are added. With `counts` it
/// adds ones instead, and the result is the number of updates per element.
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

/// Adds rows of `values` [places.., columns] at indices.
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
    return c.fail("combines rows in a way other than add, which is not "
                  "supported; accepted: add, or elements of one dimension");
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
  // Scatter dimensions come first, then those of the window.
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
          "writes boxes of {0} at several indices, which is not supported; "
          "accepted: boxes of one element in indexed dimensions",
          sizes);
  // A smaller window lies at the start of the dimension.
  Shape tail, full;
  for (int64_t d : rest) {
    tail.push_back(sizes[d]);
    full.push_back(x.dim(d));
    columns *= x.dim(d);
  }
  if (tail != full && kind != Combiner::add)
    return c.fail(
        "writes a window of {0} into {1}, which is accepted only for add",
        sizes, x);
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
  // The window in the order of the operand's dimensions.
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
    return c.fail("its updates {0} do not fit {1} at {2}", updates, x, indices);
  return indexer.prepare(sizes)
             ? indexer.scatter(*kind, updates, c.flag("unique_indices"))
             : Val();
}

void addScatter(OperatorTable &table) { table["stablehlo.scatter"] = scatter; }

} // namespace dpc::frontend::hlo
