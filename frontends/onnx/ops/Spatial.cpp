//===- Spatial.cpp - Convolutions, pools, norms of channels ---------------===//
#include "frontends/emit/Layers.h"
#include "frontends/emit/Windows.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Returns a list attribute of `count` entries, or `fallback` for each entry if
/// the attribute is absent. Entries must be at least `fallback`.
Shape listAttr(NodeContext &c, llvm::StringRef name, size_t count,
               int64_t fallback) {
  Shape values = c.intsAttr(name);
  if (values.empty())
    values.assign(count, fallback);
  if (values.size() != count)
    c.fail("attribute {0} {1} has {2} entries, expected {3}", name, values,
           values.size(), count);
  for (int64_t value : values)
    if (value < fallback)
      c.fail("attribute {0} {1} holds a value below {2}", name, values,
             fallback);
  return values;
}

/// Sets pads with which the result has ceil(in / stride) positions.
void padSame(Window &window, bool upper) {
  int64_t out = llvm::divideCeil(window.in, window.stride);
  int64_t total =
      std::max<int64_t>((out - 1) * window.stride +
                            window.dilation * (window.taps - 1) + 1 - window.in,
                        0);
  window.before = upper ? total / 2 : total - total / 2;
  window.behind = total - window.before;
}

/// Fails if the attributes do not fit `x`.
std::optional<Windows> windowsOf(NodeContext &c, Val x,
                                 llvm::ArrayRef<int64_t> taps) {
  size_t count = taps.size();
  if (x.rank() < 3 || static_cast<size_t>(x.rank()) != count + 2) {
    c.fail("input {0} does not fit a kernel {1}", x, taps);
    return std::nullopt;
  }
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  llvm::StringRef autoPad = c.stringAttr("auto_pad", "NOTSET");
  bool same = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  if (!same && autoPad != "NOTSET" && autoPad != "VALID")
    c.fail("auto_pad '{0}' is not known; accepted: NOTSET, VALID, SAME_UPPER, "
           "SAME_LOWER",
           autoPad);
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
      c.fail("a kernel {0} does not fit into {1}", taps, x);
      return std::nullopt;
    }
    windows.dims.push_back(window);
  }
  return windows;
}

/// Notes a failure unless the operands of a convolution agree in rank and type.
bool convFits(NodeContext &c, Val x, Val w) {
  if (x.rank() == w.rank() && x.rank() >= 3 && x.element() == w.element() &&
      x.isFloat())
    return true;
  c.fail("input {0} does not fit weights {1}", x, w);
  return false;
}

Val addBias(NodeContext &c, Val y) {
  if (!y || !c.has(2))
    return y;
  return c.emit.add(y, alongChannels(c.emit, c.in(2), y));
}

Val conv(NodeContext &c, Val x, Val w) {
  return addBias(c, convolution(c, x, w));
}

/// Returns the window of the convolution whose gradient is this transposed
/// convolution: `in` is a size of the result, and `out` a size of the input.
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

/// A transposed convolution is the gradient of a convolution's input.
Val convTranspose(NodeContext &c, Val x, Val w) {
  Emitter &e = c.emit;
  if (!convFits(c, x, w))
    return {};
  size_t count = x.rank() - 2;
  int64_t groups = c.intAttr("group", 1);
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  Shape extra = listAttr(c, "output_padding", count, 0);
  Shape wanted = c.intsAttr("output_shape");
  if (x.dim(1) != w.dim(0) || groups < 1 || w.dim(0) % groups != 0)
    c.fail("input {0} does not fit weights {1} in {2} groups", x, w, groups);
  if (wanted.size() > count)
    wanted.erase(wanted.begin(), wanted.end() - count);
  if (!wanted.empty() && wanted.size() != count)
    c.fail("attribute output_shape has too few entries");
  if (e.failed())
    return {};
  Windows windows;
  for (size_t d = 0; d < count; ++d) {
    windows.dims.push_back(transposedWindow(c, x.dim(d + 2), w.dim(d + 2),
                                            strides, dilations, pads, extra,
                                            wanted, d));
    const Window &window = windows.dims.back();
    if (window.in < 1 || window.fitting() != window.out)
      return c.fail("pads, output_padding or output_shape do not fit input {0}",
                    x);
  }
  Val y = makeConvGradInput(e, x, w, w.dim(1) * groups, windows);
  return addBias(c, y);
}

