//===- Rows.cpp - Sharding rules of ops that work row by row --------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

/// Adds one dimension per entry of x's shape, the last one whole.
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
  rule.operands = {map};
  rule.results = {map};
  return rule;
}

ShardingRule SoftmaxGradOp::getShardingRule() {
  ShardingRule rule;
  TensorMap map = oneToOne(addRowDims(rule, getY()));
  rule.operands = {map, map};
  rule.results = {map};
  rule.linear = {{1}};
  return rule;
}

ShardingRule TopKOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> dims = addRowDims(rule, getX());
  rule.operands = {oneToOne(dims)};
  dims.back() = rule.addDim(shapeOf(getValues()).back(), /*whole=*/true);
  rule.results = {oneToOne(dims), oneToOne(dims)};
  return rule;
}

ShardingRule CumSumOp::getShardingRule() {
  ShardingRule rule;
  TensorMap map = oneToOne(addRowDims(rule, getX()));
  rule.operands = {map};
  rule.results = {map};
  rule.linear = {{0}};
  return rule;
}

ShardingRule NormOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> dims = addRowDims(rule, getX());
  TensorMap x = oneToOne(dims), row = oneToOne({dims.back()});
  TensorMap stats = oneToOne(ArrayRef<int64_t>(dims).drop_back());
  rule.operands = {x};
  if (getScale())
    rule.operands.push_back(row);
  if (getBias())
    rule.operands.push_back(row);
  rule.results = {x, stats, stats};
  return rule;
}

ShardingRule NormGradOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> dims = addRowDims(rule, getX());
  TensorMap x = oneToOne(dims), row = oneToOne({dims.back()});
  TensorMap stats = oneToOne(ArrayRef<int64_t>(dims).drop_back());
  rule.operands = {x, stats, stats, x};
  if (getScale())
    rule.operands.push_back(row);
  rule.results = {x, row, row};
  rule.linear = {{3}};
  return rule;
}

ShardingRule RopeOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> dims = addRowDims(rule, getX());
  TensorMap x = oneToOne(dims);
  TensorMap table = oneToOne(ArrayRef<int64_t>(dims).take_back(2));
  rule.operands = {x, table, table};
  rule.results = {x};
  rule.linear = {{0}};
  return rule;
}

/// Rows and columns of logits; the columns are whole where `whole`.
static std::pair<int64_t, int64_t> addLogitDims(ShardingRule &rule,
                                                Value logits, bool whole) {
  int64_t rows = rule.addDim(shapeOf(logits)[0]);
  int64_t columns = rule.addDim(shapeOf(logits)[1], whole);
  return {rows, columns};
}

ShardingRule CrossEntropyOp::getShardingRule() {
  ShardingRule rule;
  auto [rows, columns] = addLogitDims(rule, getLogits(), /*whole=*/true);
  TensorMap row = oneToOne({rows});
  rule.operands = {oneToOne({rows, columns}), row};
  rule.results = {row, row};
  return rule;
}

ShardingRule CrossEntropySumsOp::getShardingRule() {
  ShardingRule rule;
  auto [rows, columns] = addLogitDims(rule, getLogits(), /*whole=*/false);
  TensorMap row = oneToOne({rows});
  rule.operands = {oneToOne({rows, columns}), row, row};
  rule.results = {row, row};
  return rule;
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  ShardingRule rule;
  auto [rows, columns] = addLogitDims(rule, getLogits(), /*whole=*/false);
  TensorMap row = oneToOne({rows}), all = oneToOne({rows, columns});
  rule.operands = {all, row, row, row};
  rule.results = {all};
  rule.linear = {{3}};
  return rule;
}
