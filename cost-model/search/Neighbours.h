//===- Neighbours.h - Strategies that differ in little ----------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_NEIGHBOURS_H
#define DPC_COST_MODEL_SEARCH_NEIGHBOURS_H

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether two strategies differ in at most two respects: a factor of 2 that
/// one degree has instead of another; a factor of 2 of the micro-batch; the
/// schedule with its chunks; any other key.
bool areNeighbours(const Strategy &a, const Strategy &b);

/// The same for what pieces of strategies depend on: neither stages and their
/// schedule, nor how many ranks share the batch, count.
bool areNeighbourBlocks(const Strategy &a, const Strategy &b);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_NEIGHBOURS_H
