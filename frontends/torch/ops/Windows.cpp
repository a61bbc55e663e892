//===- Windows.cpp - Windows as data, and padding by copies ---------------===//
#include "frontends/emit/Windows.h"
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// More taps per window are refused, because each becomes a slice.
constexpr int64_t kMaxTaps = 1024;

/// Returns the two windows of an image of `high` x `wide`.
std::optional<Windows> windowsOf(Call &c, int64_t high, int64_t wide) {
  Shape taps = c.ints("kernel_size", 2), strides = c.ints("stride", 2);
  Shape pads = c.ints("padding", 2), dilations = c.ints("dilation", 2);
  Windows windows;
  for (size_t d = 0; d < 2; ++d) {
    Window window{d ? wide : high, 0,       taps[d],     strides[d],
                  pads[d],         pads[d], dilations[d]};
    bool possible =
        std::min({taps[d], strides[d], pads[d] + 1, dilations[d]}) >= 1 &&
        std::max({taps[d], strides[d], pads[d], dilations[d]}) <= INT32_MAX;
    window.out = possible ? window.fitting() : 0;
    if (window.out < 1) {
      c.fail("a kernel {0} with stride {1} and padding {2} does not fit into "
             "[{3}, {4}]",
             taps, strides, pads, high, wide);
      return std::nullopt;
    }
    windows.dims.push_back(window);
  }
  if (taps[0] * taps[1] > kMaxTaps) {
    c.fail("a kernel of more than {0} elements is not supported", kMaxTaps);
    return std::nullopt;
  }
  return windows;
}

/// Whether the windows are tiles without padding that cover the image.
bool areTiles(const Windows &windows) {
  return llvm::all_of(windows.dims, [](const Window &w) {
    return w.taps == w.stride && w.before == 0 && w.dilation == 1 &&
           w.out * w.stride == w.in;
  });
}

/// Puts zeros around the spatial dimensions.
Val padded(Emitter &e, Val x, const Windows &windows) {
  Shape low(x.rank(), 0), shape(x.shape());
  for (size_t d = 0; d < 2; ++d) {
    low[d + 2] = windows.dims[d].before;
    shape[d + 2] += windows.dims[d].before + windows.dims[d].behind;
  }
  return e.pad(x, low, shape, Shape(x.rank(), 1));
}

/// [N, C, H, W] to [N, C * taps, windows].
Val imageToColumns(Call &c, Val original) {
  Emitter &e = c.emit;
  Val x = original.rank() == 3
              ? e.reshape(original, joinShapes({{1}, original.shape()}))
              : original;
  if (!x || x.rank() != 4)
    return c.fail("input {0} must have 2 spatial dimensions", original);
  auto windows = windowsOf(c, x.dim(2), x.dim(3));
  if (!windows)
    return {};
  const Window &rows = windows->dims[0], &columns = windows->dims[1];
  int64_t n = x.dim(0), channels = x.dim(1);
  Shape shape = {n, channels * rows.taps * columns.taps,
                 rows.out * columns.out};
  if (original.rank() == 3)
    shape.erase(shape.begin());
  if (areTiles(*windows)) {
    Val tiles = e.reshape(
        x, {n, channels, rows.out, rows.taps, columns.out, columns.taps});
    return e.reshape(e.transpose(tiles, {0, 1, 3, 5, 2, 4}), shape);
  }
  x = padded(e, x, *windows);
  llvm::SmallVector<Val> parts;
  for (int64_t i = 0; i < rows.taps; ++i)
    for (int64_t j = 0; j < columns.taps; ++j) {
      Val line = e.sliceDim(x, 2, i * rows.dilation, rows.out, rows.stride);
      Val part = e.sliceDim(line, 3, j * columns.dilation, columns.out,
                            columns.stride);
      parts.push_back(
          e.reshape(part, {n, channels, 1, rows.out * columns.out}));
    }
  return e.reshape(e.concat(parts, 2), shape);
}

