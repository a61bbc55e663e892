//===- Movement.cpp - Data movement operators -----------------------------===//
#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

Val reshape(NodeContext &c, Val x) {
  Shape shape = c.intsIn(1);
  if (c.emit.failed())
    return {};
  Shape asked = shape;
  int64_t known = 1, free = -1;
  for (auto [d, size] : llvm::enumerate(shape)) {
    if (size == 0 && !c.intAttr("allowzero", 0)) {
      if (static_cast<int64_t>(d) >= x.rank())
        return c.fail("shape {0} copies dimension {1}, which {2} lacks", asked,
                      d, x.shape());
      size = x.dim(d);
    }
    if (size == -1 && free < 0)
      free = static_cast<int64_t>(d);
    else
      known *= size;
  }
  int64_t total = numElements(x.shape());
  if (free >= 0 && known > 0 && total % known == 0)
    shape[free] = total / known;
  if (numElements(shape) != total ||
      llvm::any_of(shape, [](int64_t d) { return d < 0; }))
    return c.fail("cannot reshape {0} to {1}", x.shape(), asked);
  return c.emit.reshape(x, shape);
}

Val transpose(NodeContext &c, Val x) {
  Shape perm = c.intsAttr("perm");
  if (!c.hasAttr("perm"))
    for (int64_t d = x.rank() - 1; d >= 0; --d)
      perm.push_back(d);
  Shape identity = iotaDims(x.rank());
  if (!std::is_permutation(perm.begin(), perm.end(), identity.begin(),
                           identity.end()))
    return c.fail("perm {0} is not a permutation of the dimensions of {1}",
                  perm, x);
  return c.emit.transpose(x, perm);
}

Val squeeze(NodeContext &c, Val x) {
  auto axes = c.intsAttrOrIn("axes", 1);
  if (c.emit.failed())
    return {};
  llvm::SmallVector<bool> drop(x.rank(), false);
  for (int64_t d = 0; !axes && d < x.rank(); ++d)
    drop[d] = x.dim(d) == 1;
  for (int64_t a : axes.value_or(Shape())) {
    int64_t d = c.axis(a, x.rank());
    if (c.emit.failed())
      return {};
    if (x.dim(d) != 1)
      return c.fail("dimension {0} of {1} is not 1", d, x);
    drop[d] = true;
  }
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!drop[d])
      shape.push_back(x.dim(d));
  return c.emit.reshape(x, shape);
}

Val unsqueeze(NodeContext &c, Val x) {
  auto axes = c.intsAttrOrIn("axes", 1);
  if (c.emit.failed())
    return {};
  if (!axes)
    return c.fail("axes are missing");
  int64_t rank = x.rank() + static_cast<int64_t>(axes->size());
  llvm::SmallVector<bool> isNew(rank, false);
  for (int64_t a : *axes) {
    int64_t d = c.axis(a, rank);
    if (c.emit.failed())
      return {};
    if (isNew[d])
      return c.fail("axis {0} is repeated", a);
    isNew[d] = true;
  }
  Shape shape;
  const int64_t *next = x.shape().begin();
  for (int64_t d = 0; d < rank; ++d)
    shape.push_back(isNew[d] ? 1 : *next++);
  return c.emit.reshape(x, shape);
}

Val flatten(NodeContext &c, Val x) {
  int64_t axis = c.intAttr("axis", 1);
  axis = axis == x.rank() ? axis : c.axis(axis, x.rank());
  return c.emit.failed()
             ? Val()
             : c.emit.reshape(x, {numElements(x.shape().take_front(axis)),
                                  numElements(x.shape().drop_front(axis))});
}

Val concat(NodeContext &c) {
  llvm::SmallVector<Val> parts = c.allIn();
  if (c.emit.failed() || parts.empty())
    return {};
  int64_t axis = c.axis(c.intAttr("axis", 0), parts[0].rank());
  for (const Val &part : parts)
    if (part.rank() != parts[0].rank())
      c.fail("operands differ in rank: {0} and {1}", parts[0].shape(),
             part.shape());
  return c.emit.failed() ? Val() : c.emit.concat(parts, axis);
}

/// Returns the sizes of the parts; empty after a failure.
Shape partSizes(NodeContext &c, int64_t total) {
  if (auto sizes = c.intsAttrOrIn("split", 1))
    return *sizes;
  int64_t count =
      c.intAttr("num_outputs", static_cast<int64_t>(c.outputs.size()));
  int64_t chunk = (total + count - 1) / count;
  Shape sizes;
  for (int64_t n = 0, left = total; n < count; ++n, left -= chunk)
    sizes.push_back(std::clamp<int64_t>(left, 0, chunk));
  return sizes;
}

