//===- Contraction.cpp - Sharding rules of matmul, reduce, attention ------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> operand, result;
  for (auto [i, size] : llvm::enumerate(shapeOf(getX()))) {
    int64_t dim = rule.addDim(size, /*whole=*/false, getKind());
    operand.push_back(dim);
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(i)))
      result.push_back(dim);
  }
  rule.operands.push_back(oneToOne(operand));
  rule.results.push_back(oneToOne(result));
  if (getKind() == ReduceKind::sum)
    rule.linear = {{0}};
  return rule;
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule;
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  size_t rank = a.size();
  SmallVector<int64_t> batch;
  for (int64_t size : a.drop_back(2))
    batch.push_back(rule.addDim(size));
  int64_t m = rule.addDim(a[getTa() ? rank - 1 : rank - 2]);
  int64_t k = rule.addDim(a[getTa() ? rank - 2 : rank - 1]);
  int64_t n = rule.addDim(b[getTb() ? b.size() - 2 : b.size() - 1]);
  SmallVector<int64_t> aMap(batch), bMap, out(batch);
  if (b.size() == rank)
    bMap = batch;
  aMap.append(getTa() ? std::initializer_list<int64_t>{k, m}
                      : std::initializer_list<int64_t>{m, k});
  bMap.append(getTb() ? std::initializer_list<int64_t>{n, k}
                      : std::initializer_list<int64_t>{k, n});
  out.append({m, n});
  rule.operands = {oneToOne(aMap), oneToOne(bMap)};
  rule.results = {oneToOne(out)};
  rule.linear = {{0}, {1}};
  return rule;
}

namespace {

/// Iteration dimensions shared by attention and its gradient: query heads are
/// `groups` key heads times `perGroup`.
struct AttentionDims {
  int64_t batch, groups, perGroup, queries, keys, depth, valueDepth;
  TensorMap q, k, v, out, rows;

  AttentionDims(ShardingRule &rule, Operation *op, bool causal) {
    Value qv = op->getOperand(0), kv = op->getOperand(1),
          vv = op->getOperand(2);
    bool ring = op->hasAttr(attr::kRing);
    ArrayRef<int64_t> qs = shapeOf(qv), ks = shapeOf(kv), vs = shapeOf(vv);
    batch = rule.addDim(qs[0]);
    groups = rule.addDim(ks[1]);
    perGroup = rule.addDim(ks[1] ? qs[1] / ks[1] : 1);
    // A causal mask depends on the query's position. Round a ring, positions
    // of queries and keys are split alike.
    queries = rule.addDim(qs[2], /*whole=*/causal && !ring);
    keys = ring ? queries : rule.addDim(ks[2], /*whole=*/true);
    depth = rule.addDim(qs[3], /*whole=*/true);
    valueDepth = rule.addDim(vs[3], /*whole=*/true);
    DimMap heads = {groups, perGroup};
    q = {{batch}, heads, {queries}, {depth}};
    k = {{batch}, {groups}, {keys}, {depth}};
    v = {{batch}, {groups}, {keys}, {valueDepth}};
    out = {{batch}, heads, {queries}, {valueDepth}};
    rows = {{batch}, heads, {queries}};
  }

  /// A mask's dimensions of size 1 are repeated. Every rank of a ring needs its
  /// rows for all keys.
  TensorMap mask(ShardingRule &rule, Value value) const {
    int64_t columns =
        keys == queries ? rule.addDim(shapeOf(value)[3], /*whole=*/true) : keys;
    TensorMap full = {{batch}, {groups, perGroup}, {queries}, {columns}};
    for (auto [i, size] : llvm::enumerate(shapeOf(value)))
      if (size == 1)
        full[i] = {};
    return full;
  }
};

} // namespace

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  AttentionDims dims(rule, *this, getCausal());
  rule.operands = {dims.q, dims.k, dims.v};
  if (getMask())
    rule.operands.push_back(dims.mask(rule, getMask()));
  rule.results = {dims.out, dims.rows};
  return rule;
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  AttentionDims dims(rule, *this, getCausal());
  rule.operands = {dims.q, dims.k, dims.v, dims.out, dims.rows, dims.out};
  if (getMask())
    rule.operands.push_back(dims.mask(rule, getMask()));
  rule.results = {dims.q, dims.k, dims.v};
  rule.linear = {{5}};
  return rule;
}

ShardingRule EmbeddingOp::getShardingRule() {
  ShardingRule rule;
  int64_t rows = rule.addDim(shapeOf(getTable())[0]);
  int64_t columns = rule.addDim(shapeOf(getTable())[1]);
  SmallVector<int64_t> ids;
  for (int64_t size : shapeOf(getIds()))
    ids.push_back(rule.addDim(size));
  SmallVector<int64_t> out(ids);
  out.push_back(columns);
  rule.operands = {oneToOne({rows, columns}), oneToOne(ids)};
  rule.results = {oneToOne(out)};
  rule.linear = {{0}};
  return rule;
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  ShardingRule rule;
  int64_t rows = rule.addDim(shapeOf(getResult())[0]);
  int64_t columns = rule.addDim(shapeOf(getResult())[1]);
  SmallVector<int64_t> ids;
  for (int64_t size : shapeOf(getIds()))
    ids.push_back(rule.addDim(size));
  SmallVector<int64_t> dy(ids);
  dy.push_back(columns);
  rule.operands = {oneToOne(ids), oneToOne(dy)};
  rule.results = {oneToOne({rows, columns})};
  rule.linear = {{1}};
  return rule;
}
