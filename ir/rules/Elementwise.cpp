//===- Elementwise.cpp - Sharding rules of elementwise ops and sources ----===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

static ShardingRule sourceRule(Value result, bool whole) {
  ShardingRule rule;
  SmallVector<int64_t> dims;
  for (int64_t size : shapeOf(result))
    dims.push_back(rule.addDim(size, whole));
  rule.results.push_back(oneToOne(dims));
  return rule;
}

ShardingRule ConstantOp::getShardingRule() {
  // Only a splat looks the same on every rank.
  return sourceRule(getResult(), /*whole=*/!isa<SplatElementsAttr>(getValue()));
}

ShardingRule IotaOp::getShardingRule() {
  return sourceRule(getResult(), /*whole=*/false);
}

ShardingRule UnaryOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  if (getKind() == UnaryKind::neg)
    rule.linear = {{0}};
  return rule;
}

ShardingRule BinaryOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  switch (getKind()) {
  case BinaryKind::add:
  case BinaryKind::sub:
    rule.linear = {{0, 1}};
    break;
  case BinaryKind::mul:
    rule.linear = {{0}, {1}};
    break;
  case BinaryKind::div:
    // Integer division truncates and so does not pass sums on.
    if (isa<FloatType>(getElementTypeOrSelf(getA())))
      rule.linear = {{0}};
    break;
  default:
    break;
  }
  return rule;
}

ShardingRule CompareOp::getShardingRule() { return elementwiseRule(*this); }

ShardingRule SelectOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  rule.linear = {{1, 2}};
  return rule;
}

ShardingRule ConvertOp::getShardingRule() {
  ShardingRule rule = elementwiseRule(*this);
  if (isa<FloatType>(getElementTypeOrSelf(getX())) &&
      isa<FloatType>(getElementTypeOrSelf(getResult())))
    rule.linear = {{0}};
  return rule;
}

/// p, states and gradient are split alike, the three scalars not at all.
static ShardingRule optimizerRule(Operation *op, Value param,
                                  int64_t tensorOperands) {
  ShardingRule rule;
  SmallVector<int64_t> dims;
  for (int64_t size : shapeOf(param))
    dims.push_back(rule.addDim(size));
  for (int64_t i = 0, e = op->getNumOperands(); i < e; ++i)
    rule.operands.push_back(i < tensorOperands ? oneToOne(dims) : TensorMap{});
  rule.results.assign(op->getNumResults(), oneToOne(dims));
  return rule;
}

ShardingRule AdamWOp::getShardingRule() {
  return optimizerRule(*this, getP(), 4);
}

ShardingRule SgdOp::getShardingRule() {
  return optimizerRule(*this, getP(), 3);
}

ShardingRule GlobalNormOp::getShardingRule() {
  ShardingRule rule;
  for (Value grad : getGrads()) {
    SmallVector<int64_t> dims;
    for (int64_t size : shapeOf(grad))
      dims.push_back(rule.addDim(size));
    rule.operands.push_back(oneToOne(dims));
  }
  rule.results.push_back({});
  rule.combines = true;
  return rule;
}