Val split(NodeContext &c, Val x) {
  int64_t axis = c.axis(c.intAttr("axis", 0), x.rank());
  if (c.emit.failed())
    return {};
  Shape sizes = partSizes(c, x.dim(axis));
  if (c.emit.failed())
    return {};
  int64_t sum = 0;
  for (int64_t size : sizes)
    sum += size;
  if (sum != x.dim(axis) || sizes.size() < c.outputs.size())
    return c.fail("parts {0} do not add up to dimension {1} of {2}", sizes,
                  axis, x);
  int64_t begin = 0;
  for (size_t n = 0; n < c.outputs.size(); begin += sizes[n++])
    if (c.wants(n))
      c.out(n, c.emit.sliceDim(x, axis, begin, sizes[n]));
  return {};
}

/// Returns the first index and the number of elements of a numpy slice.
std::pair<int64_t, int64_t> clampSlice(int64_t start, int64_t end, int64_t step,
                                       int64_t size) {
  // INT64_MAX and INT64_MIN, which mean the ends, must not overflow.
  auto absolute = [&](int64_t v) {
    v = std::clamp<int64_t>(v, -size - 1, size);
    return v < 0 ? v + size : v;
  };
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  start = std::clamp(absolute(start), low, high);
  end = std::clamp(absolute(end), low, high);
  int64_t span = step > 0 ? end - start : start - end;
  int64_t stride = step > 0 ? step : -step;
  return {std::max<int64_t>(start, 0),
          span <= 0 ? 0 : (span + stride - 1) / stride};
}

Val slice(NodeContext &c, Val x) {
  auto starts = c.intsAttrOrIn("starts", 1), ends = c.intsAttrOrIn("ends", 2);
  auto axes = c.intsAttrOrIn("axes", 3);
  Shape steps = c.has(4) ? c.intsIn(4) : Shape();
  if (c.emit.failed())
    return {};
  if (!starts || !ends || starts->size() != ends->size() ||
      (axes && axes->size() != starts->size()))
    return c.fail("starts, ends and axes must have the same length");
  Shape offsets(x.rank(), 0), sizes(x.shape()), strides(x.rank(), 1);
  for (size_t n = 0; n < starts->size(); ++n) {
    int64_t d = c.axis(axes ? (*axes)[n] : static_cast<int64_t>(n), x.rank());
    int64_t step = n < steps.size() ? steps[n] : 1;
    if (step == 0)
      c.fail("a step is zero");
    if (c.emit.failed())
      return {};
    strides[d] = step;
    std::tie(offsets[d], sizes[d]) =
        clampSlice((*starts)[n], (*ends)[n], step, x.dim(d));
  }
  return c.emit.slice(x, offsets, sizes, strides);
}

Val expand(NodeContext &c, Val x) {
  Shape asked = c.intsIn(1);
  if (c.emit.failed())
    return {};
  if (auto shape = c.emit.broadcastShape(x.shape(), asked))
    return c.emit.broadcastTo(x, *shape);
  return {};
}

/// Broadcasts dimensions of size 1; adds a dimension to repeat any other.
Val tile(NodeContext &c, Val x) {
  Shape repeats = c.intsIn(1);
  if (c.emit.failed())
    return {};
  if (static_cast<int64_t>(repeats.size()) != x.rank())
    return c.fail("repeats {0} must have one entry per dimension of {1}",
                  repeats, x);
  Shape wide, dims, result;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (x.dim(d) != 1 && repeats[d] != 1)
      wide.push_back(repeats[d]);
    dims.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(x.dim(d) == 1 ? repeats[d] : x.dim(d));
    result.push_back(x.dim(d) * repeats[d]);
  }
  return c.emit.reshape(c.emit.broadcast(x, wide, dims), result);
}

/// Returns the position in the input for each position of a padded dimension.
Shape paddedPositions(llvm::StringRef mode, int64_t size, int64_t before,
                      int64_t after) {
  Shape positions;
  int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * size - 2, 1);
  for (int64_t n = -before; n < size + after; ++n) {
    if (mode == "edge") {
      positions.push_back(std::clamp<int64_t>(n, 0, size - 1));
      continue;
    }
    int64_t at = ((n % period) + period) % period;
    positions.push_back(at < size ? at : period - at);
  }
  return positions;
}

Val paddedDim(Emitter &e, Val x, int64_t d, int64_t before, int64_t after,
              Val value) {
  Shape shape(x.shape());
  llvm::SmallVector<Val> parts;
  auto fill = [&](int64_t count) {
    shape[d] = count;
    if (count > 0)
      parts.push_back(e.broadcastTo(value, shape));
  };
  fill(before);
  parts.push_back(x);
  fill(after);
  return e.concat(parts, d);
}

