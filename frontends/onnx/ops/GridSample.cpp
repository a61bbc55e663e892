//===- GridSample.cpp - Sampling of images at grid points -----------------===//
//
// Every grid point is the weighted sum of the nearest 1, 2 or 4 positions in
// each dimension. Positions are rows of a table of pixels.
//
//===----------------------------------------------------------------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

enum class Padding { Zeros, Border, Reflection };

/// One position along a dimension that contributes to each point.
struct Tap {
  Val at;     ///< a valid integer position, [N, points]
  Val weight; ///< [N, points]
};

class Sampler {
public:
  Sampler(NodeContext &c, Val x, Val grid)
      : c(c), e(c.emit), x(x), grid(grid) {}

  void run() {
    if (!readMode())
      return;
    int64_t dims = x.rank() - 2;
    points = numElements(grid.shape()) / (x.dim(0) * dims);
    std::vector<std::vector<Tap>> taps;
    taps.reserve(dims);
    for (int64_t d = 0; d < dims; ++d)
      taps.push_back(tapsOf(d));
    if (e.failed())
      return;
    Val sum = weighted(taps, 0, Val(), Val());
    if (!sum)
      return;
    // [N, points, C] -> [N, C, points..]
    Shape shape = {x.dim(0), x.dim(1)};
    shape.append(grid.shape().begin() + 1, grid.shape().end() - 1);
    c.out(e.reshape(e.transpose(sum, {0, 2, 1}), shape));
  }

private:
  bool readMode() {
    mode = c.stringAttr("mode", c.opset() < 20 ? "bilinear" : "linear");
    if (mode == "bilinear")
      mode = "linear";
    if (mode == "bicubic")
      mode = "cubic";
    llvm::StringRef name = c.stringAttr("padding_mode", "zeros");
    padding = name == "border"       ? Padding::Border
              : name == "reflection" ? Padding::Reflection
                                     : Padding::Zeros;
    corners = c.intAttr("align_corners", 0) != 0;
    if (mode != "nearest" && mode != "linear" && mode != "cubic")
      c.fail("mode '{0}' is not known; accepted: nearest, linear, cubic", mode);
    if (x.rank() < 3 || grid.rank() != x.rank() || grid.dim(0) != x.dim(0) ||
        grid.shape().back() != x.rank() - 2)
      c.fail("grid {0} does not fit {1}", grid, x);
    return !e.failed();
  }

  Val add(Val a, double b) { return e.add(a, b); }
  Val mul(Val a, double b) { return e.mul(a, b); }
  Val mul(Val a, Val b) { return e.mul(a, b); }
  Val less(double a, Val b) { return b ? e.sub(a, b) : Val(); }

  /// Reflects positions beyond the ends, as between two mirrors.
  Val reflected(Val v, double low, double high) {
    double period = 2 * (high - low);
    Val from = e.abs(add(v, -low));
    if (period == 0 || !from)
      return from ? e.splat(low, v.element(), v.shape()) : Val();
    from = e.rem(from, period);
    return add(e.minimum(from, less(period, from)), low);
  }

  Val clamped(Val v, double high) { return e.minimum(e.maximum(v, 0.0), high); }

  /// Maps positions in dimension d into its range, according to the padding
  /// mode. Zeros outside are handled by the weights.
  Val inside(Val v, int64_t d) {
    auto size = static_cast<double>(x.dim(d + 2));
    double edge = corners ? 0 : 0.5;
    if (padding == Padding::Reflection)
      v = reflected(v, -edge, size - 1 + edge);
    return clamped(v, size - 1);
  }

  /// The coordinates of the points in dimension d, [N, points].
  Val placesOf(int64_t d) {
    int64_t last = grid.rank() - 1;
    Val g = e.reshape(e.sliceDim(grid, last, x.rank() - 3 - d, 1),
                      {x.dim(0), points});
    auto size = static_cast<double>(x.dim(d + 2));
    g = e.convert(g, x.element());
    return corners ? mul(add(g, 1), (size - 1) / 2)
                   : mul(add(mul(add(g, 1), size), -1), 0.5);
  }

