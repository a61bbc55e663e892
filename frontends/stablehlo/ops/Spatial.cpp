//===- Spatial.cpp - Matmuls, convolutions and windows --------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/emit/Windows.h"
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// A convolution of x [N, C, spatial..] with the filter w [O, I, spatial..].
struct Convolution {
  Val x, w;
  Shape strides, low, high, spread, dilations;
  int64_t groups = 1;
};

/// Returns the permutation from the layout `side` to [n, c, spatial..].
Shape orderOf(const ConvSide &side) {
  Shape order = {side.first, side.second};
  order.append(side.spatial);
  return order;
}

/// Reads the optional [low, high] pairs of the attribute `padding`.
bool readPads(Call &c, size_t count, Shape &low, Shape &high) {
  Shape pads = c.ints("padding", Shape(count * 2, 0));
  if (pads.size() == 1) // a splat
    pads.assign(count * 2, pads[0]);
  for (size_t d = 0; d < count && pads.size() == count * 2; ++d) {
    low.push_back(pads[2 * d]);
    high.push_back(pads[2 * d + 1]);
  }
  return low.size() == count;
}

bool isList(const Shape &values, size_t count, int64_t least) {
  return values.size() == count &&
         llvm::all_of(values, [&](int64_t v) { return v >= least; });
}

std::optional<Convolution> readConvolution(Call &c, const ConvDims &dims) {
  Emitter &e = c.emit;
  Convolution conv;
  Val x = c.in(0), w = c.in(1);
  size_t count = dims.input.spatial.size();
  Shape ones(count, 1);
  conv.strides = c.ints("window_strides", ones);
  conv.spread = c.ints("lhs_dilation", ones);
  conv.dilations = c.ints("rhs_dilation", ones);
  Shape reversal = c.ints("window_reversal", Shape(count, 0));
  bool fits = readPads(c, count, conv.low, conv.high) &&
              isList(conv.strides, count, 1) && isList(conv.spread, count, 1) &&
              isList(conv.dilations, count, 1) && isList(reversal, count, 0);
  if (e.failed())
    return std::nullopt;
  int64_t rank = static_cast<int64_t>(count) + 2;
  if (!fits || x.rank() != rank || w.rank() != rank || !x.isFloat() ||
      x.element() != w.element() || count == 0) {
    c.fail("the windows do not fit {0} and {1}; accepted: floats of one type, "
           "at least one spatial dimension",
           x, w);
    return std::nullopt;
  }
  conv.x = e.transpose(x, orderOf(dims.input));
  conv.w = e.transpose(w, orderOf(dims.filter));
  Shape offsets(rank, 0), steps(rank, 1);
  for (size_t d = 0; d < count; ++d)
    if (reversal[d]) {
      offsets[d + 2] = conv.w.dim(static_cast<int64_t>(d) + 2) - 1;
      steps[d + 2] = -1;
    }
  conv.w = e.slice(conv.w, offsets, conv.w.shape(), steps);
  return conv;
}

/// Replaces groups of samples by equivalent groups of channels.
bool readGroups(Call &c, Convolution &conv) {
  Emitter &e = c.emit;
  conv.groups = c.integer("feature_group_count", 1);
  int64_t batches = c.integer("batch_group_count", 1);
  if (conv.groups < 1 || batches < 1 || (conv.groups > 1 && batches > 1) ||
      conv.x.dim(0) % batches || conv.w.dim(0) % (batches * conv.groups) ||
      conv.x.dim(1) != conv.w.dim(1) * conv.groups) {
    c.fail(
        "feature_group_count={0} and batch_group_count={1} do not fit {2} and "
        "{3}",
        conv.groups, batches, conv.x, conv.w);
    return false;
  }
  if (batches == 1)
    return true;
  Shape split = {batches, conv.x.dim(0) / batches}, order = {1, 0};
  split.append(conv.x.shape().begin() + 1, conv.x.shape().end());
  for (int64_t d = 2; d < static_cast<int64_t>(split.size()); ++d)
    order.push_back(d);
  Shape merged = {split[1], split[0] * split[2]};
  merged.append(split.begin() + 3, split.end());
  conv.x = e.reshape(e.transpose(e.reshape(conv.x, split), order), merged);
  conv.groups = batches;
  return true;
}

