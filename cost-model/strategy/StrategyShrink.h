//===- StrategyShrink.h - The same kinds of parallelism on fewer ranks ----===//
#ifndef DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H
#define DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// A strategy for few ranks, and its batch.
struct ShrunkStrategy {
  Strategy strategy;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
};

/// Halves the largest degree of `strategy` until it has at most `maxRanks`
/// ranks, or until no degree can shrink. The kinds of parallelism remain:
///   (S1) A degree above 1 stays above 1. dp stays at least 4 if hybrid_shard
///        shards over a part of it.
///   (S2) ep and hybrid_shard divide the same degrees as before; ep uses data
///   or
///        tensor ranks as before.
///   (S3) vpp is at most 2, a micro-batch has at most 2 samples, and a step at
///        most 2 * pp micro-batches; a step with several keeps several.
///   (S4) A batch that dp or the micro-batches do not divide stays indivisible.
///   (S5) Uneven shares of the batch stay uneven.
/// A strategy with at most `maxRanks` ranks keeps its degrees.
ShrunkStrategy shrinkStrategy(const Strategy &strategy, int64_t globalBatch,
                              int64_t maxRanks);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H
