//===- Spatial.cpp - Convolution, pools, norms, interpolation -------------===//
#include "frontends/emit/Layers.h"
#include "frontends/emit/Resample.h"
#include "frontends/emit/Windows.h"
#include "frontends/torch/Call.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Returns an input without a batch as [1, C, spatial..].
Val batched(Call &c, Val x, int64_t spatial) {
  if (!x)
    return {};
  if (x.rank() == spatial + 1)
    return c.emit.reshape(x, joinShapes({{1}, x.shape()}));
  if (x.rank() != spatial + 2)
    return c.fail("input {0} must have {1} spatial dimensions", x, spatial);
  return x;
}

Val unbatched(Call &c, Val y, Val original) {
  return y && original.rank() < y.rank()
             ? c.emit.reshape(y, y.shape().drop_front())
             : y;
}

struct Sizes {
  Shape taps, strides, pads, dilations;
  bool roundsUp = false;
};

std::optional<Windows> windowsOf(Call &c, Val x, const Sizes &sizes) {
  Windows windows;
  for (size_t d = 0; d < sizes.taps.size(); ++d) {
    int64_t taps = sizes.taps[d], stride = sizes.strides[d],
            pad = sizes.pads[d], dilation = sizes.dilations[d];
    Window window{x.dim(d + 2), 0, taps, stride, pad, pad, dilation};
    bool possible = std::min({taps, stride, pad + 1, dilation}) >= 1 &&
                    std::max({taps, stride, pad, dilation}) <= INT32_MAX;
    if (possible && sizes.roundsUp)
      roundUp(window);
    window.out = possible ? window.fitting() : 0;
    if (window.out < 1) {
      c.fail(
          "a kernel {0} with stride {1} and padding {2} does not fit into {3}",
          sizes.taps, sizes.strides, sizes.pads, x);
      return std::nullopt;
    }
    windows.dims.push_back(window);
  }
  return windows;
}

Val addBias(Call &c, Val y) {
  if (!y || !c.has("bias"))
    return y;
  Val bias = c.tensor("bias");
  if (!bias || bias.shape() != llvm::ArrayRef<int64_t>(y.dim(1)))
    return c.fail("the bias must have one element per output channel");
  return c.emit.add(y, alongChannels(c.emit, bias, y));
}

/// Returns the pads, which the node states as numbers, "same" or "valid".
Shape convPads(Call &c, const Shape &taps, const Shape &dilations) {
  if (!c.target().ends_with(".padding"))
    return c.ints("padding", taps.size());
  Shape pads(taps.size(), 0);
  if (c.text("padding") == "same")
    for (size_t d = 0; d < taps.size(); ++d) {
      int64_t total = dilations[d] * (taps[d] - 1);
      pads[d] = total / 2;
      if (total % 2)
        c.fail("padding 'same' is not supported for an even kernel");
    }
  else if (c.text("padding") != "valid")
    c.fail("padding '{0}' is not known; accepted: same, valid",
           c.text("padding"));
  return pads;
}

Val transposedConv(Call &c, Val x, Val w);

Val conv(Call &c) {
  Val w = c.tensor("weight");
  if (!w || w.rank() < 3)
    return c.fail("the weight must have 3 dimensions or more");
  Val original = c.tensor("input");
  Val x = batched(c, original, w.rank() - 2);
  if (!x)
    return {};
  if (c.flag("transposed"))
    return transposedConv(c, x, w);
  Sizes sizes{Shape(w.shape().drop_front(2)), {}, {}, {}};
  sizes.strides = c.ints("stride", sizes.taps.size());
  sizes.dilations = c.ints("dilation", sizes.taps.size());
  sizes.pads = convPads(c, sizes.taps, sizes.dilations);
  int64_t groups = c.integer("groups");
  if (groups < 1 || w.dim(1) > INT32_MAX || groups > INT32_MAX ||
      x.dim(1) != w.dim(1) * groups || w.dim(0) % groups ||
      x.element() != w.element())
    c.fail("input {0} does not fit weights {1} in {2} groups", x, w, groups);
  if (c.emit.failed())
    return {};
  auto windows = windowsOf(c, x, sizes);
  Val y = windows ? makeConv(c.emit, x, w, *windows) : Val();
  return unbatched(c, addBias(c, y), original);
}

