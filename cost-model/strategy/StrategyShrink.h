//===- StrategyShrink.h - The same kinds of parallelism on fewer ranks ----===//
#pragma once

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

struct ShrunkStrategy {
  Strategy strategy;
  int64_t globalBatch = 1; ///< Samples per step over all ranks.
};

/// Halves the largest degree of `strategy` until it has at most `maxRanks`
/// ranks, or until no degree can shrink. The kinds of parallelism remain:
///   (S1) A degree above 1 stays above 1. If hybrid_shard shards over only some
///        of the data-parallel ranks, dp stays at least 4.
///   (S2) ep and hybrid_shard divide the same degrees as before; ep spans
///        data-parallel or tensor-parallel ranks as before.
///   (S3) vpp is at most 2, a micro-batch has at most 2 samples, and a step has
///        at most 2 * pp micro-batches. A step with several micro-batches keeps
///        more than one.
///   (S4) A batch that dp or the micro-batch size does not divide evenly still
///        leaves a remainder.
///   (S5) Uneven shares of the batch stay uneven.
/// A strategy with at most `maxRanks` ranks keeps its degrees.
ShrunkStrategy shrinkStrategy(const Strategy &strategy, int64_t globalBatch,
                              int64_t maxRanks);

} // namespace dpc::cost
