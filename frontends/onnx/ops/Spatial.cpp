//===- Spatial.cpp - Convolution, pooling and batch normalization ---------===//
#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// A list attribute with `count` entries; if absent, each entry is `fallback`.
Shape listAttr(NodeContext &c, llvm::StringRef name, size_t count,
               int64_t fallback) {
  Shape values = c.intsAttr(name);
  if (values.empty())
    values.assign(count, fallback);
  if (values.size() != count)
    c.fail("attribute " + name + " " + describe(values) + " has " +
           llvm::Twine(values.size()) + " entries, expected " +
           llvm::Twine(count));
  for (int64_t value : values)
    if (value < fallback)
      c.fail("attribute " + name + " " + describe(values) +
             " holds a value below " + llvm::Twine(fallback));
  return values;
}

/// Sets the pads so that the result has ceil(in / stride) positions.
void padSame(Window &window, bool upper) {
  int64_t out = llvm::divideCeil(window.in, window.stride);
  int64_t total =
      std::max<int64_t>((out - 1) * window.stride +
                            window.dilation * (window.taps - 1) + 1 - window.in,
                        0);
  window.before = upper ? total / 2 : total - total / 2;
  window.behind = total - window.before;
}

/// Reads strides, dilations, pads, auto_pad and ceil_mode; nullopt if they do
/// not fit `x`.
std::optional<Windows> windowsOf(NodeContext &c, Val x,
                                 llvm::ArrayRef<int64_t> taps) {
  size_t count = taps.size();
  if (x.rank() < 3 || static_cast<size_t>(x.rank()) != count + 2) {
    c.fail("input " + describe(x.type()) + " does not fit a kernel " +
           describe(taps));
    return std::nullopt;
  }
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  llvm::StringRef autoPad = c.stringAttr("auto_pad", "NOTSET");
  bool same = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  if (!same && autoPad != "NOTSET" && autoPad != "VALID")
    c.fail("auto_pad '" + autoPad +
           "' is not known; accepted: NOTSET, VALID, "
           "SAME_UPPER, SAME_LOWER");
  if (c.emit.failed())
    return std::nullopt;
  Windows windows;
  for (size_t d = 0; d < count; ++d) {
    Window window{x.dim(static_cast<int64_t>(d) + 2),
                  0,
                  taps[d],
                  strides[d],
                  pads[d],
                  pads[d + count],
                  dilations[d]};
    if (same)
      padSame(window, autoPad == "SAME_UPPER");
    if (c.intAttr("ceil_mode", 0))
      roundUp(window);
    window.out = window.fitting();
    if (window.out < 1) {
      c.fail("a kernel " + describe(taps) + " does not fit into " +
             describe(x.type()));
      return std::nullopt;
    }
    windows.dims.push_back(window);
  }
  return windows;
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// Whether the operands of a convolution agree in rank and type; notes a
/// failure if not.
bool convFits(NodeContext &c, Val x, Val w) {
  if (x.rank() == w.rank() && x.rank() >= 3 && x.element() == w.element() &&
      x.isFloat())
    return true;
  c.fail("input " + describe(x.type()) + " does not fit weights " +
         describe(w.type()));
  return false;
}

Val addBias(NodeContext &c, Val y) {
  if (!y || !c.has(2))
    return y;
  return c.emit.binary(BinaryKind::add, y, alongChannels(c.emit, c.in(2), y));
}

void conv(NodeContext &c) {
  if (Val y = convolution(c, c.in(0), c.in(1)))
    c.out(addBias(c, y));
}

/// The window of a transposed convolution along one dimension. Its `in` is the
/// size of the result and its `out` the size of the input.
Window transposedWindow(NodeContext &c, int64_t size, int64_t taps,
                        const Shape &strides, const Shape &dilations,
                        const Shape &pads, const Shape &extra,
                        const Shape &wanted, size_t d) {
  size_t count = strides.size();
  Window window{0,           size, taps, strides[d], pads[d], pads[d + count],
                dilations[d]};
  int64_t full =
      strides[d] * (size - 1) + extra[d] + dilations[d] * (taps - 1) + 1;
  llvm::StringRef autoPad = c.stringAttr("auto_pad", "NOTSET");
  bool same = autoPad.starts_with("SAME");
  if (same || !wanted.empty()) {
    window.in = wanted.empty() ? size * strides[d] : wanted[d];
    int64_t total = std::max<int64_t>(full - window.in, 0);
    bool upper = autoPad == "SAME_UPPER";
    window.before = upper ? total / 2 : total - total / 2;
    window.behind = total - window.before;
  } else {
    window.in = full - window.before - window.behind;
  }
  return window;
}

/// The gradient of a convolution with respect to its input, as a forward op.
void convTranspose(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), w = c.in(1);
  if (!x || !w || !convFits(c, x, w))
    return;
  size_t count = x.rank() - 2;
  int64_t groups = c.intAttr("group", 1);
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  Shape extra = listAttr(c, "output_padding", count, 0);
  Shape wanted = c.intsAttr("output_shape");
  if (x.dim(1) != w.dim(0) || groups < 1 || w.dim(0) % groups != 0)
    c.fail("input " + describe(x.type()) + " does not fit weights " +
           describe(w.type()) + " in " + llvm::Twine(groups) + " groups");
  if (wanted.size() > count)
    wanted.erase(wanted.begin(), wanted.end() - count);
  if (!wanted.empty() && wanted.size() != count)
    c.fail("attribute output_shape has too few entries");
  if (e.failed())
    return;
  Windows windows;
  for (size_t d = 0; d < count; ++d) {
    windows.dims.push_back(transposedWindow(c, x.dim(d + 2), w.dim(d + 2),
                                            strides, dilations, pads, extra,
                                            wanted, d));
    const Window &window = windows.dims.back();
    if (window.in < 1 || window.fitting() != window.out) {
      c.fail("pads, output_padding or output_shape do not fit input " +
             describe(x.type()));
      return;
    }
  }
  Shape shape = {x.dim(0), w.dim(1) * groups};
  shape.append(windows.list(&Window::in));
  auto type = RankedTensorType::get(shape, x.element());
  Val y(ConvGradInputOp::create(e.builder, e.loc, type, e.materialize(x),
                                e.materialize(w), strides, windows.pads(),
                                dilations)
            .getResult());
  c.out(addBias(c, y));
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

void maxPool(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  if (!x.isFloat() || (c.intAttr("storage_order", 0) && c.wants(1))) {
    c.fail(x.isFloat() ? "column-major indices are not supported"
                       : "input " + describe(x.type()) + " is not of floats");
    return;
  }
  Shape kernel = c.intsAttr("kernel_shape");
  auto windows = windowsOf(c, x, kernel);
  if (!windows)
    return;
  Shape shape = windows->resultShape(x.dim(0), x.dim(1));
  auto op = MaxPoolOp::create(
      e.builder, e.loc, RankedTensorType::get(shape, x.element()),
      RankedTensorType::get(shape, e.builder.getI32Type()), e.materialize(x),
      kernel, windows->list(&Window::stride), windows->pads(),
      windows->list(&Window::dilation));
  c.out(0, Val(op.getY()));
  if (!c.wants(1))
    return;
  // ONNX indices refer to the whole tensor, dpc's to one plane.
  Shape planes = {x.dim(0), x.dim(1)};
  Val plane = e.binary(BinaryKind::add,
                       e.binary(BinaryKind::mul, e.iota(planes, 0),
                                static_cast<double>(x.dim(1))),
                       e.iota(planes, 1));
  plane = e.binary(BinaryKind::mul, plane,
                   static_cast<double>(numElements(x.shape().drop_front(2))));
  Shape unit = planes;
  unit.append(windows->dims.size(), 1);
  c.out(1, e.binary(BinaryKind::add,
                    e.convert(Val(op.getIndex()), e.builder.getI64Type()),
                    e.reshape(plane, unit)));
}

/// Multiplies window sums by 1 / the number of elements. Padding counts if the
/// node says so.
void averagePool(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  auto windows = windowsOf(c, x, c.intsAttr("kernel_shape"));
  if (!windows)
    return;
  size_t spatial = windows->dims.size();
  Shape before(spatial, 0), behind(spatial, 0);
  if (c.intAttr("count_include_pad", 0) != 0) {
    before = windows->list(&Window::before);
    // The pads of the windows include the positions that rounding up adds.
    Shape pads = c.intsAttr("pads");
    if (c.stringAttr("auto_pad", "NOTSET") != "NOTSET")
      behind = windows->list(&Window::behind);
    else if (!pads.empty())
      behind.assign(pads.begin() + spatial, pads.end());
  }
  Val shares = windowShares(e, x.element(), *windows, before, behind);
  c.out(e.binary(BinaryKind::mul, windowSums(e, x, *windows), shares));
}

/// (sum of |x|^p)^(1/p) over windows, or over all positions.
Val raised(Emitter &e, Val x, double p) {
  return e.binary(BinaryKind::pow, e.unary(UnaryKind::abs, x), p);
}

void lpPool(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto p = static_cast<double>(c.intAttr("p", 2));
  if (!x)
    return;
  auto windows = windowsOf(c, x, c.intsAttr("kernel_shape"));
  if (!windows)
    return;
  Val sum = windowSums(e, raised(e, x, p), *windows);
  c.out(e.binary(BinaryKind::pow, sum, 1 / p));
}

void globalLpPool(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto p = static_cast<double>(c.intAttr("p", 2));
  if (!x)
    return;
  Shape dims;
  for (int64_t d = 2; d < x.rank(); ++d)
    dims.push_back(d);
  Val sum =
      e.keepDims(e.reduce(ReduceKind::sum, raised(e, x, p), dims), x, dims);
  c.out(e.binary(BinaryKind::pow, sum, 1 / p));
}

/// Adds columns [N, C * taps, windows] at the positions they come from: the
/// gradient, with respect to its input, of a convolution that copies every tap.
void col2Im(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  Shape image = c.intsIn(1), block = c.intsIn(2);
  if (!x || e.failed())
    return;
  size_t count = image.size();
  int64_t taps = numElements(block);
  if (x.rank() != 3 || block.size() != count || taps < 1 || x.dim(1) % taps) {
    c.fail("blocks " + describe(block) + " do not fit " + describe(x.type()));
    return;
  }
  int64_t channels = x.dim(1) / taps;
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  if (e.failed())
    return;
  Windows windows;
  for (size_t d = 0; d < count; ++d) {
    Window window{image[d],        0,           block[d], strides[d], pads[d],
                  pads[d + count], dilations[d]};
    window.out = window.fitting();
    windows.dims.push_back(window);
  }
  Shape grid = windows.resultShape(x.dim(0), x.dim(1)), shape = grid;
  if (numElements(grid) != numElements(x.shape())) {
    c.fail("an image " + describe(image) + " does not have the windows of " +
           describe(x.type()));
    return;
  }
  std::vector<Scalar> copies(x.dim(1) * taps, makeScalar(0, x.element()));
  for (int64_t n = 0; n < x.dim(1); ++n)
    copies[n * taps + n % taps] = makeScalar(1, x.element());
  Shape filter = {x.dim(1), 1};
  filter.append(block);
  Val w(ConstTensor::dense(x.element(), filter, std::move(copies)));
  shape = {x.dim(0), channels};
  shape.append(image);
  auto type = RankedTensorType::get(shape, x.element());
  Value dy = e.materialize(e.reshape(x, grid));
  c.out(Val(ConvGradInputOp::create(e.builder, e.loc, type, dy,
                                    e.materialize(w), strides, pads, dilations)
                .getResult()));
}

/// A depthwise convolution over the cached and the new columns; the last
/// columns are returned as the next cache.
void causalConv(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), w = c.in(1);
  llvm::StringRef activation = c.stringAttr("activation", "none");
  if (!x || !w)
    return;
  if (x.rank() != 3 || w.rank() != 3 || w.dim(0) != x.dim(1) || w.dim(1) != 1) {
    c.fail("input " + describe(x.type()) + " does not fit weights " +
           describe(w.type()));
    return;
  }
  if (activation != "none" && activation != "silu" && activation != "swish") {
    c.fail("activation '" + activation +
           "' is not known; accepted: none, silu, swish");
    return;
  }
  // Products of 16-bit floats are computed in f32.
  Type element = x.element();
  Type wide = element.isF64() ? element : Type(e.builder.getF32Type());
  int64_t before = w.dim(2) - 1;
  Shape carried = {x.dim(0), x.dim(1), before};
  Val all = x;
  if (before > 0)
    all = e.concat({c.has(3) ? c.in(3) : e.splat(0, element, carried), x}, 2);
  if (!all)
    return;
  Windows windows;
  windows.dims.push_back({all.dim(2), x.dim(2), w.dim(2), 1, 0, 0, 1});
  Val y = makeConv(e, e.convert(all, wide), e.convert(w, wide), windows);
  if (c.has(2))
    y = e.binary(BinaryKind::add, y,
                 alongChannels(e, e.convert(c.in(2), wide), y));
  if (activation != "none")
    y = e.unary(UnaryKind::silu, y);
  c.out(0, e.convert(y, element));
  if (before > 0)
    c.out(1, e.sliceDim(all, 2, all.dim(2) - before, before));
}

