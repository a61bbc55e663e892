//===- Layers.h - Norms, attention and losses -------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Emits dpc.norm along the last dimension; `scale` and `bias` can be null.
NormOp makeNorm(Emitter &e, NormKind kind, Val x, Val scale, Val bias,
                double eps);
/// Divides the channels of x [N, C, ..] into `groups` groups and normalizes
/// each group over its elements.
Val normalizedGroups(Emitter &e, Val x, int64_t groups, double eps);

/// Emits dpc.batch_norm, with one scale and one bias per channel.
BatchNormOp makeBatchNorm(Emitter &e, Val x, Val scale, Val bias, double eps);
/// Returns whether a batch norm uses batch statistics, and counts its mode in
/// `e.modes`. Batch statistics need training mode (`trains`), and are not used
/// if `e.evaluates` and the batch norm has running statistics.
bool usesBatchStatistics(Emitter &e, bool trains, bool hasRunning);
/// Normalizes x [N, C, ..] by the given mean and variance of each channel.
Val normalizedBy(Emitter &e, Val x, Val mean, Val variance, double eps);
/// Returns the next value of a running statistic, running * keep + batch *
/// share. Notes it in `e.updates` if `running` is an argument.
Val movedStatistic(Emitter &e, Val running, Val batch, double keep,
                   double share);

/// Emits dpc.attention of q, k, v [B, heads, positions, D]. The mask is
/// additive or null.
Val makeAttention(Emitter &e, Val q, Val k, Val v, Val mask, double scale,
                  bool causal);
/// Repeats each head of x [B, H, T, D] so that there are `heads` heads.
Val repeatedHeads(Emitter &e, Val x, int64_t heads);
/// Returns 0 where `allowed` is true and -inf elsewhere.
Val additiveMask(Emitter &e, Val allowed, mlir::Type element);
/// An additive mask [1, 1, queries, keys]: query i sees keys 0 to i + ahead.
Val causalMask(int64_t queries, int64_t keys, int64_t ahead,
               mlir::Type element);
/// Returns a + b, or the other mask if one is null.
Val joinedMasks(Emitter &e, Val a, Val b);

/// Converts scores [N, C, d..] to rows [N * d.., C].
Val classRows(Emitter &e, Val scores);
/// Returns the negated score of each row's label, or 0 if it is no class. The
/// model accepts only classes as labels, and `ignored`.
Val pickedLoss(Emitter &e, Val rows, Val labels,
               std::optional<int64_t> ignored);
/// Returns `weights` at each row's label, or 0 where `counts` is false.
Val classWeights(Emitter &e, Val weights, Val labels, Val counts);

} // namespace dpc::frontend
