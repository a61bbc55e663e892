//===- StrategyShrink.h - The same kinds of parallelism on fewer ranks ----===//
#ifndef DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H
#define DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// A strategy for few ranks, and the batch that goes with it.
struct ShrunkStrategy {
  Strategy strategy;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
};

/// Shrinks the degrees of `strategy` until it takes at most `maxRanks` ranks,
/// the largest first, each halved at most down to 2: what was split stays
/// split.
///   (S1) A degree above 1 stays above 1, a degree of 1 stays 1; dp stays at 4
///        or more where hybrid_shard splits inside it.
///   (S2) ep and hybrid_shard still divide what they divided; ep spreads over
///        data or tensor ranks as before.
///   (S3) vpp falls to 2, the samples of a micro-batch to 2, micro-batches to
///        2 * pp; several stay several.
///   (S4) A batch that dp and micro-batches do not divide stays so.
///   (S5) Unlike shares of the batch stay unlike.
/// Strategies that have at most `maxRanks` ranks keep their degrees. More ranks
/// than `maxRanks` remain where every degree is at its least.
ShrunkStrategy shrinkStrategy(const Strategy &strategy, int64_t globalBatch,
                              int64_t maxRanks);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_STRATEGYSHRINK_H