  Tap tap(Val at, Val weight, int64_t d) {
    if (padding == Padding::Zeros && at && weight) {
      auto size = static_cast<double>(x.dim(d + 2));
      Val in = e.logicalAnd(e.ge(at, 0), e.lt(at, size));
      weight = e.select(in, weight, 0);
    }
    Val place = padding == Padding::Zeros
                    ? clamped(at, static_cast<double>(x.dim(d + 2) - 1))
                    : inside(at, d);
    return {place, weight};
  }

  std::vector<Tap> tapsOf(int64_t d) {
    Val v = placesOf(d);
    if (mode == "nearest")
      v = e.round(v);
    auto size = static_cast<double>(x.dim(d + 2));
    double edge = corners ? 0 : 0.5;
    if (padding == Padding::Border)
      v = clamped(v, size - 1);
    else if (padding == Padding::Reflection)
      v = reflected(v, -edge, size - 1 + edge);
    if (!v)
      return {};
    Val one = e.splat(1, v.element(), v.shape());
    if (mode == "nearest")
      return {tap(v, one, d)};
    Val low = e.floor(v);
    Val t = e.sub(v, low);
    if (mode == "linear")
      return {tap(low, less(1, t), d), tap(add(low, 1), t, d)};
    return {tap(add(low, -1), far(add(t, 1)), d), tap(low, near(t), d),
            tap(add(low, 1), near(less(1, t)), d),
            tap(add(low, 2), far(less(2, t)), d)};
  }

  // Keys' cubic convolution, a = -0.75.
  static constexpr double kA = -0.75;
  Val near(Val t) { // |t| <= 1
    Val inner = add(mul(t, kA + 2), -(kA + 3));
    return add(mul(mul(inner, t), t), 1);
  }
  Val far(Val t) { // 1 <= |t| <= 2
    Val inner = add(mul(t, kA), -5 * kA);
    inner = add(mul(inner, t), 8 * kA);
    return add(mul(inner, t), -4 * kA);
  }

  /// The sum over all taps of dimensions d.. of pixels times weights. `row` and
  /// `weight` accumulate the previous dimensions.
  Val weighted(const std::vector<std::vector<Tap>> &taps, size_t d, Val row,
               Val weight) {
    if (d == taps.size())
      return pixels(row, weight);
    Val sum;
    for (const Tap &one : taps[d]) {
      Val at = e.convert(one.at, e.i64());
      Val next = row ? e.add(mul(row, x.dim(d + 2)), at) : at;
      Val part = weighted(taps, d + 1, next,
                          weight ? mul(weight, one.weight) : one.weight);
      sum = sum ? e.add(sum, part) : part;
    }
    return sum;
  }

  Val pixels(Val row, Val weight) {
    int64_t batch = x.dim(0), channels = x.dim(1);
    int64_t size = numElements(x.shape().drop_front(2));
    Shape perm = {0};
    for (int64_t d = 2; d < x.rank(); ++d)
      perm.push_back(d);
    perm.push_back(1);
    Val table = e.reshape(e.transpose(x, perm), {batch * size, channels});
    row = e.add(row, mul(e.iota({batch, points}, 0), size));
    return mul(e.embedding(table, row), e.reshape(weight, {batch, points, 1}));
  }

  NodeContext &c;
  Emitter &e;
  Val x, grid;
  llvm::StringRef mode;
  Padding padding = Padding::Zeros;
  bool corners = false;
  int64_t points = 0;
};

Val gridSample(NodeContext &c, Val x, Val grid) {
  if (!x.isFloat())
    return c.fail("input {0} is not of floats", x);
  Sampler(c, x, grid).run();
  return {};
}

} // namespace

void addGridSampleOps(OpTable &table) { table["GridSample"] = gridSample; }

} // namespace dpc::frontend