Val maxPool(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  if (!x.isFloat() || (c.intAttr("storage_order", 0) && c.wants(1)))
    return c.fail(x.isFloat()
                      ? "column-major indices are not supported"
                      : "input " + describe(x.type()) + " must hold floats");
  auto windows = windowsOf(c, x, c.intsAttr("kernel_shape"));
  if (!windows)
    return {};
  MaxPoolOp op = makeMaxPool(e, x, *windows);
  c.out(0, Val(op.getY()));
  if (!c.wants(1))
    return {};
  // An ONNX index refers to the whole tensor, a dpc index to one plane.
  Shape planes = {x.dim(0), x.dim(1)};
  Val plane = e.add(e.mul(e.iota(planes, 0), x.dim(1)), e.iota(planes, 1));
  plane = e.mul(plane, numElements(x.shape().drop_front(2)));
  Shape unit = joinShapes({planes, Shape(windows->dims.size(), 1)});
  c.out(1,
        e.add(e.convert(Val(op.getIndex()), e.i64()), e.reshape(plane, unit)));
  return {};
}

/// Multiplies window sums by 1 / the number of elements that are averaged.
Val averagePool(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto windows = windowsOf(c, x, c.intsAttr("kernel_shape"));
  if (!windows)
    return {};
  size_t spatial = windows->dims.size();
  Shape before(spatial, 0), behind(spatial, 0);
  if (c.intAttr("count_include_pad", 0) != 0) {
    before = windows->list(&Window::before);
    // The window's pads can include positions that ceil_mode adds.
    Shape pads = c.intsAttr("pads");
    if (c.stringAttr("auto_pad", "NOTSET") != "NOTSET")
      behind = windows->list(&Window::behind);
    else if (!pads.empty())
      behind.assign(pads.begin() + spatial, pads.end());
  }
  Val shares = windowShares(e, x.element(), *windows, before, behind);
  return e.mul(windowSums(e, x, *windows), shares);
}

Val raised(Emitter &e, Val x, double p) { return e.pow(e.abs(x), p); }

Val lpPool(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto p = static_cast<double>(c.intAttr("p", 2));
  auto windows = windowsOf(c, x, c.intsAttr("kernel_shape"));
  if (!windows)
    return {};
  Val sum = windowSums(e, raised(e, x, p), *windows);
  return e.pow(sum, 1 / p);
}

Val globalLpPool(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto p = static_cast<double>(c.intAttr("p", 2));
  Shape dims = iotaDims(x.rank(), 2);
  Val sum =
      e.keepDims(e.reduce(ReduceKind::sum, raised(e, x, p), dims), x, dims);
  return e.pow(sum, 1 / p);
}

/// Adds columns [N, C * taps, windows] to the image positions that they come
/// from. This is the input gradient of a convolution that copies every tap.
Val col2Im(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  Shape image = c.intsIn(1), block = c.intsIn(2);
  if (e.failed())
    return {};
  size_t count = image.size();
  int64_t taps = numElements(block);
  if (x.rank() != 3 || block.size() != count || taps < 1 || x.dim(1) % taps)
    return c.fail("blocks {0} do not fit {1}", block, x);
  Shape strides = listAttr(c, "strides", count, 1);
  Shape dilations = listAttr(c, "dilations", count, 1);
  Shape pads = listAttr(c, "pads", 2 * count, 0);
  if (e.failed())
    return {};
  Windows windows;
  for (size_t d = 0; d < count; ++d) {
    windows.dims.push_back({image[d], 0, block[d], strides[d], pads[d],
                            pads[d + count], dilations[d]});
    windows.dims.back().out = windows.dims.back().fitting();
  }
  Shape grid = windows.resultShape(x.dim(0), x.dim(1));
  if (numElements(grid) != numElements(x.shape()))
    return c.fail("the number of windows of image {0} does not match {1}",
                  image, x);
  std::vector<Scalar> copies(x.dim(1) * taps, makeScalar(0, x.element()));
  for (int64_t n = 0; n < x.dim(1); ++n)
    copies[n * taps + n % taps] = makeScalar(1, x.element());
  Val w = ConstTensor::dense(x.element(), joinShapes({{x.dim(1), 1}, block}),
                             std::move(copies));
  return makeConvGradInput(e, e.reshape(x, grid), w, x.dim(1) / taps, windows);
}