/// A transposed convolution is the gradient of a convolution's input.
Val transposedConv(Call &c, Val x, Val w) {
  Emitter &e = c.emit;
  size_t count = w.rank() - 2;
  Shape strides = c.ints("stride", count), pads = c.ints("padding", count);
  Shape dilations = c.ints("dilation", count);
  Shape extra = c.ints("output_padding", count);
  int64_t groups = c.integer("groups");
  if (groups < 1 || x.dim(1) != w.dim(0) || w.dim(0) % groups ||
      x.element() != w.element())
    c.fail("input {0} does not fit weights {1} in {2} groups", x, w, groups);
  Windows windows;
  for (size_t d = 0; d < count && !e.failed(); ++d) {
    for (int64_t size : {strides[d], pads[d], dilations[d], extra[d]})
      if (size < 0 || size > INT32_MAX)
        c.fail("size {0} is invalid", size);
    Window window{0,       x.dim(d + 2), w.dim(d + 2), strides[d],
                  pads[d], pads[d],      dilations[d]};
    window.in = window.stride * (window.out - 1) +
                window.dilation * (window.taps - 1) + 1 + extra[d] -
                2 * window.before;
    if (window.stride < 1 || window.dilation < 1 || window.in < 1 ||
        window.fitting() != window.out)
      c.fail("stride, padding and output_padding do not fit {0}", x);
    windows.dims.push_back(window);
  }
  if (e.failed())
    return {};
  Val y = makeConvGradInput(e, x, w, w.dim(1) * groups, windows);
  return unbatched(c, addBias(c, y), c.tensor("input"));
}

Val convTranspose(Call &c) {
  Val w = c.tensor("weight");
  if (!w || w.rank() < 3)
    return c.fail("the weight must have 3 dimensions or more");
  Val x = batched(c, c.tensor("input"), w.rank() - 2);
  return x ? transposedConv(c, x, w) : Val();
}

Sizes poolSizes(Call &c, size_t spatial, bool dilates) {
  Sizes sizes;
  sizes.taps = c.ints("kernel_size", spatial);
  Shape strides = c.has("stride") ? c.ints("stride") : Shape();
  sizes.strides = strides.empty() ? sizes.taps : c.ints("stride", spatial);
  sizes.pads = c.ints("padding", spatial);
  sizes.dilations = dilates ? c.ints("dilation", spatial) : Shape(spatial, 1);
  sizes.roundsUp = c.flag("ceil_mode");
  return sizes;
}

/// Sets both results of a max pool: the maxima and their positions, which torch
/// and dpc count from the start of a plane.
Val pooledMaxima(Call &c, Val x, Val original, const Sizes &sizes) {
  auto windows = windowsOf(c, x, sizes);
  if (!windows)
    return {};
  Emitter &e = c.emit;
  MaxPoolOp op = makeMaxPool(e, x, *windows);
  c.out(0, unbatched(c, Val(op.getY()), original));
  c.out(1, unbatched(c, e.convert(Val(op.getIndex()), e.i64()), original));
  return {};
}

template <int spatial> Val maxPool(Call &c) {
  Emitter &e = c.emit;
  Val original = c.tensor("self"), x = batched(c, original, spatial);
  Sizes sizes = poolSizes(c, spatial, true);
  if (!x || e.failed() || !x.isFloat())
    return {};
  return pooledMaxima(c, x, original, sizes);
}

template <int spatial> Val averagePool(Call &c) {
  Emitter &e = c.emit;
  Val original = c.tensor("self"), x = batched(c, original, spatial);
  Sizes sizes = poolSizes(c, spatial, false);
  if (c.has("divisor_override"))
    c.fail("divisor_override is not supported");
  if (!x || e.failed() || !x.isFloat())
    return {};
  // Rounded up, a kernel larger than the plane has one window, which torch
  // ends at the plane.
  for (int d = 0; d < spatial; ++d)
    if (sizes.roundsUp && sizes.pads[d] == 0)
      sizes.taps[d] = std::min(sizes.taps[d], x.dim(d + 2));
  auto windows = windowsOf(c, x, sizes);
  if (!windows)
    return {};
  Shape counted = c.flag("count_include_pad") ? sizes.pads : Shape(spatial, 0);
  Val shares = windowShares(e, x.element(), *windows, counted, counted);
  return unbatched(c, e.mul(windowSums(e, x, *windows), shares), original);
}

