//===- Spatial.cpp - Sharding rules of conv, pool and batch norm ----------===//
//
// Batch, groups and channels may be split. A spatial dimension may be split
// only if no window crosses the edge of a shard, as in 1x1 convolutions.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "ir/Window.h"

using namespace mlir;
using namespace dpc;

namespace {

/// The dimensions of y[n, g k, out] = sum x[n, g c, in] * w[g k, c, taps] with
/// g groups, and the maps of x, w and y.
struct ConvDims {
  TensorMap x, w, y;

  template <typename Op>
  ConvDims(ShardingRule &rule, Op op, ArrayRef<int64_t> xs,
           ArrayRef<int64_t> ws, ArrayRef<int64_t> ys) {
    int64_t groups = ws[1] ? xs[1] / ws[1] : 1;
    int64_t n = rule.addDim(xs[0]);
    DimMap inputs, outputs;
    if (groups > 1) {
      inputs.push_back(rule.addDim(groups));
      outputs = inputs;
    }
    int64_t c = rule.addDim(ws[1]);
    inputs.push_back(c);
    outputs.push_back(rule.addDim(groups ? ws[0] / groups : ws[0]));
    x = {{n}, inputs};
    w = {outputs, {c}};
    y = {{n}, outputs};
    for (const Window &window :
         windowsOf(xs, ys, ws.drop_front(2), op.getStrides(), op.getPads(),
                   op.getDilations())) {
      bool whole = !window.isPointwise();
      int64_t in = rule.addDim(window.in, whole);
      x.push_back({in});
      y.push_back({whole ? rule.addDim(window.out, true) : in});
      w.push_back({rule.addDim(window.taps, true)});
    }
  }
};

} // namespace

ShardingRule ConvOp::getShardingRule() {
  ShardingRule rule;
  ConvDims dims(rule, *this, shapeOf(getX()), shapeOf(getW()),
                shapeOf(getResult()));
  return rule.with({dims.x, dims.w}, {dims.y}, {{0}, {1}});
}

ShardingRule ConvGradInputOp::getShardingRule() {
  ShardingRule rule;
  ConvDims dims(rule, *this, shapeOf(getDx()), shapeOf(getW()),
                shapeOf(getDy()));
  return rule.with({dims.y, dims.w}, {dims.x}, {{0}, {1}});
}

ShardingRule ConvGradFilterOp::getShardingRule() {
  ShardingRule rule;
  ConvDims dims(rule, *this, shapeOf(getX()), shapeOf(getDw()),
                shapeOf(getDy()));
  return rule.with({dims.y, dims.x}, {dims.w}, {{0}, {1}});
}

static std::pair<TensorMap, TensorMap>
poolMaps(ShardingRule &rule, ArrayRef<int64_t> in, ArrayRef<int64_t> out) {
  SmallVector<int64_t> image = rule.addDims(in.take_front(2)), windows(image);
  for (auto [from, to] : llvm::zip(in.drop_front(2), out.drop_front(2))) {
    image.push_back(rule.addDim(from, /*whole=*/true));
    windows.push_back(rule.addDim(to, /*whole=*/true));
  }
  return {oneToOne(image), oneToOne(windows)};
}

ShardingRule MaxPoolOp::getShardingRule() {
  ShardingRule rule;
  auto [image, windows] = poolMaps(rule, shapeOf(getX()), shapeOf(getY()));
  return rule.with({image}, {windows, windows});
}

ShardingRule MaxPoolGradOp::getShardingRule() {
  ShardingRule rule;
  auto [image, windows] = poolMaps(rule, shapeOf(getDx()), shapeOf(getDy()));
  return rule.with({windows, windows}, {image}, {{0}});
}

/// Only channels may be split.
static std::pair<TensorMap, TensorMap> batchNormMaps(ShardingRule &rule,
                                                     ArrayRef<int64_t> shape) {
  SmallVector<int64_t> all;
  for (auto [d, size] : llvm::enumerate(shape))
    all.push_back(rule.addDim(size, /*whole=*/d != 1));
  return {oneToOne(all), oneToOne({all[1]})};
}

ShardingRule BatchNormOp::getShardingRule() {
  ShardingRule rule;
  auto [all, channel] = batchNormMaps(rule, shapeOf(getX()));
  return rule.with({all, channel, channel}, {all, channel, channel});
}

ShardingRule BatchNormGradOp::getShardingRule() {
  ShardingRule rule;
  auto [all, channel] = batchNormMaps(rule, shapeOf(getX()));
  return rule.with({all, channel, channel, all, channel},
                   {all, channel, channel});
}