/// Returns the pads, which are an input or an attribute. Negative pads crop.
std::optional<std::pair<Shape, Shape>> padsOf(NodeContext &c, Val x) {
  auto pads = c.hasAttr("paddings") ? c.intsAttr("paddings")
                                    : c.intsAttrOrIn("pads", 1);
  Shape axes = c.has(3) ? c.intsIn(3) : iotaDims(x.rank());
  if (!c.emit.failed() && (!pads || pads->size() != 2 * axes.size()))
    c.fail("pads must be known and have two entries per dimension");
  if (c.emit.failed())
    return std::nullopt;
  std::pair<Shape, Shape> result{Shape(x.rank(), 0), Shape(x.rank(), 0)};
  for (size_t n = 0; n < axes.size(); ++n) {
    int64_t d = c.axis(axes[n], x.rank());
    result.first[d] = (*pads)[n];
    result.second[d] = (*pads)[n + axes.size()];
  }
  if (c.emit.failed() ||
      !paddingFits(c.emit, x.shape(), result.first, result.second))
    return std::nullopt;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (x.dim(d) + std::min<int64_t>(result.first[d], 0) +
            std::min<int64_t>(result.second[d], 0) <
        1) {
      c.fail("padding leaves no elements in dimension {0}", d);
      return std::nullopt;
    }
  return result;
}

Val pad(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  llvm::StringRef mode = c.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" &&
      mode != "wrap")
    return c.fail(
        "mode '{0}' is not known; accepted: constant, edge, reflect, wrap",
        mode);
  auto pads = padsOf(c, x);
  Val value = c.has(2) ? e.reshape(c.in(2), {})
                       : e.scalar(c.floatAttr("value", 0.0), x.element());
  if (!pads || !value)
    return {};
  Shape low(x.rank(), 0), shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    int64_t before = pads->first[d], after = pads->second[d];
    int64_t cut = std::max<int64_t>(-before, 0);
    x = e.sliceDim(x, d, cut, x.dim(d) - cut - std::max<int64_t>(-after, 0));
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
    constexpr int64_t kMaxPositions = 1 << 24;
    if (mode != "constant" && before + after > kMaxPositions)
      return c.fail("mode '{0}' pads dimension {1} by {2}; accepted: up to {3}",
                    mode, d, before + after, kMaxPositions);
    if (mode != "constant")
      x = e.take(x, d, paddedPositions(mode, x.dim(d), before, after));
    else if (!isZero(value) || x.constant)
      x = paddedDim(e, x, d, before, after, value);
    else
      low[d] = before;
    bool waits = mode == "constant" && isZero(value) && !x.constant;
    shape.push_back(x.dim(d) + (waits ? before + after : 0));
  }
  // Zero padding is dpc.pad, whose gradient is a slice.
  return e.pad(x, low, shape, Shape(x.rank(), 1));
}

/// [N, C, H*b, W*b] -> [N, b*b*C, H, W].
Val spaceToDepth(NodeContext &c, Val x) {
  int64_t b = c.intAttr("blocksize", 1);
  if (x.rank() != 4 || b < 1 || x.dim(2) % b || x.dim(3) % b)
    return c.fail("blocks of {0} do not divide {1}", b, x);
  int64_t n = x.dim(0), ch = x.dim(1), h = x.dim(2) / b, w = x.dim(3) / b;
  Val split = c.emit.reshape(x, {n, ch, h, b, w, b});
  Val moved = c.emit.transpose(split, {0, 3, 5, 1, 2, 4});
  return c.emit.reshape(moved, {n, ch * b * b, h, w});
}

Val depthToSpace(NodeContext &c, Val x) {
  int64_t b = c.intAttr("blocksize", 1);
  if (x.rank() != 4 || b < 1 || x.dim(1) % (b * b))
    return c.fail("blocks of {0} do not divide the channels of {1}", b, x);
  int64_t n = x.dim(0), ch = x.dim(1) / (b * b), h = x.dim(2), w = x.dim(3);
  bool crd = c.stringAttr("mode", "DCR") == "CRD";
  Val split = crd ? c.emit.reshape(x, {n, ch, b, b, h, w})
                  : c.emit.reshape(x, {n, b, b, ch, h, w});
  Val moved = crd ? c.emit.transpose(split, {0, 1, 4, 2, 5, 3})
                  : c.emit.transpose(split, {0, 3, 4, 1, 5, 2});
  return c.emit.reshape(moved, {n, ch, h * b, w * b});
}

} // namespace

void addMovementOps(OpTable &table) {
  table["Reshape"] = reshape;
  table["Transpose"] = transpose;
  table["Squeeze"] = squeeze;
  table["Unsqueeze"] = unsqueeze;
  table["Flatten"] = flatten;
  table["Concat"] = concat;
  table["Split"] = split;
  table["Slice"] = slice;
  table["Expand"] = expand;
  table["Tile"] = tile;
  table["Pad"] = pad;
  table["SpaceToDepth"] = spaceToDepth;
  table["DepthToSpace"] = depthToSpace;
}

} // namespace dpc::frontend