/// The weights of the positions of a dimension for each of `out` averages. The
/// windows differ in size, and can overlap, if `out` does not divide `in`.
std::vector<std::vector<double>> shares(int64_t in, int64_t out) {
  std::vector<std::vector<double>> weights;
  for (int64_t i = 0; i < out; ++i) {
    int64_t begin = i * in / out, end = llvm::divideCeil((i + 1) * in, out);
    weights.emplace_back(in, 0.0);
    for (int64_t n = begin; n < end; ++n)
      weights.back()[n] = 1.0 / static_cast<double>(end - begin);
  }
  return weights;
}

/// Returns output_size; null entries keep the size of `x`.
Shape adaptiveSizes(Call &c, Val x, size_t spatial) {
  Shape out = c.ints("output_size", spatial);
  for (int64_t size : out)
    if (size < 1 || size > INT32_MAX)
      c.fail("output_size {0} is not supported for {1}", out, x);
  return out;
}

/// Averages adjacent windows of equal size, or multiplies each dimension by a
/// matrix of shares.
template <int spatial> Val adaptivePool(Call &c) {
  Emitter &e = c.emit;
  Val original = c.tensor("self"), x = batched(c, original, spatial);
  Shape out = adaptiveSizes(c, x, spatial);
  if (!x || e.failed() || !x.isFloat())
    return {};
  bool divides = true;
  for (size_t d = 0; d < spatial; ++d)
    divides &= x.dim(static_cast<int64_t>(d) + 2) % out[d] == 0;
  for (int64_t d = 0; !divides && d < spatial; ++d)
    if (x && x.dim(d + 2) != out[d])
      x = mixed(e, x, d + 2, shares(x.dim(d + 2), out[d]));
  if (!divides)
    return unbatched(c, x, original);
  Sizes sizes{{}, {}, Shape(spatial, 0), Shape(spatial, 1)};
  double taps = 1;
  for (size_t d = 0; d < spatial; ++d) {
    int64_t in = x.dim(static_cast<int64_t>(d) + 2);
    const int64_t window = in / out[d];
    sizes.taps.push_back(window);
    taps *= static_cast<double>(window);
  }
  sizes.strides = sizes.taps;
  if (llvm::all_of(out, [](int64_t n) { return n == 1; })) {
    Shape dims = iotaDims(x.rank(), 2);
    return unbatched(c, e.keepDims(e.mean(x, dims), x, dims), original);
  }
  auto windows = windowsOf(c, x, sizes);
  Val sums = windows ? windowSums(e, x, *windows) : Val();
  return unbatched(c, e.mul(sums, 1.0 / taps), original);
}

/// The greatest element of adjacent windows of equal size.
template <int spatial> Val adaptiveMax(Call &c) {
  Emitter &e = c.emit;
  Val original = c.tensor("self"), x = batched(c, original, spatial);
  Shape out = adaptiveSizes(c, x, spatial);
  if (!x || e.failed() || !x.isFloat())
    return {};
  Sizes sizes{{}, {}, Shape(spatial, 0), Shape(spatial, 1)};
  for (size_t d = 0; d < spatial; ++d) {
    int64_t in = x.dim(static_cast<int64_t>(d) + 2);
    if (in % out[d])
      return c.fail("output_size {0} does not divide {1}", out, x);
    sizes.taps.push_back(in / out[d]);
  }
  sizes.strides = sizes.taps;
  return pooledMaxima(c, x, original, sizes);
}

/// Moves a running statistic: running * (1 - momentum) + batch * momentum. The
/// functional form returns it as result `i`.
void moveStatistic(Call &c, llvm::StringRef name, int64_t i, Val batch) {
  if (!c.has(name))
    return;
  Val running = c.tensor(name);
  double momentum = c.number("momentum");
  Val moved = movedStatistic(c.emit, running, batch, 1.0 - momentum, momentum);
  if (c.wants(i))
    c.out(i, moved);
  else
    c.write(name, moved);
}

