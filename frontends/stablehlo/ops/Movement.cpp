//===- Movement.cpp - Data movement operations ----------------------------===//
#include "frontends/emit/Windows.h"
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

Val counting(Emitter &e, ArrayRef<int64_t> shape, int64_t dim, Type element) {
  if (!isa<IntegerType>(element) || element.isInteger(1))
    return e.convert(e.iota(shape, dim), element);
  return e.make<IotaOp>(RankedTensorType::get(shape, element),
                        e.builder.getI64IntegerAttr(dim), TypeAttr());
}

Val padded(Emitter &e, Val x, ArrayRef<int64_t> low, ArrayRef<int64_t> shape,
           ArrayRef<int64_t> strides) {
  if (!x || x.shape() == shape)
    return x;
  auto type = RankedTensorType::get(shape, x.element());
  return e.make<PadOp>(type, e.materialize(x), low, strides);
}

/// Crops `x` by negative pads and sets these pads to 0.
static Val cut(Emitter &e, Val x, Shape &low, Shape &high) {
  Shape offsets(x.rank(), 0), sizes(x.shape());
  for (int64_t d = 0; d < x.rank(); ++d) {
    int64_t front = std::max<int64_t>(-low[d], 0);
    int64_t behind = std::max<int64_t>(-high[d], 0);
    offsets[d] = front;
    sizes[d] -= front + behind;
    low[d] = std::max<int64_t>(low[d], 0);
    high[d] = std::max<int64_t>(high[d], 0);
    if (sizes[d] < 0)
      return e.fail("negative pads remove more than all elements of {0}",
                    x.shape());
  }
  return e.slice(x, offsets, sizes, Shape(x.rank(), 1));
}

/// Pads at import time, so that a small constant stays known.
static Val paddedConstant(const ConstTensor &x, Scalar fill, const Shape &low,
                          const Shape &shape, const Shape &strides) {
  std::vector<Scalar> values(static_cast<size_t>(numElements(shape)), fill);
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int64_t d = x.rank() - 1; d >= 0; --d) {
      place += (low[d] + rest % x.shape()[d] * strides[d]) * step;
      rest /= x.shape()[d];
      step *= shape[d];
    }
    values[place] = x.at(i);
  }
  return Val(ConstTensor::dense(x.element(), shape, std::move(values)));
}

Val padded(Emitter &e, Val x, Val value, ArrayRef<int64_t> low,
           ArrayRef<int64_t> high, ArrayRef<int64_t> interior) {
  if (!x || !value)
    return {};
  Shape front(low), behind(high), strides, shape;
  // Negative pads apply after interior padding, so pad the interior first.
  bool spreads = llvm::any_of(interior, [](int64_t i) { return i > 0; });
  bool cuts = llvm::any_of(low, [](int64_t i) { return i < 0; }) ||
              llvm::any_of(high, [](int64_t i) { return i < 0; });
  if (spreads && cuts) {
    Shape none(x.rank(), 0);
    return padded(e, padded(e, x, value, none, none, interior), value, low,
                  high, none);
  }
  x = cut(e, x, front, behind);
  if (!x)
    return {};
  for (int64_t d = 0; d < x.rank(); ++d) {
    strides.push_back(interior[d] + 1);
    int64_t spread = x.dim(d) == 0 ? 0 : (x.dim(d) - 1) * strides.back() + 1;
    shape.push_back(front[d] + spread + behind[d]);
  }
  if (x.shape() == llvm::ArrayRef<int64_t>(shape))
    return x;
  constexpr int64_t kSmall = 1 << 16;
  if (x.constant && value.constant && numElements(shape) <= kSmall)
    return paddedConstant(*x.constant, value.constant->at(0), front, shape,
                          strides);
  if (numElements(x.shape()) == 0)
    return e.broadcastTo(value, shape);
  Val placed = padded(e, x, front, shape, strides);
  if (isZero(value))
    return placed;
  Val inside = padded(e, e.splat(1, e.f32(), x.shape()), front, shape, strides);
  return e.select(e.gt(inside, 0), placed, value);
}

