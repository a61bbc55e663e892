//===- Neighbours.h - Strategies with small differences ---------*- C++ -*-===//
#ifndef DPC_COST_MODEL_SEARCH_NEIGHBOURS_H
#define DPC_COST_MODEL_SEARCH_NEIGHBOURS_H

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Whether two strategies differ in at most two respects: a factor of 2 that
/// moves from one degree to another; a factor of 2 of the micro-batch; the
/// schedule with its virtual stages; any other key.
bool areNeighbours(const Strategy &a, const Strategy &b);

/// Like areNeighbours, but compares only the keys that affect the segments of a
/// strategy: not the stages, their schedule or the data-parallel degree.
bool areNeighbourBlocks(const Strategy &a, const Strategy &b);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_NEIGHBOURS_H