/// The running variance is unbiased: n / (n - 1) times the biased one.
Val normalizeByBatch(Call &c, Val x, double eps) {
  Emitter &e = c.emit;
  auto vector = [&](llvm::StringRef name, double fallback) {
    return c.has(name) ? e.convert(c.tensor(name), x.element())
                       : e.splat(fallback, x.element(), {x.dim(1)});
  };
  Val scale = vector("weight", 1), bias = vector("bias", 0);
  if (e.failed())
    return {};
  BatchNormOp op = makeBatchNorm(e, x, scale, bias, eps);
  const int64_t perChannel = numElements(x.shape()) / x.dim(1);
  auto count = static_cast<double>(perChannel);
  moveStatistic(c, "running_mean", 3, Val(op.getMean()));
  moveStatistic(c, "running_var", 4,
                e.mul(Val(op.getVar()), count / std::max(count - 1, 1.0)));
  return Val(op.getY());
}

Val batchNorm(Call &c, Val x) {
  Emitter &e = c.emit;
  bool trains = c.has("training") && c.flag("training");
  if (e.failed())
    return {};
  bool fits = x.rank() >= 2 && x.isFloat() && x.dim(1) > 0;
  for (llvm::StringRef name : {"weight", "bias", "running_mean", "running_var"})
    if (c.has(name)) {
      Val v = c.tensor(name);
      fits &= v && x.rank() >= 2 && v.isFloat() &&
              v.shape() == llvm::ArrayRef<int64_t>(x.dim(1));
    } else if (name.starts_with("running")) {
      fits &= trains;
    }
  if (!fits)
    return c.fail(
        "input {0} needs a weight, bias, mean and variance per channel", x);
  double eps = c.number("eps");
  bool hasRunning = c.has("running_mean") && c.has("running_var");
  if (usesBatchStatistics(e, trains, hasRunning))
    return normalizeByBatch(c, x, eps);
  Val variance = c.tensor("running_var");
  Val y = normalizedBy(e, x, c.tensor("running_mean"), variance, eps);
  for (auto [kind, name] :
       {std::pair(BinaryKind::mul, llvm::StringRef("weight")),
        std::pair(BinaryKind::add, llvm::StringRef("bias"))})
    if (c.has(name))
      y = e.binary(kind, y, alongChannels(e, c.tensor(name), x));
  return y;
}

/// Returns the argument "scale_factors", one per spatial dimension, or nothing.
std::vector<double> scaleFactors(Call &c) {
  for (const auto &[name, argument] : c.node.inputs)
    if (name == "scale_factors")
      return argument.numbers;
  return {};
}

/// Returns how to resample the spatial dimensions of `x` [N, C, spatial..].
llvm::SmallVector<ResampledAxis> axesOf(Call &c, Val x, bool alignsCorners) {
  llvm::SmallVector<ResampledAxis> axes;
  auto count = static_cast<size_t>(x.rank() - 2);
  std::vector<double> factors = scaleFactors(c);
  Shape sizes = c.has("output_size") ? c.ints("output_size") : Shape();
  if ((sizes.empty() ? factors.size() : sizes.size()) != count) {
    c.fail("needs a size or scale for each spatial dimension of {0}", x);
    return {};
  }
  for (size_t n = 0; n < count; ++n) {
    auto dim = static_cast<int64_t>(n) + 2;
    auto in = static_cast<double>(x.dim(dim));
    double size = sizes.empty() ? std::floor(in * factors[n])
                                : static_cast<double>(sizes[n]);
    if (!(size >= 1 && size < 1e6)) {
      c.fail("dimension {0} of {1} cannot be resampled to the requested size",
             dim, x);
      return {};
    }
    // A given scale is used as is, unless corners are aligned.
    bool isGiven = sizes.empty() && !alignsCorners;
    axes.push_back({dim, x.dim(dim), static_cast<int64_t>(size),
                    isGiven ? factors[n] : size / in});
  }
  return axes;
}