namespace {

Val broadcastInDim(Call &c, Val x) {
  RankedTensorType type = c.resultType();
  Shape dims = c.ints("broadcast_dimensions");
  if (c.emit.failed())
    return {};
  bool fits = static_cast<int64_t>(dims.size()) == x.rank();
  for (int64_t d = 0; fits && d < x.rank(); ++d)
    fits = dims[d] >= 0 && dims[d] < type.getRank() &&
           llvm::count(dims, dims[d]) == 1 &&
           (x.dim(d) == 1 || x.dim(d) == type.getDimSize(dims[d]));
  if (!fits)
    return c.fail("broadcast_dimensions {0} do not fit {1} and the result {2}",
                  dims, x, type);
  // dpc.broadcast requires ascending dimensions.
  Shape order = iotaDims(x.rank());
  llvm::sort(order, [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  x = c.emit.transpose(x, order);
  llvm::sort(dims);
  return c.emit.broadcast(x, type.getShape(), dims);
}

Val reshape(Call &c) {
  if (RankedTensorType type = c.resultType())
    return c.emit.reshape(c.in(0), type.getShape());
  return {};
}

Val transpose(Call &c, Val x) {
  Shape perm = c.ints("permutation");
  if (c.emit.failed())
    return {};
  Shape sorted = perm;
  llvm::sort(sorted);
  if (sorted != iotaDims(x.rank()))
    return c.fail("permutation {0} does not permute the dimensions of {1}",
                  perm, x);
  return c.emit.transpose(x, perm);
}

/// Returns the part of stack `x` that contains positions [begin, begin + size),
/// and makes `begin` relative to it; null if no single part does.
Val partOf(Call &c, Val x, int64_t &begin, int64_t size) {
  auto found = x.value ? c.stackParts.find(x.value) : c.stackParts.end();
  if (found == c.stackParts.end())
    return {};
  for (const Val &part : found->second) {
    if (begin >= 0 && begin + size <= part.dim(0))
      return part;
    begin -= part.dim(0);
  }
  return {};
}

Val slice(Call &c, Val x) {
  Shape begin = c.ints("start_indices"), end = c.ints("limit_indices"),
        steps = c.ints("strides");
  if (c.emit.failed())
    return {};
  size_t rank = static_cast<size_t>(x.rank());
  bool fits =
      begin.size() == rank && end.size() == rank && steps.size() == rank;
  Shape sizes;
  for (size_t d = 0; fits && d < rank; ++d) {
    fits = steps[d] > 0 && begin[d] >= 0 && begin[d] <= end[d] &&
           end[d] <= x.dim(static_cast<int64_t>(d));
    sizes.push_back(fits ? llvm::divideCeil(end[d] - begin[d], steps[d]) : 0);
  }
  if (!fits)
    return c.fail(
        "the slice from {0} to {1} with strides {2} is not within {3}", begin,
        end, steps, x);
  if (rank > 0) {
    int64_t from = begin[0];
    if (Val part = partOf(c, x, from, end[0] - begin[0])) {
      x = part;
      begin[0] = from;
    }
  }
  return c.emit.slice(x, begin, sizes, steps);
}

Val concatenate(Call &c) {
  llvm::SmallVector<Val> parts;
  for (unsigned i = 0; i < c.operands(); ++i)
    parts.push_back(c.in(i));
  int64_t dim = c.integer("dimension", -1);
  if (c.emit.failed())
    return {};
  if (parts.empty() || dim < 0 || dim >= parts[0].rank())
    return c.fail("cannot concatenate along dimension {0}", dim);
  return c.emit.concat(parts, dim);
}

Val pad(Call &c, Val x, Val value) {
  Shape low = c.ints("edge_padding_low"), high = c.ints("edge_padding_high"),
        interior = c.ints("interior_padding");
  if (c.emit.failed())
    return {};
  size_t rank = static_cast<size_t>(x.rank());
  if (low.size() != rank || high.size() != rank || interior.size() != rank ||
      llvm::any_of(interior, [](int64_t i) { return i < 0; }))
    return c.fail("pads low {0}, high {1} and interior {2} do not fit {3}", low,
                  high, interior, x);
  return paddingFits(c.emit, x.shape(), low, high, interior)
             ? padded(c.emit, x, value, low, high, interior)
             : Val();
}

Val reverse(Call &c, Val x) {
  Shape dims = c.ints("dimensions");
  if (c.emit.failed())
    return {};
  Shape offsets(x.rank(), 0), steps(x.rank(), 1);
  for (int64_t d : dims) {
    if (d < 0 || d >= x.rank())
      return c.fail("dimension {0} does not exist in {1}", d, x);
    offsets[d] = x.dim(d) - 1;
    steps[d] = -1;
  }
  return c.emit.slice(x, offsets, x.shape(), steps);
}

Val iota(Call &c) {
  RankedTensorType type = c.resultType();
  int64_t dim = c.integer("iota_dimension", -1);
  if (!type)
    return {};
  if (dim < 0 || dim >= type.getRank())
    return c.fail("iota_dimension {0} does not exist in {1}", dim, type);
  // Short tensors stay known, because slice indices are computed from them.
  constexpr int64_t kShort = 64;
  Type element = type.getElementType();
  if (type.getRank() == 1 && type.getDimSize(0) <= kShort) {
    std::vector<Scalar> values;
    for (int64_t i = 0; i < type.getDimSize(0); ++i)
      values.push_back(makeScalar(static_cast<double>(i), element));
    return Val(ConstTensor::dense(element, type.getShape(), values));
  }
  return counting(c.emit, type.getShape(), dim, element);
}

/// Returns the clamped start of a slice, if it is known.
std::optional<int64_t> knownStart(const Val &start, int64_t extent,
                                  int64_t size) {
  if (!start.constant)
    return std::nullopt;
  return std::clamp<int64_t>(start.constant->at(0).i, 0, extent - size);
}

/// Returns the clamped start of a slice as a runtime value.
Val clampedStart(Emitter &e, Val start, int64_t extent, int64_t size) {
  Val wide = e.convert(start, e.i64());
  wide = e.maximum(wide, 0.0);
  return e.minimum(wide, extent - size);
}

/// Looks up positions `indices` [n] along `dim`.
Val rowsAt(Emitter &e, Val x, int64_t dim, Val indices) {
  if (!x || !indices)
    return {};
  Val front = e.swapDims(x, 0, dim);
  Shape shape(front.shape());
  int64_t rows = shape[0];
  Val table = e.reshape(front, {rows, numElements(shape) / rows});
  Val picked = e.embedding(table, indices);
  shape[0] = indices.dim(0);
  return e.swapDims(e.reshape(picked, shape), 0, dim);
}

} // namespace

Val dynamicSlice(Call &c, Val x, ArrayRef<Val> starts,
                 ArrayRef<int64_t> sizes) {
  Emitter &e = c.emit;
  if (static_cast<int64_t>(starts.size()) != x.rank() ||
      starts.size() != sizes.size())
    return c.fail("has {0} start indices for operand {1}", starts.size(), x);
  Shape offsets, known(sizes);
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (sizes[d] < 0 || sizes[d] > x.dim(d))
      return c.fail("slice sizes {0} exceed operand {1}", sizes, x);
    auto start = knownStart(starts[d], x.dim(d), sizes[d]);
    offsets.push_back(start.value_or(0));
    if (!start)
      known[d] = x.dim(d);
  }
  int64_t begin = x.rank() > 0 ? offsets[0] : 0;
  if (Val part = x.rank() > 0 ? partOf(c, x, begin, known[0]) : Val()) {
    x = part;
    offsets[0] = begin;
  }
  Val result = e.slice(x, offsets, known, Shape(x.rank(), 1));
  for (int64_t d = 0; result && d < result.rank(); ++d) {
    if (starts[d].constant || sizes[d] == result.dim(d))
      continue;
    Val start = clampedStart(e, starts[d], result.dim(d), sizes[d]);
    Val places = e.add(e.iota({sizes[d]}, 0), start);
    result = rowsAt(e, result, d, places);
  }
  return result;
}

/// Concatenates `parts` to a stack and records the parts of the stack.
static Val joined(Call &c, const Parts &parts) {
  Val stack = c.emit.concat(parts, 0);
  if (stack && stack.value && parts.size() > 1)
    c.stackParts[stack.value] = parts;
  return stack;
}

/// Overwrites a stack with `update`, starting at position `begin`.
static Val replaceRows(Call &c, Val x, Val update, int64_t begin) {
  auto found = x.value ? c.stackParts.find(x.value) : c.stackParts.end();
  Parts old = found == c.stackParts.end() ? Parts{x} : found->second, parts;
  int64_t end = begin + update.dim(0), at = 0;
  bool placed = false;
  for (const Val &part : old) {
    int64_t next = at + part.dim(0);
    if (at < begin)
      parts.push_back(c.emit.sliceDim(part, 0, 0, std::min(next, begin) - at));
    if (!placed && next > begin) {
      parts.push_back(update);
      placed = true;
    }
    if (next > end)
      parts.push_back(c.emit.sliceDim(part, 0, std::max(end, at) - at,
                                      next - std::max(end, at)));
    at = next;
  }
  return joined(c, parts);
}

Val dynamicUpdate(Call &c, Val x, Val update, ArrayRef<Val> starts) {
  Emitter &e = c.emit;
  if (static_cast<int64_t>(starts.size()) != x.rank() ||
      update.rank() != x.rank() || update.element() != x.element())
    return c.fail("update {0} does not fit operand {1}", update, x);
  bool allKnown = true, rowsOnly = x.rank() > 0;
  Shape offsets;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (update.dim(d) > x.dim(d))
      return c.fail("update {0} does not fit operand {1}", update, x);
    auto start = knownStart(starts[d], x.dim(d), update.dim(d));
    if (update.dim(d) == x.dim(d))
      start = 0;
    allKnown &= start.has_value();
    offsets.push_back(start.value_or(0));
    rowsOnly &= d == 0 || update.dim(d) == x.dim(d);
  }
  if (numElements(update.shape()) == 0)
    return x;
  if (allKnown && rowsOnly)
    return replaceRows(c, x, update, offsets[0]);
  // Move the update to its position, and compute which positions it covers.
  Val moved = update;
  Val inside = e.splat(1, e.boolean(), x.shape());
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (update.dim(d) == x.dim(d))
      continue;
    int64_t size = update.dim(d), extent = x.dim(d);
    Val start = clampedStart(e, starts[d], extent, size);
    Val offset = e.sub(e.iota({extent}, 0), start);
    Val within = e.logicalAnd(e.ge(offset, 0), e.lt(offset, size));
    offset = e.minimum(e.maximum(offset, 0.0), size - 1);
    moved = rowsAt(e, moved, d, offset);
    inside = e.logicalAnd(inside, e.broadcast(within, x.shape(), {d}));
  }
  return e.select(inside, moved, x);
}

