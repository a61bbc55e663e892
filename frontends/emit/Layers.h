//===- Layers.h - Norms, attention and losses -------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_LAYERS_H
#define DPC_FRONTENDS_EMIT_LAYERS_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// dpc.norm along the last dimension; `scale` and `bias` can be null.
NormOp makeNorm(Emitter &e, NormKind kind, Val x, Val scale, Val bias,
                double eps);
/// Normalizes each of `groups` groups of channels of x [N, C, ..] over all
/// elements of the group.
Val normalizedGroups(Emitter &e, Val x, int64_t groups, double eps);

/// dpc.batch_norm, with one scale and one bias per channel.
BatchNormOp makeBatchNorm(Emitter &e, Val x, Val scale, Val bias, double eps);
/// Normalizes x [N, C, ..] with a known mean and variance per channel.
Val normalizedBy(Emitter &e, Val x, Val mean, Val variance, double eps);
/// The next value of a running statistic: running * keep + batch * share. If
/// `running` is an argument, the value also becomes its update.
Val movedStatistic(Emitter &e, Val running, Val batch, double keep,
                   double share);

/// dpc.attention of q, k, v [B, heads, positions, D]; the additive mask can be
/// null.
Val makeAttention(Emitter &e, Val q, Val k, Val v, Val mask, double scale,
                  bool causal);
/// Repeats the heads of x [B, H, T, D] to `heads` heads.
Val repeatedHeads(Emitter &e, Val x, int64_t heads);
/// 0 where `allowed`, else -inf.
Val additiveMask(Emitter &e, Val allowed, mlir::Type element);
/// An additive mask [1, 1, queries, keys]: query i reads keys 0 .. i + ahead.
Val causalMask(int64_t queries, int64_t keys, int64_t ahead,
               mlir::Type element);
/// Adds two masks, either of which can be null.
Val joinedMasks(Emitter &e, Val a, Val b);

/// Scores [N, C, d..] as rows [N * d.., C].
Val classRows(Emitter &e, Val scores);
/// The loss of each row: the negated score of its label.
Val pickedLoss(Emitter &e, Val rows, Val labels);
/// The weight of the class that each row's label names; 0 for rows that
/// `counts` excludes.
Val classWeights(Emitter &e, Val weights, Val labels, Val counts);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_LAYERS_H