Val resample(Call &c, llvm::StringRef kind) {
  Val x = c.tensor("input");
  if (!x)
    return {};
  if (x.rank() < 3 || !x.isFloat())
    return c.fail("requires floats with spatial dimensions, not {0}", x);
  bool isNearest = kind == "nearest";
  bool isExact = c.target().starts_with("_upsample_nearest_exact");
  bool smooths = c.target().contains("_aa.");
  bool alignsCorners = !isNearest && c.flag("align_corners");
  ResampleMode mode;
  mode.kind = kind;
  mode.coordinates = isExact         ? "half_pixel"
                     : isNearest     ? "asymmetric"
                     : alignsCorners ? "align_corners"
                                     : "half_pixel";
  mode.nearest = isExact ? "round_prefer_ceil" : "floor";
  mode.cubicA = smooths ? -0.5 : -0.75;
  mode.outside = 0;
  mode.excludeOutside = mode.antialias = smooths;
  if (smooths && alignsCorners)
    return c.fail("antialias=True with align_corners=True is not supported");
  auto axes = axesOf(c, x, alignsCorners);
  return c.emit.failed() ? Val() : resampled(c.emit, x, axes, mode);
}

Val nearest(Call &c) { return resample(c, "nearest"); }
Val linear(Call &c) { return resample(c, "linear"); }
Val cubic(Call &c) { return resample(c, "cubic"); }

} // namespace

void addSpatial(OperatorTable &t) {
  llvm::StringRef convolution =
      "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, "
      "transposed=False, output_padding=0";
  for (const char *name : {"conv1d", "conv2d", "conv3d"}) {
    t[std::string(name) + ".default"] = {convolution, conv};
    t[std::string(name) + ".padding"] = {
        "input, weight, bias=None, stride=1, padding=valid, dilation=1, "
        "groups=1, transposed=False",
        conv};
  }
  t["convolution.default"] = {convolution, conv};
  for (const char *name : {"conv_transpose1d.default", "conv_transpose2d.input",
                           "conv_transpose3d.input"})
    t[name] = {convolution, convTranspose};
  llvm::StringRef pool = "self, kernel_size, stride=[], padding=0, dilation=1, "
                         "ceil_mode=False";
  t["max_pool1d.default"] = {pool, maxPool<1>};
  t["max_pool2d.default"] = {pool, maxPool<2>};
  t["max_pool3d.default"] = {pool, maxPool<3>};
  t["max_pool2d_with_indices.default"] = {pool, maxPool<2>};
  llvm::StringRef average =
      "self, kernel_size, stride=[], padding=0, ceil_mode=False, "
      "count_include_pad=True, divisor_override=None";
  t["avg_pool1d.default"] = {average, averagePool<1>};
  t["avg_pool2d.default"] = {average, averagePool<2>};
  t["avg_pool3d.default"] = {average, averagePool<3>};
  t["adaptive_avg_pool1d.default"] = {"self, output_size", adaptivePool<1>};
  t["adaptive_avg_pool2d.default"] = {"self, output_size", adaptivePool<2>};
  t["adaptive_avg_pool3d.default"] = {"self, output_size", adaptivePool<3>};
  t["adaptive_max_pool1d.default"] = {"self, output_size", adaptiveMax<1>};
  t["adaptive_max_pool2d.default"] = {"self, output_size", adaptiveMax<2>};
  t["adaptive_max_pool3d.default"] = {"self, output_size", adaptiveMax<3>};
  t["batch_norm.default"] = {
      "input, weight, bias, running_mean, running_var, training, momentum, eps",
      batchNorm};
  // What decompositions make of it. Their statistics of the batch have readers
  // only in a backward pass.
  t["_native_batch_norm_legit_functional.default"] = {
      "input, weight, bias, running_mean, running_var, training, momentum, eps",
      batchNorm};
  t["_native_batch_norm_legit_no_training.default"] = {
      "input, weight, bias, running_mean, running_var, momentum, eps",
      batchNorm};
  llvm::StringRef plain = "input, output_size=None, scale_factors=None",
                  aligned = "input, output_size=None, align_corners=False, "
                            "scale_factors=None";
  for (const char *dims : {"1d", "2d", "3d"})
    for (const char *name : {"upsample_nearest", "_upsample_nearest_exact"})
      t[std::string(name) + dims + ".vec"] = {plain, nearest};
  for (const char *name : {"linear1d", "bilinear2d", "trilinear3d"})
    t[std::string("upsample_") + name + ".vec"] = {aligned, linear};
  t["_upsample_bilinear2d_aa.vec"] = {aligned, linear};
  t["upsample_bicubic2d.vec"] = {aligned, cubic};
  t["_upsample_bicubic2d_aa.vec"] = {aligned, cubic};
}

} // namespace dpc::frontend::pt2
