//===- Neighbours.h - Strategies with small differences ---------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// A limited search leaves one of this many evaluations for the single changes
/// of its best plans.
inline constexpr int64_t kOfChanges = 4;

/// Of these changes, a search tries those that are estimated to be at most this
/// many times as slow, or as large, as the best plan.
inline constexpr double kWorstChange = 2;

/// Returns whether two strategies differ by at most `changes`. A change moves a
/// factor of 2 from one degree to another, doubles or halves the micro-batch,
/// changes the schedule with its virtual stages, or changes any other key.
bool areNeighbours(const Strategy &a, const Strategy &b, int changes = 2);

/// Like areNeighbours, but ignores the keys that do not affect segments: the
/// stages, their schedule and the data-parallel degree.
bool areNeighbourBlocks(const Strategy &a, const Strategy &b, int changes = 2);

} // namespace dpc::cost
