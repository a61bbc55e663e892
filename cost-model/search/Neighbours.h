//===- Neighbours.h - Strategies with small differences ---------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Strategy.h"

namespace dpc::cost {

/// Returns whether two strategies differ by at most `changes`. A change moves a
/// factor of 2 from one degree to another, doubles or halves the micro-batch,
/// changes the schedule with its virtual stages, or changes any other key.
bool areNeighbours(const Strategy &a, const Strategy &b, int changes = 2);

/// Like areNeighbours, but ignores the keys that do not affect segments: the
/// stages, their schedule and the data-parallel degree.
bool areNeighbourBlocks(const Strategy &a, const Strategy &b, int changes = 2);

} // namespace dpc::cost