/// Applies interior pads and negative pads to the input.
Val prepared(Emitter &e, Convolution &conv) {
  Shape zeros(conv.x.rank(), 0), low = zeros, high = zeros, interior = zeros;
  for (size_t d = 0; d < conv.spread.size(); ++d) {
    interior[d + 2] = conv.spread[d] - 1;
    // dpc.conv applies pads that are not negative.
    low[d + 2] = std::min<int64_t>(conv.low[d], 0);
    high[d + 2] = std::min<int64_t>(conv.high[d], 0);
    conv.low[d] = std::max<int64_t>(conv.low[d], 0);
    conv.high[d] = std::max<int64_t>(conv.high[d], 0);
  }
  return padded(e, conv.x, e.scalar(0, conv.x.element()), low, high, interior);
}

/// Converts a convolution with windows as large as images to the filter
/// gradient of a forward convolution. `w` is the gradient of the forward
/// convolution's result, with samples as input channels.
Val filterGradient(Emitter &e, Convolution conv) {
  Shape pads, shape = {conv.w.dim(0), conv.x.dim(0)};
  Shape behind;
  Shape sizes(conv.x.shape()), zeros(conv.x.rank(), 0), ones(conv.x.rank(), 1);
  for (size_t d = 0; d < conv.strides.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d) + 2;
    int64_t in = conv.x.dim(dim), out = conv.w.dim(dim);
    // The windows of the forward convolution read `reach` elements.
    int64_t taps =
        (in + conv.low[d] + conv.high[d] - conv.dilations[d] * (out - 1) - 1) /
            conv.strides[d] +
        1;
    int64_t reach =
        (out - 1) * conv.dilations[d] + (taps - 1) * conv.strides[d] + 1;
    int64_t rest = reach - in - conv.low[d];
    sizes[dim] = in + std::min<int64_t>(rest, 0);
    behind.push_back(std::max<int64_t>(rest, 0));
    shape.push_back(taps);
  }
  Val x = e.slice(conv.x, zeros, sizes, ones);
  pads = conv.low;
  pads.append(behind);
  x = e.swapDims(x, 0, 1);
  Val dy = e.swapDims(conv.w, 0, 1);
  auto type = RankedTensorType::get(shape, conv.x.element());
  Value dw = ConvGradFilterOp::create(e.builder, e.loc, type, e.materialize(dy),
                                      e.materialize(x), conv.dilations, pads,
                                      conv.strides);
  return e.swapDims(Val(dw), 0, 1);
}

Val convolution(Call &c) {
  Emitter &e = c.emit;
  RankedTensorType type = c.resultType();
  Attribute text;
  if (auto properties =
          dyn_cast_if_present<DictionaryAttr>(c.op->getPropertiesAsAttribute()))
    text = properties.get("dimension_numbers");
  auto dims = parseConv(opaqueText(text));
  if (!dims)
    return c.fail("has no dimension_numbers such as #stablehlo.conv<[b, 0, 1, "
                  "f]x[0, 1, i, o]->[b, 0, 1, f]>");
  auto conv = readConvolution(c, *dims);
  if (!conv || !readGroups(c, *conv) || !type)
    return {};
  conv->x = prepared(e, *conv);
  if (e.failed())
    return {};
  Windows windows;
  int64_t taps = 1, out = 1;
  for (size_t d = 0; d < conv->strides.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d) + 2;
    Window window{conv->x.dim(dim),  0,
                  conv->w.dim(dim),  conv->strides[d],
                  conv->low[d],      conv->high[d],
                  conv->dilations[d]};
    window.out = window.fitting();
    if (window.out < 1)
      return c.fail("no window fits {0}", conv->x);
    windows.dims.push_back(window);
    taps *= window.taps;
    out *= window.out;
  }
  Val result = conv->groups == 1 && taps > out
                   ? filterGradient(e, *conv)
                   : makeConv(e, conv->x, conv->w, windows);
  // Transpose [N, O, spatial..] to the result's layout.
  Shape places = orderOf(dims->output), order(places.size(), 0);
  for (auto [from, to] : llvm::enumerate(places))
    order[to] = static_cast<int64_t>(from);
  return e.transpose(result, order);
}

