#include "passes/shard/AxisStates.h"

#include <gtest/gtest.h>

namespace dpc {
namespace {

using Move = AxisTransition::Move;
constexpr AxisState kSplit0 = axis::firstSplit, kSplit1 = axis::firstSplit + 1;

struct Cell {
  AxisState from, to;
  Move forward, backward;
};

// The table of the header.
const Cell kTable[] = {
    {axis::replicated, axis::replicated, Move::none, Move::none},
    {axis::replicated, axis::gradPartial, Move::none, Move::allReduce},
    {axis::replicated, axis::partial, Move::impossible, Move::none},
    {axis::replicated, kSplit0, Move::none, Move::allGather},
    {axis::gradPartial, axis::replicated, Move::none, Move::impossible},
    {axis::gradPartial, axis::gradPartial, Move::none, Move::none},
    {axis::gradPartial, kSplit0, Move::none, Move::impossible},
    {axis::partial, axis::replicated, Move::allReduce, Move::none},
    {axis::partial, axis::gradPartial, Move::allReduce, Move::allReduce},
    {axis::partial, axis::partial, Move::none, Move::none},
    {axis::partial, kSplit0, Move::reduceScatter, Move::allGather},
    {kSplit0, axis::replicated, Move::allGather, Move::none},
    {kSplit0, axis::gradPartial, Move::allGather, Move::reduceScatter},
    {kSplit0, axis::partial, Move::impossible, Move::allGather},
    {kSplit0, kSplit0, Move::none, Move::none},
    {kSplit0, kSplit1, Move::allToAll, Move::allToAll},
};

TEST(AxisStates, TransitionTable) {
  for (const Cell &cell : kTable) {
    AxisTransition moves = transition(cell.from, cell.to, /*hasGradient=*/true);
    EXPECT_EQ(moves.forward, cell.forward) << cell.from << " to " << cell.to;
    if (cell.to != axis::partial || cell.from == axis::partial)
      EXPECT_EQ(moves.backward, cell.backward)
          << cell.from << " to " << cell.to;
  }
}

TEST(AxisStates, WithoutGradientOnlyTheValueMoves) {
  EXPECT_EQ(transition(axis::replicated, axis::gradPartial, false).backward,
            Move::none);
  EXPECT_EQ(transition(kSplit0, axis::gradPartial, false).forward,
            Move::allGather);
}

} // namespace
} // namespace dpc
