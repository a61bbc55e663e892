//===- Gather.cpp - Gather operations -------------------------------------===//
#include "frontends/stablehlo/ops/Indexer.h"

using namespace mlir;

namespace dpc::frontend::hlo {

/// Rows of `table` [batching.., rows, rest..] at indices [batching.., k]:
/// [batching.., k, rest..]. The first `batching` dimensions are batch
/// dimensions.
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

/// Column `j` of the indices, clamped to the valid range.
Val Indexer::clamped(int64_t j) const {
  double last = static_cast<double>(x.dim(n.indexed[j]) - 1);
  return e.minimum(e.maximum(column(j), 0.0), last);
}

/// Picks rows when several dimensions are indexed. It indexes one dimension
/// after the other, so that none is merged with another: [indices.., rest..].
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
  int64_t window = -1; // the indexed dimension with a longer window
  for (int64_t d : n.indexed)
    if (sizes[d] != 1) {
      if (n.indexed.size() > 1 || !n.batching.empty())
        return c.fail(
            "takes boxes of {0} at runtime indices, which is not supported; "
            "accepted: boxes of one element in indexed dimensions",
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
    // Each index also selects the positions that follow it in the window.
    Shape wide = ordered;
    wide.push_back(sizes[window]);
    int64_t last = places.rank();
    places = e.add(e.broadcast(places, wide, iotaDims(last)),
                   e.broadcast(e.iota({sizes[window]}, 0), wide, {last}));
  }
  Val picked = oneByOne ? pickOneByOne() : pick(tableOf(x), places, batching);
  if (!picked)
    return {};
  Shape kept; // operand dimensions after the indices', in this order
  if (window >= 0)
    kept.push_back(window);
  kept.append(rest);
  return inResultOrder(picked, ordered, kept);
}

/// Converts [batching.., others.., kept..], where the indices' dimensions have
/// the sizes `ordered`, to the order of the result's dimensions.
Val Indexer::inResultOrder(Val picked, Shape ordered, const Shape &kept) const {
  int64_t lead = static_cast<int64_t>(ordered.size());
  Shape shape = ordered, perm(ordered.size(), 0), ascending = kept;
  for (int64_t d : kept)
    shape.push_back(sizes[d]);
  picked = e.reshape(picked, shape);
  // Restore the order of the indices and of the operand's dimensions.
  for (auto [i, d] : llvm::enumerate(batchOrder))
    perm[d] = static_cast<int64_t>(i);
  llvm::sort(ascending);
  for (int64_t d : ascending)
    perm.push_back(lead + (llvm::find(kept, d) - kept.begin()));
  picked = e.transpose(picked, perm);
  // Restore indexed unit dimensions that are not collapsed.
  shape = batchShape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(n.collapsed, d) &&
        !llvm::is_contained(n.batching, d))
      shape.push_back(sizes[d]);
  picked = e.reshape(picked, shape);
  // Move the window dimensions to their positions in the result.
  int64_t batch = 0, offset = lead;
  Shape places;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    places.push_back(llvm::is_contained(n.window, d) ? offset++ : batch++);
  if (batch != lead)
    return c.fail("its offset_dims {0} do not fit its result", n.window);
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

void addGather(OperatorTable &table) { table["stablehlo.gather"] = gather; }

} // namespace dpc::frontend::hlo