/// The windows of reduce_window and select_and_scatter on an operand that is
/// arranged as [N, C, spatial..]; dimensions without windows are N and C.
struct PoolWindows {
  Shape taps, strides, low, high, dilations;
  Shape order; ///< dimensions without windows, then others
  Shape merged;
  size_t plain = 0; ///< number of dimensions without windows

  Shape spatial(const Shape &all) const {
    Shape values;
    for (size_t i = plain; i < order.size(); ++i)
      values.push_back(all[order[i]]);
    return values;
  }
  Windows windows(ArrayRef<int64_t> shape) const {
    Windows result;
    for (size_t i = plain; i < order.size(); ++i) {
      int64_t d = order[i];
      Window window{shape[d], 0,       taps[d],     strides[d],
                    low[d],   high[d], dilations[d]};
      window.out = window.fitting();
      result.dims.push_back(window);
    }
    return result;
  }
};

std::optional<PoolWindows> readWindows(Call &c, const Val &x) {
  PoolWindows windows;
  size_t rank = static_cast<size_t>(x.rank());
  Shape ones(rank, 1);
  windows.taps = c.ints("window_dimensions");
  windows.strides = c.ints("window_strides", ones);
  windows.dilations = c.ints("window_dilations", ones);
  Shape spread = c.ints("base_dilations", ones);
  bool fits = readPads(c, rank, windows.low, windows.high) &&
              isList(windows.taps, rank, 1) && isList(spread, rank, 1) &&
              isList(windows.strides, rank, 1) &&
              isList(windows.dilations, rank, 1) &&
              isList(windows.low, rank, 0) && isList(windows.high, rank, 0);
  if (c.emit.failed())
    return std::nullopt;
  if (!fits || spread != ones) {
    c.fail("the windows do not fit {0}; accepted: pads that are not negative, "
           "base_dilations of 1",
           x);
    return std::nullopt;
  }
  auto hasWindow = [&](size_t d) {
    return windows.taps[d] > 1 || windows.strides[d] > 1 || windows.low[d] ||
           windows.high[d];
  };
  for (bool spatial : {false, true})
    for (size_t d = 0; d < rank; ++d)
      if (hasWindow(d) == spatial)
        windows.order.push_back(static_cast<int64_t>(d));
  for (size_t d = 0; d < rank; ++d)
    windows.plain += !hasWindow(d);
  return windows;
}

/// Arranges `x` as [N, C, spatial..]. The first dimension without a window is
/// N, which can be the batch; the others are merged into C.
Val arranged(Emitter &e, Val x, const PoolWindows &windows) {
  x = e.transpose(x, windows.order);
  if (!x)
    return {};
  Shape shape = {windows.plain ? x.dim(0) : 1, 1};
  for (size_t i = 1; i < windows.plain; ++i)
    shape[1] *= x.dim(static_cast<int64_t>(i));
  shape.append(x.shape().begin() + windows.plain, x.shape().end());
  return e.reshape(x, shape);
}

/// Undoes `arranged`; the result has the shape `shape`.
Val restored(Emitter &e, Val y, const PoolWindows &windows,
             ArrayRef<int64_t> shape) {
  Shape ordered, back(windows.order.size(), 0);
  for (auto [i, d] : llvm::enumerate(windows.order)) {
    ordered.push_back(shape[d]);
    back[d] = static_cast<int64_t>(i);
  }
  return e.transpose(e.reshape(y, ordered), back);
}