/// Adds the windows [N, C * taps, windows] up to an image.
Val columnsToImage(Call &c, Val original) {
  Emitter &e = c.emit;
  Val x = original.rank() == 2
              ? e.reshape(original, joinShapes({{1}, original.shape()}))
              : original;
  Shape size = c.ints("output_size", 2);
  if (!x || x.rank() != 3 || e.failed())
    return c.fail("input {0} must be [N, C * taps, windows]", original);
  auto windows = windowsOf(c, size[0], size[1]);
  if (!windows)
    return {};
  const Window &rows = windows->dims[0], &columns = windows->dims[1];
  int64_t n = x.dim(0), taps = rows.taps * columns.taps;
  if (x.dim(1) % taps || x.dim(2) != rows.out * columns.out)
    return c.fail("input {0} does not fit output_size {1}", original, size);
  int64_t channels = x.dim(1) / taps;
  Shape shape = {n, channels, size[0], size[1]};
  if (areTiles(*windows)) {
    Val tiles = e.reshape(
        x, {n, channels, rows.taps, columns.taps, rows.out, columns.out});
    x = e.reshape(e.transpose(tiles, {0, 1, 4, 2, 5, 3}), shape);
  } else {
    Shape wide = {n, channels, size[0] + rows.before + rows.behind,
                  size[1] + columns.before + columns.behind};
    Val taken = e.reshape(x, {n, channels, taps, rows.out, columns.out}), sum;
    for (int64_t k = 0; k < taps; ++k) {
      Shape low = {0, 0, k / columns.taps * rows.dilation,
                   k % columns.taps * columns.dilation};
      Val part = e.pad(e.dropDim(e.sliceDim(taken, 2, k, 1), 2), low, wide,
                       {1, 1, rows.stride, columns.stride});
      sum = k ? e.add(sum, part) : part;
    }
    x = e.slice(sum, {0, 0, rows.before, columns.before}, shape, Shape(4, 1));
  }
  return original.rank() == 2 ? e.dropDim(x, 0) : x;
}

/// The windows of one dimension; their elements become the last dimension.
Val unfold(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t size = c.integer("size"), step = c.integer("step");
  if (x.rank() == 0)
    x = e.reshape(x, {1});
  int64_t dim = c.dimOf("dimension", x.rank());
  if (e.failed() || size < 1 || step < 1 || size > x.dim(dim))
    return c.fail("windows of {0} elements do not fit dimension {1} of {2}",
                  size, dim, x);
  int64_t count = (x.dim(dim) - size) / step + 1;
  if (step == size) {
    Val whole = e.sliceDim(x, dim, 0, count * size);
    Shape split(x.shape());
    split[dim] = size;
    split.insert(split.begin() + dim, count);
    Shape perm = iotaDims(x.rank() + 1);
    perm.erase(perm.begin() + dim + 1);
    perm.push_back(dim + 1);
    return e.transpose(e.reshape(whole, split), perm);
  }
  if (std::min(size, count) > kMaxTaps)
    return c.fail("{0} windows of {1} elements are not supported", count, size);
  // One slice per element of a window, or per window.
  llvm::SmallVector<Val> parts;
  bool byElement = size <= count;
  for (int64_t n = 0; n < (byElement ? size : count); ++n) {
    Val part = byElement ? e.sliceDim(x, dim, n, count, step)
                         : e.sliceDim(x, dim, n * step, size);
    if (!part)
      return {};
    Shape shape(part.shape());
    if (byElement) {
      shape.push_back(1);
      parts.push_back(e.reshape(part, shape));
      continue;
    }
    shape.insert(shape.begin() + dim, 1);
    Shape perm = iotaDims(x.rank() + 1);
    perm.erase(perm.begin() + dim + 1);
    perm.push_back(dim + 1);
    parts.push_back(e.transpose(e.reshape(part, shape), perm));
  }
  return e.concat(parts, byElement ? x.rank() : dim);
}

/// Returns the position of a dimension of `size` that position `i`, which can
/// be outside, shows.
int64_t shownAt(int64_t i, int64_t size, llvm::StringRef mode) {
  if (mode == "replicate")
    return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "circular")
    return ((i % size) + size) % size;
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