/// A depthwise convolution over the cached columns and the new columns. The
/// last columns become the next cache.
Val causalConv(NodeContext &c, Val x, Val w) {
  Emitter &e = c.emit;
  llvm::StringRef activation = c.stringAttr("activation", "none");
  if (x.rank() != 3 || w.rank() != 3 || w.dim(0) != x.dim(1) || w.dim(1) != 1)
    return c.fail("input {0} does not fit weights {1}", x, w);
  if (activation != "none" && activation != "silu" && activation != "swish")
    return c.fail("activation '{0}' is not known; accepted: none, silu, swish",
                  activation);
  // 16-bit floats are multiplied and summed in f32.
  Type element = x.element(), wide = e.statisticsType(x);
  int64_t before = w.dim(2) - 1;
  Shape carried = {x.dim(0), x.dim(1), before};
  Val all = x;
  if (before > 0)
    all = e.concat({c.has(3) ? c.in(3) : e.splat(0, element, carried), x}, 2);
  if (!all)
    return {};
  Windows windows;
  windows.dims.push_back({all.dim(2), x.dim(2), w.dim(2), 1, 0, 0, 1});
  Val y = makeConv(e, e.convert(all, wide), e.convert(w, wide), windows);
  if (c.has(2))
    y = e.add(y, alongChannels(e, c.in(2), y));
  if (activation != "none")
    y = e.unary(UnaryKind::silu, y);
  c.out(0, e.convert(y, element));
  if (before > 0)
    c.out(1, e.sliceDim(all, 2, all.dim(2) - before, before));
  return {};
}

template <bool isMax> Val globalPool(Emitter &e, Val x) {
  if (x.rank() < 3)
    return e.fail("input {0} has no spatial dimensions", x);
  Shape dims = iotaDims(x.rank(), 2);
  Val pooled = isMax ? e.reduce(ReduceKind::max, x, dims) : e.mean(x, dims);
  return e.keepDims(pooled, x, dims);
}

/// Normalizes with batch statistics and updates the running statistics to
/// running * momentum + batch * (1 - momentum), with biased variances.
Val normalizeByBatch(NodeContext &c, Val x, double eps) {
  Emitter &e = c.emit;
  Val scale = e.convert(c.in(1), x.element());
  Val bias = e.convert(c.in(2), x.element());
  if (e.failed())
    return {};
  BatchNormOp op = makeBatchNorm(e, x, scale, bias, eps);
  double momentum = c.floatAttr("momentum", 0.9);
  for (auto [i, batch] : {std::pair<int64_t, Value>(1, op.getMean()),
                          std::pair<int64_t, Value>(2, op.getVar())})
    c.out(i, movedStatistic(e, c.in(i + 2), batch, momentum, 1 - momentum));
  return Val(op.getY());
}

Val batchNorm(NodeContext &c, Val x) {
  bool isVector = llvm::all_of(llvm::seq<int64_t>(1, 5), [&](int64_t i) {
    return x.rank() >= 2 && c.in(i) &&
           c.in(i).shape() == llvm::ArrayRef<int64_t>(x.dim(1));
  });
  if (!isVector || !x.isFloat())
    return c.fail(
        "input {0} needs a scale, bias, mean and variance per channel", x);
  if (c.opset() < 9 && c.intAttr("spatial", 1) == 0)
    return c.fail("statistics per element (spatial = 0) are not supported");
  // Before operator set 14, a training node has more than one output.
  bool trains =
      c.opset() < 14 ? c.wants(1) : c.intAttr("training_mode", 0) != 0;
  double eps = c.floatAttr("epsilon", 1e-5);
  Emitter &e = c.emit;
  // Statistics that each step gives are data and not the model's.
  bool hasRunning = roleOf(c.in(3).value) != role::kInput;
  if (usesBatchStatistics(e, trains, hasRunning))
    return normalizeByBatch(c, x, eps);
  if (trains) // the running statistics keep their values
    for (int64_t i : {1, 2})
      c.out(i, c.in(i + 2));
  Val y = normalizedBy(e, x, c.in(3), c.in(4), eps);
  y = e.mul(y, alongChannels(e, c.in(1), x));
  return e.add(y, alongChannels(e, c.in(2), x));
}

} // namespace

Val convolution(NodeContext &c, Val x, Val w) {
  if (!x || !w || !convFits(c, x, w))
    return {};
  int64_t groups = c.intAttr("group", 1);
  if (groups < 1 || x.dim(1) != w.dim(1) * groups || w.dim(0) % groups != 0)
    return c.fail("input {0} does not fit weights {1} in {2} groups", x, w,
                  groups);
  auto windows = windowsOf(c, x, w.shape().drop_front(2));
  return windows ? makeConv(c.emit, x, w, *windows) : Val();
}

