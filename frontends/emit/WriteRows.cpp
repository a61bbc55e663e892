//===- WriteRows.cpp - Writes to rows and slices --------------------------===//
#include "frontends/emit/Indexing.h"

#include "ir/IndexRange.h"

using namespace mlir;

namespace dpc::frontend {

Val rowSums(Emitter &e, Val updates, Val places, int64_t rows) {
  if (!updates || !places)
    return {};
  if (!updates.isFloat())
    return addRows(e, updates, places, rows);
  // 16-bit types are summed in f32, as in the gradient of an embedding.
  Type element = updates.element(), wide = e.statisticsType(updates);
  updates = e.convert(updates, wide);
  auto type = RankedTensorType::get({rows, updates.dim(1)}, wide);
  Value ids = e.materialize(places), data = e.materialize(updates);
  auto sums =
      EmbeddingGradOp::create(e.builder, e.loc, type, ids, data, TypeAttr());
  sums->setAttr(attr::kBounded, e.builder.getUnitAttr());
  return e.convert(Val(sums.getResult()), element);
}

/// Writes at import time.
static Val writtenConstant(const ConstTensor &table, const ConstTensor &updates,
                           const Shape &places, bool adds) {
  int64_t columns = table.shape()[1];
  std::vector<Scalar> values(table.size());
  for (int64_t n = 0; n < table.size(); ++n)
    values[n] = table.at(n);
  for (auto [k, row] : llvm::enumerate(places))
    for (int64_t j = 0; j < columns; ++j) {
      Scalar more = updates.at(static_cast<int64_t>(k) * columns + j);
      Scalar &value = values[row * columns + j];
      if (!adds)
        value = more;
      else if (table.isFloat())
        value.f += more.f;
      else
        value.i += more.i;
      value = coerce(value, table.element());
    }
  return Val(ConstTensor::dense(table.element(), table.shape(), values));
}

/// Replaces known rows; the last update of a row counts.
static Val replacedRows(Emitter &e, Val table, Val updates,
                        const Shape &places) {
  int64_t rows = table.dim(0);
  Shape positions = iotaDims(rows);
  for (auto [k, row] : llvm::enumerate(places))
    positions[row] = rows + static_cast<int64_t>(k);
  return e.take(e.concat({table, updates}, 0), 0, positions);
}

Val writeRows(Emitter &e, Val table, Val updates, Val places, bool adds,
              Negative negative) {
  if (!table || !updates || !places)
    return {};
  int64_t rows = table.dim(0);
  places = e.convert(places, e.i64());
  if (negative == Negative::wrap)
    places = wrapped(e, places, rows);
  if (updates.dim(0) == 0 || table.dim(1) == 0)
    return table;
  if (places && places.constant) {
    Shape known = places.constant->asInts();
    for (int64_t row : known)
      if (row < 0 || row >= rows)
        return e.fail("index {0} is outside {1} rows", row, rows);
    if (table.constant && updates.constant)
      return writtenConstant(*table.constant, *updates.constant, known, adds);
    if (!adds)
      return replacedRows(e, table, updates, known);
  }
  Type element = table.element();
  if (element.isInteger(1)) {
    table = e.convert(table, e.i64());
    updates = e.convert(updates, e.i64());
  }
  Val sums = rowSums(e, updates, places, rows);
  if (adds)
    return e.convert(isZero(table) ? sums : e.add(table, sums), element);
  Val ones = e.splat(1, e.f32(), {updates.dim(0), 1});
  Val counts = rowSums(e, ones, places, rows);
  Val mean = e.div(sums, e.convert(e.maximum(counts, 1), sums.element()));
  return e.convert(e.select(e.gt(counts, 0), mean, table), element);
}

Val replaced(Emitter &e, Val base, Val part, int64_t dim, int64_t begin,
             int64_t step) {
  if (!base || !part)
    return {};
  int64_t size = base.dim(dim), count = part.dim(dim);
  if (count > 0 && (begin < 0 || begin + (count - 1) * step >= size))
    return e.fail("cannot write {0} to {1}", part, base);
  int64_t end = begin + count;
  if (step == 1 || count < 2) {
    llvm::SmallVector<Val, 3> parts;
    if (begin > 0)
      parts.push_back(e.sliceDim(base, dim, 0, begin));
    if (count > 0)
      parts.push_back(part);
    if (end < size)
      parts.push_back(e.sliceDim(base, dim, end, size - end));
    return parts.size() == 1 ? parts[0] : e.concat(parts, dim);
  }
  Shape positions = iotaDims(size);
  std::vector<Scalar> isPart(size, Scalar{.i = 0});
  for (int64_t n = 0; n < count; ++n) {
    positions[begin + n * step] = size + n;
    isPart[begin + n * step].i = 1;
  }
  if (base.constant && part.constant)
    return e.take(e.concat({base, part}, dim), dim, positions);
  Shape low(base.rank(), 0), strides(base.rank(), 1);
  low[dim] = begin;
  strides[dim] = step;
  Val spread = e.pad(part, low, base.shape(), strides);
  Val mask(ConstTensor::dense(e.boolean(), unitShape(base.rank(), dim, size),
                              isPart));
  return e.select(mask, spread, base);
}

} // namespace dpc::frontend