Val padByCopies(Call &c, Val x, llvm::StringRef argument,
                const std::string &mode) {
  Emitter &e = c.emit;
  Shape pads = c.ints(argument);
  if (pads.size() % 2 || static_cast<int64_t>(pads.size()) > 2 * x.rank())
    return c.fail("pad {0} does not fit {1}", pads, x);
  for (size_t n = 0; n < pads.size() / 2 && !e.failed(); ++n) {
    int64_t dim = x.rank() - 1 - static_cast<int64_t>(n), size = x.dim(dim);
    int64_t before = pads[2 * n], behind = pads[2 * n + 1];
    int64_t most = mode == "reflect"    ? size - 1
                   : mode == "circular" ? size
                                        : INT32_MAX;
    if (size < 1 || std::max(before, behind) > most ||
        before + behind + size < 0)
      return c.fail("mode '{0}' cannot pad dimension {1} of {2} by {3} and {4}",
                    mode, dim, x, before, behind);
    Shape positions;
    for (int64_t i = -before; i < size + behind; ++i)
      positions.push_back(shownAt(i, size, mode));
    x = e.take(x, dim, positions);
  }
  return x;
}

Val reflectionPad(Call &c, Val x) {
  return padByCopies(c, x, "padding", "reflect");
}
Val replicationPad(Call &c, Val x) {
  return padByCopies(c, x, "padding", "replicate");
}
Val circularPad(Call &c, Val x) { return padByCopies(c, x, "pad", "circular"); }

/// `pad` lists the pads of the last dimension first. Negative pads crop.
Val pad(Call &c, Val x) {
  Emitter &e = c.emit;
  std::string mode = c.text("mode");
  if (mode == "reflect" || mode == "replicate" || mode == "circular")
    return padByCopies(c, x, "pad", mode);
  if (mode != "constant")
    return c.fail("mode '{0}' is not known; accepted: constant, reflect, "
                  "replicate, circular",
                  mode);
  Shape pads = c.ints("pad");
  double value = c.has("value") ? c.number("value") : 0.0;
  if (e.failed())
    return {};
  if (pads.size() % 2 || static_cast<int64_t>(pads.size()) > 2 * x.rank())
    return c.fail("pad {0} does not fit {1}", pads, x);
  Shape low(x.rank(), 0), high(x.rank(), 0);
  for (size_t n = 0; n < pads.size() / 2; ++n) {
    low[x.rank() - 1 - n] = pads[2 * n];
    high[x.rank() - 1 - n] = pads[2 * n + 1];
  }
  if (!paddingFits(e, x.shape(), low, high))
    return {};
  for (size_t n = 0; n < pads.size() / 2 && !e.failed(); ++n) {
    int64_t dim = x.rank() - 1 - static_cast<int64_t>(n);
    int64_t before = pads[2 * n], behind = pads[2 * n + 1];
    int64_t cutFront = std::max<int64_t>(-before, 0);
    int64_t kept = x.dim(dim) - cutFront - std::max<int64_t>(-behind, 0);
    if (kept < 0)
      return c.fail("pad {0} does not fit {1}", pads, x);
    x = e.sliceDim(x, dim, cutFront, kept);
    auto filled = [&](int64_t count) {
      Shape shape(x.shape());
      shape[dim] = std::max<int64_t>(count, 0);
      return e.splat(value, x.element(), shape);
    };
    if (x)
      x = e.concat({filled(before), x, filled(behind)}, dim);
  }
  return x;
}

} // namespace

void addWindows(OperatorTable &t) {
  t["im2col.default"] = {"self, kernel_size, dilation, padding, stride",
                         imageToColumns};
  t["col2im.default"] = {
      "self, output_size, kernel_size, dilation, padding, stride",
      columnsToImage};
  t["unfold.default"] = {"self, dimension, size, step", unfold};
  for (const char *dims : {"1d", "2d", "3d"}) {
    t[std::string("reflection_pad") + dims + ".default"] = {"self, padding",
                                                            reflectionPad};
    t[std::string("replication_pad") + dims + ".default"] = {"self, padding",
                                                             replicationPad};
  }
  t["_pad_circular.default"] = {"self, pad", circularPad};
  t["pad.default"] = {"self, pad, mode=constant, value=None", pad};
  t["constant_pad_nd.default"] = {"self, pad, value=0, mode=constant", pad};
}

} // namespace dpc::frontend::pt2