namespace {

llvm::SmallVector<Val> startsFrom(Call &c, unsigned first) {
  llvm::SmallVector<Val> starts;
  for (unsigned i = first; i < c.operands(); ++i) {
    starts.push_back(c.in(i));
    if (starts.back() && (starts.back().rank() != 0 || starts.back().isFloat()))
      c.fail("operand {0} is {1}; expected one integer", i,
             starts.back().type());
  }
  return starts;
}

Val dynamicSliceOp(Call &c, Val x) {
  llvm::SmallVector<Val> starts = startsFrom(c, 1);
  Shape sizes = c.ints("slice_sizes");
  return c.emit.failed() ? Val() : dynamicSlice(c, x, starts, sizes);
}

Val dynamicUpdateOp(Call &c, Val x, Val update) {
  llvm::SmallVector<Val> starts = startsFrom(c, 2);
  return c.emit.failed() ? Val() : dynamicUpdate(c, x, update, starts);
}

} // namespace

void addMovement(OperatorTable &table) {
  table["stablehlo.broadcast_in_dim"] = broadcastInDim;
  table["stablehlo.reshape"] = reshape;
  table["stablehlo.transpose"] = transpose;
  table["stablehlo.slice"] = slice;
  table["stablehlo.concatenate"] = concatenate;
  table["stablehlo.pad"] = pad;
  table["stablehlo.reverse"] = reverse;
  table["stablehlo.iota"] = iota;
  table["stablehlo.dynamic_slice"] = dynamicSliceOp;
  table["stablehlo.dynamic_update_slice"] = dynamicUpdateOp;
}

} // namespace dpc::frontend::hlo
