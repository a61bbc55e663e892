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
  if (getKind() == ReduceKind::sum)
    return rule.with({oneToOne(operand)}, {oneToOne(result)}, {{0}});
  return rule.with({oneToOne(operand)}, {oneToOne(result)});
}

ShardingRule MatmulOp::getShardingRule() {
  ShardingRule rule;
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  size_t rank = a.size();
  SmallVector<int64_t> batch = rule.addDims(a.drop_back(2));
  int64_t m = rule.addDim(a[getTa() ? rank - 1 : rank - 2]);
  int64_t k = rule.addDim(a[getTa() ? rank - 2 : rank - 1]);
  int64_t n = rule.addDim(b[getTb() ? b.size() - 2 : b.size() - 1]);
  SmallVector<int64_t> aMap(batch), bMap, out(batch);
  if (b.size() == rank)
    bMap = batch;
  aMap.append(getTa() ? SmallVector<int64_t>{k, m}
                      : SmallVector<int64_t>{m, k});
  bMap.append(getTb() ? SmallVector<int64_t>{n, k}
                      : SmallVector<int64_t>{k, n});
  out.append({m, n});
  return rule.with({oneToOne(aMap), oneToOne(bMap)}, {oneToOne(out)},
                   {{0}, {1}});
}

namespace {

/// The iteration dimensions of attention and its gradient. There are `groups`
/// key heads, and `perGroup` query heads for each key head.
struct AttentionDims {
  int64_t batch, groups, perGroup, queries, keys, depth, valueDepth;
  TensorMap q, k, v, out, rows;

  /// `placed`: the keys that a query sees depend on its position.
  AttentionDims(ShardingRule &rule, Operation *op, bool placed) {
    Value qv = op->getOperand(0), kv = op->getOperand(1),
          vv = op->getOperand(2);
    bool ring = op->hasAttr(attr::kRing);
    ArrayRef<int64_t> qs = shapeOf(qv), ks = shapeOf(kv), vs = shapeOf(vv);
    batch = rule.addDim(qs[0]);
    groups = rule.addDim(ks[1]);
    perGroup = rule.addDim(ks[1] ? qs[1] / ks[1] : 1);
    // In a ring, queries and keys share one dimension, which may be split.
    queries = rule.addDim(qs[2], /*whole=*/placed && !ring);
    keys = ring ? queries : rule.addDim(ks[2], /*whole=*/true);
    depth = rule.addDim(qs[3], /*whole=*/true);
    valueDepth = rule.addDim(vs[3], /*whole=*/true);
    q = {{batch}, heads(), {queries}, {depth}};
    k = {{batch}, {groups}, {keys}, {depth}};
    v = {{batch}, {groups}, {keys}, {valueDepth}};
    out = {{batch}, heads(), {queries}, {valueDepth}};
    rows = {{batch}, heads(), {queries}};
  }

  DimMap heads() const { return {groups, perGroup}; }

  /// Returns the map of a mask. A dimension of size 1 is repeated. In a ring,
  /// each rank needs the mask of its queries for all keys.
  TensorMap mask(ShardingRule &rule, Value value) const {
    int64_t columns =
        keys == queries ? rule.addDim(shapeOf(value)[3], /*whole=*/true) : keys;
    TensorMap full = {{batch}, heads(), {queries}, {columns}};
    for (auto [i, size] : llvm::enumerate(shapeOf(value)))
      if (size == 1)
        full[i] = {};
    return full;
  }
};

} // namespace

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  AttentionDims dims(rule, *this, getCausal() || getWindow());
  rule.operands = {dims.q, dims.k, dims.v};
  if (getMask())
    rule.operands.push_back(dims.mask(rule, getMask()));
  if (getSinks())
    rule.operands.push_back({dims.heads()});
  rule.results = {dims.out, dims.rows};
  return rule;
}

ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  AttentionDims dims(rule, *this, getCausal() || getWindow());
  rule.operands = {dims.q, dims.k, dims.v, dims.out, dims.rows, dims.out};
  if (getMask())
    rule.operands.push_back(dims.mask(rule, getMask()));
  rule.results = {dims.q, dims.k, dims.v};
  rule.linear = {{5}};
  return rule;
}

static std::array<TensorMap, 3> embeddingMaps(ShardingRule &rule, Value table,
                                              Value ids) {
  SmallVector<int64_t> tableDims = rule.addDims(shapeOf(table));
  SmallVector<int64_t> idDims = rule.addDims(shapeOf(ids)), out(idDims);
  out.push_back(tableDims[1]);
  return {oneToOne(tableDims), oneToOne(idDims), oneToOne(out)};
}

ShardingRule EmbeddingOp::getShardingRule() {
  ShardingRule rule;
  auto [table, ids, out] = embeddingMaps(rule, getTable(), getIds());
  rule.experts = table.front().front();
  rule.routes = (*this)->hasAttr(attr::kRouted);
  return rule.with({table, ids}, {out}, {{0}});
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  ShardingRule rule;
  auto [table, ids, dy] = embeddingMaps(rule, getResult(), getIds());
  rule.experts = table.front().front();
  return rule.with({ids, dy}, {table}, {{1}});
}

/// Returns the map of rows that have the first dimensions `ids` of the ids, and
/// columns.
static TensorMap expertRows(Value rows, ArrayRef<int64_t> ids,
                            int64_t columns) {
  SmallVector<int64_t> map(ids.take_front(shapeOf(rows).size() - 1));
  map.push_back(columns);
  return oneToOne(map);
}

ShardingRule ExpertMatmulOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> ids = rule.addDims(shapeOf(getIds()));
  SmallVector<int64_t> w = rule.addDims(shapeOf(getW()));
  rule.experts = w[0];
  rule.routes = (*this)->hasAttr(attr::kRouted);
  auto [k, n] = getTb() ? std::pair(w[2], w[1]) : std::pair(w[1], w[2]);
  return rule.with({expertRows(getX(), ids, k), oneToOne(ids), oneToOne(w)},
                   {expertRows(getResult(), ids, n)}, {{0}, {2}});
}

ShardingRule ExpertMatmulGradOp::getShardingRule() {
  ShardingRule rule;
  SmallVector<int64_t> ids = rule.addDims(shapeOf(getIds()));
  SmallVector<int64_t> out = rule.addDims(shapeOf(getResult()));
  rule.experts = out[0];
  return rule.with({expertRows(getA(), ids, out[1]), oneToOne(ids),
                    expertRows(getB(), ids, out[2])},
                   {oneToOne(out)}, {{0}, {2}});
}
