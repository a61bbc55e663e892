#include "passes/shard/TpStates.h"

#include <gtest/gtest.h>

namespace dpc {
namespace {

using Move = TpTransition::Move;
constexpr TpState kSplit0 = tp::firstSplit, kSplit1 = tp::firstSplit + 1;

struct Cell {
  TpState from, to;
  Move forward, backward;
};

// The table of the header, cell by cell.
const Cell kTable[] = {
    {tp::replicated, tp::replicated, Move::none, Move::none},
    {tp::replicated, tp::gradPartial, Move::none, Move::allReduce},
    {tp::replicated, tp::partial, Move::impossible, Move::none},
    {tp::replicated, kSplit0, Move::none, Move::allGather},
    {tp::gradPartial, tp::replicated, Move::none, Move::impossible},
    {tp::gradPartial, tp::gradPartial, Move::none, Move::none},
    {tp::gradPartial, kSplit0, Move::none, Move::impossible},
    {tp::partial, tp::replicated, Move::allReduce, Move::none},
    {tp::partial, tp::gradPartial, Move::allReduce, Move::allReduce},
    {tp::partial, tp::partial, Move::none, Move::none},
    {tp::partial, kSplit0, Move::reduceScatter, Move::allGather},
    {kSplit0, tp::replicated, Move::allGather, Move::none},
    {kSplit0, tp::gradPartial, Move::allGather, Move::reduceScatter},
    {kSplit0, tp::partial, Move::impossible, Move::allGather},
    {kSplit0, kSplit0, Move::none, Move::none},
    {kSplit0, kSplit1, Move::allToAll, Move::allToAll},
};

TEST(TpStates, TransitionTable) {
  for (const Cell &cell : kTable) {
    TpTransition moves = transition(cell.from, cell.to, /*hasGradient=*/true);
    EXPECT_EQ(moves.forward, cell.forward) << cell.from << " to " << cell.to;
    if (cell.to != tp::partial || cell.from == tp::partial)
      EXPECT_EQ(moves.backward, cell.backward)
          << cell.from << " to " << cell.to;
  }
}

TEST(TpStates, WithoutGradientOnlyTheValueMoves) {
  EXPECT_EQ(transition(tp::replicated, tp::gradPartial, false).backward,
            Move::none);
  EXPECT_EQ(transition(kSplit0, tp::gradPartial, false).forward,
            Move::allGather);
}

} // namespace
} // namespace dpc
