//===- Rows.cpp - Sharding rules of ops that work row by row --------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

static SmallVector<int64_t> addRowDims(ShardingRule &rule, Value x) {
  SmallVector<int64_t> dims;
  ArrayRef<int64_t> shape = shapeOf(x);
  for (auto [i, size] : llvm::enumerate(shape))
    dims.push_back(rule.addDim(size, /*whole=*/i + 1 == shape.size()));
  return dims;
}

ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule;
  TensorMap map = oneToOne(addRowDims(rule, getX()));
  return rule.with({map}, {map});
}

ShardingRule SoftmaxGradOp::getShardingRule() {
  ShardingRule rule;
  TensorMap map = oneToOne(addRowDims(rule, getY()));
  return rule.with({map, map}, {map}, {{1}});
}

ShardingRule TopKOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> dims = addRowDims(rule, getX()), picked(dims);
  picked.back() = rule.addDim(shapeOf(getValues()).back(), /*whole=*/true);
  return rule.with({oneToOne(dims)}, {oneToOne(picked), oneToOne(picked)});
}

ShardingRule CumSumOp::getShardingRule() {
  ShardingRule rule;
  TensorMap map = oneToOne(addRowDims(rule, getX()));
  return rule.with({map}, {map}, {{0}});
}

namespace {

struct NormMaps {
  TensorMap x, column, stats;

  NormMaps(ShardingRule &rule, Value value) {
    SmallVector<int64_t> dims = addRowDims(rule, value);
    x = oneToOne(dims);
    column = {x.back()};
    stats = TensorMap(llvm::drop_end(x));
  }
};

} // namespace

ShardingRule NormOp::getShardingRule() {
  ShardingRule rule;
  NormMaps maps(rule, getX());
  rule.with({maps.x}, {maps.x, maps.stats, maps.stats});
  rule.operands.append(getNumOperands() - 1, maps.column);
  return rule;
}

ShardingRule NormGradOp::getShardingRule() {
  ShardingRule rule;
  NormMaps maps(rule, getX());
  rule.with({maps.x, maps.stats, maps.stats, maps.x},
            {maps.x, maps.column, maps.column}, {{3}});
  rule.operands.append(getNumOperands() - 4, maps.column);
  return rule;
}

ShardingRule RopeOp::getShardingRule() {
  ShardingRule rule;
  TensorMap x = oneToOne(addRowDims(rule, getX()));
  TensorMap table(ArrayRef<DimMap>(x).take_back(2));
  return rule.with({x, table, table}, {x}, {{0}});
}

/// Returns the maps of the logits and of one value per row. If `whole`, the
/// columns cannot be split.
static std::pair<TensorMap, TensorMap> logitMaps(ShardingRule &rule,
                                                 Value logits, bool whole) {
  int64_t rows = rule.addDim(shapeOf(logits)[0]);
  int64_t columns = rule.addDim(shapeOf(logits)[1], whole);
  return {oneToOne({rows, columns}), oneToOne({rows})};
}

ShardingRule CrossEntropyOp::getShardingRule() {
  ShardingRule rule;
  auto [logits, row] = logitMaps(rule, getLogits(), /*whole=*/true);
  return rule.with({logits, row}, {row, row});
}

ShardingRule CrossEntropySumsOp::getShardingRule() {
  ShardingRule rule;
  auto [logits, row] = logitMaps(rule, getLogits(), /*whole=*/false);
  return rule.with({logits, row, row}, {row, row});
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  ShardingRule rule;
  auto [logits, row] = logitMaps(rule, getLogits(), /*whole=*/false);
  return rule.with({logits, row, row, row}, {logits}, {{3}});
}
