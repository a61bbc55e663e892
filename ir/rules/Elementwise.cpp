//===- Elementwise.cpp - Sharding rules of elementwise ops and sources ----===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule;
  // Only for a splat do all ranks have the same shard.
  bool whole = !isa<SplatElementsAttr>(getValue());
  return rule.with({}, {oneToOne(rule.addDims(shapeOf(getResult()), whole))});
}

ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule;
  return rule.with({}, {oneToOne(rule.addDims(shapeOf(getResult())))});
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
    // Integer division truncates, so it is not linear.
    if (isFloatTensor(getA().getType()))
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
  if (isFloatTensor(getX().getType()) && isFloatTensor(getType()))
    rule.linear = {{0}};
  return rule;
}

/// Returns the rule of an optimizer's update. The first `tensorOperands`
/// operands (the parameter, the states and the gradient) have the same
/// sharding; the others are scalars.
static ShardingRule optimizerRule(Operation *op, unsigned tensorOperands) {
  ShardingRule rule = elementwiseRule(op);
  for (TensorMap &scalar :
       llvm::MutableArrayRef(rule.operands).drop_front(tensorOperands))
    scalar.clear();
  return rule;
}

ShardingRule AdamWOp::getShardingRule() { return optimizerRule(*this, 4); }
ShardingRule SgdOp::getShardingRule() { return optimizerRule(*this, 3); }

ShardingRule GlobalNormOp::getShardingRule() {
  ShardingRule rule;
  for (Value grad : getGrads())
    rule.operands.push_back(oneToOne(rule.addDims(shapeOf(grad))));
  rule.results.push_back({});
  rule.combines = true;
  return rule;
}
