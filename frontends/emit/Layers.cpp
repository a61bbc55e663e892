//===- Layers.cpp - Norms, attention and losses ---------------------------===//
#include "frontends/emit/Layers.h"

#include "frontends/emit/Indexing.h"
#include "frontends/emit/Windows.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend {

static constexpr double kForbidden = -std::numeric_limits<double>::infinity();

NormOp makeNorm(Emitter &e, NormKind kind, Val x, Val scale, Val bias,
                double eps) {
  auto statistics =
      RankedTensorType::get(x.shape().drop_back(), e.statisticsType(x));
  Value gain = e.materialize(scale), shift = e.materialize(bias);
  return NormOp::create(e.builder, e.loc, x.type(), statistics, statistics,
                        kind, e.materialize(x), gain, shift,
                        llvm::APFloat(eps));
}

Val normalizedGroups(Emitter &e, Val x, int64_t groups, double eps) {
  int64_t columns = numElements(x.shape().drop_front(1)) / groups;
  Val rows = e.reshape(x, {x.dim(0), groups, columns});
  NormOp op = makeNorm(e, NormKind::layer, rows, Val(), Val(), eps);
  return e.reshape(Val(op.getY()), x.shape());
}

BatchNormOp makeBatchNorm(Emitter &e, Val x, Val scale, Val bias, double eps) {
  auto statistics = RankedTensorType::get({x.dim(1)}, e.statisticsType(x));
  return BatchNormOp::create(e.builder, e.loc, x.type(), statistics, statistics,
                             e.materialize(x), e.materialize(scale),
                             e.materialize(bias), llvm::APFloat(eps));
}

bool usesBatchStatistics(Emitter &e, bool trains, bool hasRunning) {
  ++(trains ? e.modes.batchStatistics : e.modes.runningStatistics);
  if (!trains)
    return false;
  bool replaces = e.evaluates && hasRunning;
  e.usedRunningStatistics |= replaces;
  return !replaces;
}

Val normalizedBy(Emitter &e, Val x, Val mean, Val variance, double eps) {
  Val deviation = e.sqrt(e.add(alongChannels(e, variance, x), eps));
  return e.div(e.sub(x, alongChannels(e, mean, x)), deviation);
}

Val movedStatistic(Emitter &e, Val running, Val batch, double keep,
                   double share) {
  if (!running || !batch)
    return {};
  Val kept = e.mul(running, keep);
  Val moved = e.add(kept, e.convert(e.mul(batch, share), running.element()));
  if (auto argument = dyn_cast_if_present<BlockArgument>(running.value);
      argument && moved)
    e.updates[argument] = moved.value;
  return moved;
}

Val makeAttention(Emitter &e, Val q, Val k, Val v, Val mask, double scale,
                  bool causal) {
  Shape rows(q.shape().drop_back());
  auto out = RankedTensorType::get(joinShapes({rows, {v.dim(3)}}), q.element());
  auto lse = RankedTensorType::get(rows, e.statisticsType(q));
  Value query = e.materialize(q), key = e.materialize(k);
  Value value = e.materialize(v), added = e.materialize(mask);
  return e.make<AttentionOp>(out, lse, query, key, value, added,
                             /*sinks=*/Value(), llvm::APFloat(scale), causal,
                             /*window=*/IntegerAttr());
}

Val repeatedHeads(Emitter &e, Val x, int64_t heads) {
  int64_t groups = x.dim(1);
  Shape wide = {x.dim(0), groups, heads / groups, x.dim(2), x.dim(3)};
  return e.reshape(e.broadcast(x, wide, {0, 1, 3, 4}),
                   {x.dim(0), heads, x.dim(2), x.dim(3)});
}

Val additiveMask(Emitter &e, Val allowed, Type element) {
  return e.select(allowed, e.scalar(0, element), kForbidden);
}

Val causalMask(int64_t queries, int64_t keys, int64_t ahead, Type element) {
  return ConstTensor::triangle(element, {1, 1, queries, keys},
                               makeScalar(0, element),
                               makeScalar(kForbidden, element), 1 + ahead);
}

Val joinedMasks(Emitter &e, Val a, Val b) {
  return !a ? b : !b ? a : e.add(a, b);
}

Val classRows(Emitter &e, Val scores) {
  int64_t count = scores.dim(0) * numElements(scores.shape().drop_front(2));
  return e.reshape(e.transpose(scores, channelsLast(scores.rank())),
                   {count, scores.dim(1)});
}

Val pickedLoss(Emitter &e, Val rows, Val labels,
               std::optional<int64_t> ignored) {
  Val hot = bounded(e, oneHotMask(e, labels, rows.dim(1)), ignored);
  return e.neg(e.reduce(ReduceKind::sum, e.select(hot, rows, 0), {1}));
}

Val classWeights(Emitter &e, Val weights, Val labels, Val counts) {
  if (!weights)
    return {};
  // An ignored label can be an invalid class, so it is replaced by class 0.
  Val safe = e.select(counts, labels, 0);
  Val table = e.reshape(weights, {numElements(weights.shape()), 1});
  Val picked = e.reshape(e.embedding(table, safe), labels.shape());
  return e.select(counts, picked, 0);
}

} // namespace dpc::frontend