/// 1 for running sums from the start of a dimension, -1 from its end, else 0.
int runningDirection(const PoolWindows &windows, const Val &x) {
  if (windows.order.size() != windows.plain + 1)
    return 0;
  int64_t d = windows.order.back(), size = x.dim(d);
  if (windows.taps[d] != size || windows.strides[d] != 1 ||
      windows.dilations[d] != 1)
    return 0;
  if (windows.low[d] == size - 1 && windows.high[d] == 0)
    return 1;
  return windows.low[d] == 0 && windows.high[d] == size - 1 ? -1 : 0;
}

bool windowsFit(Call &c, const Windows &windows) {
  for (const Window &window : windows.dims)
    if (window.out < 1 || window.before > window.dilation * (window.taps - 1) ||
        window.behind > window.dilation * (window.taps - 1)) {
      c.fail("a window covers only padding, which is not supported");
      return false;
    }
  return true;
}

Val reduceWindow(Call &c, Val x, Val init) {
  Emitter &e = c.emit;
  if (e.failed())
    return {};
  auto kind = c.op->getNumRegions() == 1 && c.operands() == 2
                  ? combinerOf(c.op->getRegion(0))
                  : std::nullopt;
  bool isMin = kind == Combiner::min, isMax = kind == Combiner::max || isMin;
  auto windows = readWindows(c, x);
  if (!windows)
    return {};
  if ((!isMax && kind != Combiner::add) || !isNeutral(*kind, init) ||
      !x.isFloat())
    return c.fail("combines windows in an unsupported way; accepted: add from "
                  "0, maximum from -inf, minimum from inf, of floats");
  if (windows->plain == windows->order.size())
    return x;
  if (int direction = runningDirection(*windows, x); direction && !isMax) {
    int64_t d = windows->order.back();
    Val rows = e.swapDims(x, d, x.rank() - 1);
    return e.swapDims(e.cumsum(rows, /*exclusive=*/false, direction < 0), d,
                      x.rank() - 1);
  }
  Windows list = windows->windows(x.shape());
  if (!windowsFit(c, list))
    return {};
  Val images = arranged(e, x, *windows);
  if (isMin)
    images = e.neg(images);
  Val y = isMax ? Val(makeMaxPool(e, images, list).getY())
                : windowSums(e, images, list);
  if (isMin)
    y = e.neg(y);
  Shape shape(x.shape());
  for (auto [i, window] : llvm::enumerate(list.dims))
    shape[windows->order[windows->plain + i]] = window.out;
  return restored(e, y, *windows, shape);
}

/// The op is the gradient of max pooling.
Val selectAndScatter(Call &c, Val x, Val source, Val init) {
  Emitter &e = c.emit;
  if (e.failed())
    return {};
  auto windows = readWindows(c, x);
  if (!windows)
    return {};
  bool fits = c.op->getNumRegions() == 2 && x.isFloat() &&
              isNeutral(Combiner::add, init) &&
              combinerOf(c.op->getRegion(1)) == Combiner::add;
  // On ties, the region must select the first element.
  auto selects = [&](double a, double b) {
    auto result = c.runRegion(c.op->getRegion(0), {e.scalar(a, x.element()),
                                                   e.scalar(b, x.element())});
    return result && result->size() == 1 && result->front().constant &&
           result->front().constant->at(0).i != 0;
  };
  fits = fits && selects(2, 1) && selects(1, 1) && !selects(1, 2);
  if (e.failed())
    return {};
  Windows list = windows->windows(x.shape());
  if (!fits || windows->plain == windows->order.size())
    return c.fail("is accepted only as the gradient of a maximum over windows: "
                  "it selects by ge and scatters by add, from 0");
  if (!windowsFit(c, list))
    return {};
  Val images = arranged(e, x, *windows), dy = arranged(e, source, *windows);
  MaxPoolOp pool = makeMaxPool(e, images, list);
  if (dy.shape() != pool.getY().getType().getShape())
    return c.fail("source {0} does not fit the windows of {1}", source, x);
  Value dx = MaxPoolGradOp::create(
      e.builder, e.loc, images.type(), e.materialize(dy), pool.getIndex(),
      list.list(&Window::taps), list.list(&Window::stride), list.pads(),
      list.list(&Window::dilation));
  return restored(e, Val(dx), *windows, x.shape());
}

