//===- Sampling.cpp - Samples of images at computed positions -------------===//
#include "frontends/emit/Indexing.h"
#include "frontends/torch/Call.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// The numbers that ATen uses.
enum Interpolation : int64_t { Bilinear = 0, Nearest = 1 };
enum Padding : int64_t { Zeros = 0, Border = 1 };

/// Converts coordinates from -1 to 1 to positions of `size` pixels.
Val positionOf(Call &c, Val coordinate, int64_t size) {
  Emitter &e = c.emit;
  auto pixels = static_cast<double>(size);
  Val shifted = e.add(coordinate, 1);
  Val place = c.flag("align_corners") ? e.mul(shifted, (pixels - 1) / 2)
                                      : e.sub(e.mul(shifted, pixels / 2), 0.5);
  return c.integer("padding_mode") == Border ? e.clamp(place, 0, pixels - 1)
                                             : place;
}

/// An image [N, C, H, W] as [N, H W, C], and how to pick its pixels.
struct Pixels {
  Val table;
  int64_t high, wide;

  /// Returns the pixels [N, K, C] at whole positions [N, K]; 0 outside.
  Val at(Emitter &e, Val row, Val column) const {
    Val inside = e.logicalAnd(e.inRange(row, high), e.inRange(column, wide));
    Val place =
        e.add(e.mul(e.convert(row, e.i64()), wide), e.convert(column, e.i64()));
    // pickRows gives 0 for an invalid index.
    return pickRows(e, table, e.select(inside, place, -1));
  }
};

/// Distances 1 - |x - corner| weigh the four pixels around a position.
Val blended(Emitter &e, const Pixels &pixels, Val y, Val x) {
  Val top = e.floor(y), left = e.floor(x), sum;
  for (int i = 0; i < 4; ++i) {
    Val row = i / 2 ? e.add(top, 1) : top;
    Val column = i % 2 ? e.add(left, 1) : left;
    Val high = i / 2 ? e.sub(y, top) : e.sub(row, e.sub(y, 1));
    Val wide = i % 2 ? e.sub(x, left) : e.sub(column, e.sub(x, 1));
    Val weight = e.mul(high, wide);
    if (!weight)
      return {};
    Val part = e.mul(pixels.at(e, row, column),
                     e.reshape(weight, {weight.dim(0), weight.dim(1), 1}));
    sum = i ? e.add(sum, part) : part;
  }
  return sum;
}

/// image [N, C, H, W] at grid [N, rows, columns, (x, y)].
Val gridSampler(Call &c, Val image, Val grid) {
  Emitter &e = c.emit;
  int64_t mode = c.integer("interpolation_mode");
  int64_t padding = c.integer("padding_mode");
  if (image.rank() != 4 || grid.rank() != 4 || grid.dim(3) != 2 ||
      image.dim(0) != grid.dim(0))
    return c.fail("an image {0} and a grid {1} are not supported; accepted: "
                  "[N, C, H, W] and [N, rows, columns, 2]",
                  image, grid);
  if ((mode != Bilinear && mode != Nearest) ||
      (padding != Zeros && padding != Border))
    return c.fail("this mode is not supported; accepted: mode='bilinear' and "
                  "'nearest', padding_mode='zeros' and 'border'");
  int64_t n = image.dim(0), channels = image.dim(1);
  Pixels pixels{{}, image.dim(2), image.dim(3)};
  int64_t area = pixels.high * pixels.wide, count = grid.dim(1) * grid.dim(2);
  pixels.table = e.swapDims(e.reshape(image, {n, channels, area}), 1, 2);
  auto coordinate = [&](int64_t i, int64_t size) {
    Val part = e.reshape(e.sliceDim(grid, 3, i, 1), {n, count});
    return positionOf(c, part, size);
  };
  Val x = coordinate(0, pixels.wide), y = coordinate(1, pixels.high);
  Val picked = mode == Nearest ? pixels.at(e, e.round(y), e.round(x))
                               : blended(e, pixels, y, x);
  return e.reshape(e.swapDims(picked, 1, 2),
                   {n, channels, grid.dim(1), grid.dim(2)});
}

} // namespace

void addSampling(OperatorTable &t) {
  for (const char *name : {"grid_sampler.default", "grid_sampler_2d.default"})
    t[name] = {"input, grid, interpolation_mode, padding_mode, align_corners",
               gridSampler};
}

} // namespace dpc::frontend::pt2