template <bool isMax> void globalPool(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  if (x.rank() < 3) {
    c.fail("input " + describe(x.type()) + " has no spatial dimensions");
    return;
  }
  Shape dims;
  for (int64_t d = 2; d < x.rank(); ++d)
    dims.push_back(d);
  Val pooled = isMax ? e.reduce(ReduceKind::max, x, dims) : e.mean(x, dims);
  c.out(e.keepDims(pooled, x, dims));
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

/// Normalizes elementwise with running statistics.
void normalizeByRunning(NodeContext &c, Val x, double eps) {
  Emitter &e = c.emit;
  auto channel = [&](Val v) {
    return alongChannels(e, e.convert(v, x.element()), x);
  };
  Val deviation = e.unary(UnaryKind::sqrt,
                          e.binary(BinaryKind::add, channel(c.in(4)), eps));
  Val y = e.binary(BinaryKind::div,
                   e.binary(BinaryKind::sub, x, channel(c.in(3))), deviation);
  y = e.binary(BinaryKind::mul, y, channel(c.in(1)));
  c.out(e.binary(BinaryKind::add, y, channel(c.in(2))));
}

/// Normalizes with the statistics of the batch, and updates the running ones:
/// running * momentum + batch * (1 - momentum), with biased variances.
void normalizeByBatch(NodeContext &c, Val x, double eps) {
  Emitter &e = c.emit;
  Val scale = e.convert(c.in(1), x.element());
  Val bias = e.convert(c.in(2), x.element());
  if (e.failed())
    return;
  Type element = x.element().isF64() ? x.element() : e.builder.getF32Type();
  auto statistics = RankedTensorType::get({x.dim(1)}, element);
  auto op = BatchNormOp::create(
      e.builder, e.loc, x.type(), statistics, statistics, e.materialize(x),
      e.materialize(scale), e.materialize(bias), llvm::APFloat(eps));
  c.out(0, Val(op.getY()));
  double momentum = c.floatAttr("momentum", 0.9);
  for (auto [i, batch] : {std::pair<int64_t, Value>(1, op.getMean()),
                          std::pair<int64_t, Value>(2, op.getVar())}) {
    Val running = c.in(i + 2);
    if (!running)
      return;
    Val moved =
        e.binary(BinaryKind::add, e.binary(BinaryKind::mul, running, momentum),
                 e.convert(e.binary(BinaryKind::mul, Val(batch), 1 - momentum),
                           running.element()));
    c.out(i, moved);
    if (auto argument = dyn_cast_if_present<BlockArgument>(running.value);
        argument && moved)
      e.updates[argument] = moved.value;
  }
}

void batchNorm(NodeContext &c) {
  Val x = c.in(0);
  for (int64_t i = 1; i < 5; ++i)
    if (!x || !c.in(i))
      return;
  bool isVector = llvm::all_of(llvm::seq<int64_t>(1, 5), [&](int64_t i) {
    return x.rank() >= 2 &&
           c.in(i).shape() == llvm::ArrayRef<int64_t>(x.dim(1));
  });
  if (!isVector || !x.isFloat()) {
    c.fail("input " + describe(x.type()) +
           " needs a scale, bias, mean and variance per channel");
    return;
  }
  if (c.opset() < 9 && c.intAttr("spatial", 1) == 0) {
    c.fail("statistics per element (spatial = 0) are not supported");
    return;
  }
  // Before operator set 14 the number of outputs indicates training.
  bool trains =
      c.opset() < 14 ? c.wants(1) : c.intAttr("training_mode", 0) != 0;
  double eps = c.floatAttr("epsilon", 1e-5);
  trains ? normalizeByBatch(c, x, eps) : normalizeByRunning(c, x, eps);
}

} // namespace

Val convolution(NodeContext &c, Val x, Val w) {
  if (!x || !w || !convFits(c, x, w))
    return {};
  int64_t groups = c.intAttr("group", 1);
  if (groups < 1 || x.dim(1) != w.dim(1) * groups || w.dim(0) % groups != 0)
    return c.fail("input " + describe(x.type()) + " does not fit weights " +
                  describe(w.type()) + " in " + llvm::Twine(groups) +
                  " groups");
  auto windows = windowsOf(c, x, w.shape().drop_front(2));
  return windows ? makeConv(c.emit, x, w, *windows) : Val();
}

void addSpatialOps(OpTable &table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = convTranspose;
  table["MaxPool"] = maxPool;
  table["AveragePool"] = averagePool;
  table["LpPool"] = lpPool;
  table["GlobalLpPool"] = globalLpPool;
  table["Col2Im"] = col2Im;
  table["CausalConvWithState"] = causalConv;
  table["GlobalAveragePool"] = globalPool<false>;
  table["GlobalMaxPool"] = globalPool<true>;
  table["BatchNormalization"] = batchNorm;
}

} // namespace dpc::frontend