/// Einsum labels of one operand. `text` has one label per dimension; `rest` has
/// the labels that are neither batch nor contracted.
struct Labels {
  std::string text;
  std::string rest;
};

std::optional<Labels> labelsOf(Call &c, const Val &x, const Shape &batch,
                               const Shape &contracted, char firstFree) {
  Labels labels;
  labels.text.assign(static_cast<size_t>(x.rank()), '?');
  auto mark = [&](const Shape &dims, char first) {
    for (auto [i, dim] : llvm::enumerate(dims)) {
      if (dim < 0 || dim >= x.rank() || labels.text[dim] != '?')
        return false;
      labels.text[dim] = static_cast<char>(first + i);
    }
    return true;
  };
  if (!mark(batch, 'a') || !mark(contracted, 'k')) {
    c.fail("dimension numbers do not exist in {0}", x);
    return std::nullopt;
  }
  for (char &label : labels.text)
    if (label == '?') {
      label = firstFree++;
      labels.rest += label;
    }
  return labels;
}

Type sumType(Emitter &e, Type operands, Type result) {
  if (!isa<FloatType>(result))
    return e.f64();
  return operands.getIntOrFloatBitWidth() >= result.getIntOrFloatBitWidth()
             ? operands
             : result;
}

Val dotGeneral(Call &c, Val a, Val b) {
  RankedTensorType type = c.resultType();
  llvm::StringMap<Shape> dims = c.fields("dot_dimension_numbers");
  if (c.emit.failed())
    return {};
  Shape batchA = dims["lhs_batching_dimensions"],
        batchB = dims["rhs_batching_dimensions"],
        sumA = dims["lhs_contracting_dimensions"],
        sumB = dims["rhs_contracting_dimensions"];
  constexpr int64_t kMax = 10; // labels of one kind
  if (batchA.size() != batchB.size() || sumA.size() != sumB.size() ||
      a.rank() > kMax || b.rank() > kMax)
    return c.fail("dimension numbers do not fit {0} and {1}", a, b);
  auto left = labelsOf(c, a, batchA, sumA, 'A');
  auto right = labelsOf(c, b, batchB, sumB, 'N');
  if (!left || !right)
    return {};
  std::string result;
  for (size_t i = 0; i < batchA.size(); ++i)
    result += static_cast<char>('a' + i);
  result += left->rest + right->rest;
  Emitter &e = c.emit;
  Type element = type.getElementType();
  Type sum = sumType(e, a.element(), element);
  Val product = einsum(e, left->text + "," + right->text + "->" + result,
                       {e.convert(a, sum), e.convert(b, sum)});
  return e.convert(product, element);
}

Val dot(Call &c) {
  RankedTensorType type = c.resultType();
  Val a = c.in(0), b = c.in(1);
  if (c.emit.failed())
    return {};
  Type sum = sumType(c.emit, a.element(), type.getElementType());
  Val product =
      stackedMatmul(c.emit, c.emit.convert(a, sum), c.emit.convert(b, sum));
  return c.emit.convert(product, type.getElementType());
}

} // namespace

void addSpatial(OperatorTable &table) {
  table["stablehlo.convolution"] = convolution;
  table["stablehlo.reduce_window"] = reduceWindow;
  table["stablehlo.select_and_scatter"] = selectAndScatter;
  table["stablehlo.dot_general"] = dotGeneral;
  table["stablehlo.dot"] = dot;
}

} // namespace dpc::frontend::hlo