namespace {

/// Reshapes one number per channel or per group to [1, C, 1..].
Val perChannel(Emitter &e, Val v, Val x) {
  if (!v)
    return {};
  int64_t channels = x.dim(1), given = numElements(v.shape());
  Val wide = e.reshape(
      e.broadcastTo(e.reshape(v, {given, 1}), {given, channels / given}),
      {channels});
  return alongChannels(e, wide, x);
}

/// Normalizes `groups` groups of channels. Inputs 1 and 2: scale and bias.
Val normalized(NodeContext &c, Val x, int64_t groups) {
  Emitter &e = c.emit;
  Val y = normalizedGroups(e, x, groups, c.floatAttr("epsilon", 1e-5));
  y = e.mul(y, perChannel(e, c.in(1), x));
  return e.add(y, perChannel(e, c.in(2), x));
}

Val groupNorm(NodeContext &c, Val x, Val scale) {
  int64_t groups = c.intAttr("num_groups", 0);
  bool fits = x.rank() >= 2 && groups > 0 && x.dim(1) % groups == 0;
  if (!fits || x.dim(1) % numElements(scale.shape()))
    return c.fail("num_groups={0} does not fit {1} with scales {2}", groups, x,
                  scale);
  return normalized(c, x, groups);
}

Val instanceNorm(NodeContext &c, Val x) {
  if (x.rank() < 3)
    return c.fail("input {0} has no spatial dimensions", x);
  return normalized(c, x, x.dim(1));
}

/// (x - mean) / (deviation + 1e-9) over `axes`.
Val meanVarianceNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  Shape axes = c.hasAttr("axes") ? c.intsAttr("axes") : Shape{0, 2, 3};
  for (int64_t &a : axes)
    a = c.axis(a, x.rank());
  if (e.failed())
    return {};
  llvm::sort(axes);
  Val centered = e.sub(x, e.keepDims(e.mean(x, axes), x, axes));
  Val variance = e.mean(e.mul(centered, centered), axes);
  Val deviation = e.keepDims(e.sqrt(variance), x, axes);
  return e.div(centered, e.add(deviation, 1e-9));
}

/// x / (bias + alpha / size * sum of squares over `size` channels)^beta.
Val localResponseNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t size = c.intAttr("size", 1);
  if (x.rank() < 2 || size < 1)
    return c.fail("size {0} does not fit {1}", size, x);
  Val square = e.mul(x, x), sum;
  for (int64_t n = 0; n < size; ++n) {
    // Channel i + shift is added to the sum of channel i.
    int64_t shift = n - (size - 1) / 2, channels = x.dim(1);
    if (std::abs(shift) >= channels)
      continue;
    Val part = e.sliceDim(square, 1, std::max<int64_t>(shift, 0),
                          channels - std::abs(shift));
    Shape zeros(x.shape());
    zeros[1] = std::abs(shift);
    Val empty = e.splat(0, x.element(), zeros);
    part = e.concat(shift < 0 ? llvm::ArrayRef<Val>{empty, part}
                              : llvm::ArrayRef<Val>{part, empty},
                    1);
    sum = sum ? e.add(sum, part) : part;
  }
  double alpha = c.floatAttr("alpha", 1e-4) / static_cast<double>(size);
  Val base = e.add(e.mul(sum, alpha), c.floatAttr("bias", 1.0));
  return e.div(x, e.pow(base, c.floatAttr("beta", 0.75)));
}

/// x / |x|_p along one dimension; 0 where the norm is 0.
Val lpNorm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t p = c.intAttr("p", 2);
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (p != 1 && p != 2)
    c.fail("p={0} is not supported; accepted: 1, 2", p);
  if (e.failed())
    return {};
  Val size = p == 1 ? e.abs(x) : e.mul(x, x);
  Val norm = e.reduce(ReduceKind::sum, size, {axis});
  if (p == 2)
    norm = e.sqrt(norm);
  norm = e.keepDims(norm, x, {axis});
  return e.div(x, e.select(e.eq(norm, 0), 1, norm));
}

} // namespace

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
  table["GroupNormalization"] = groupNorm;
  table["InstanceNormalization"] = instanceNorm;
  table["MeanVarianceNormalization"] = meanVarianceNorm;
  table["LRN"] = localResponseNorm;
  table["LpNormalization"] = lpNorm;
}

} // namespace dpc::frontend
