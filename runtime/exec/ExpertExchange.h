//===- ExpertExchange.h - rows that ranks of experts exchange ---*- C++ -*-===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/kernels/ExpertTiles.h"

namespace dpc::rt {

/// Divides the rows that each pair of members exchanges into rounds, so that no
/// member sends or receives more than `most` rows in a round. Each round has an
/// equal part of the rows of a pair, up to one row. All members find the same
/// rounds from the same counts.
class ExchangeRounds {
public:
  /// counts[from * members + to] is a number of rows. `most` is at least
  /// `members`.
  ExchangeRounds(std::vector<int64_t> counts, int members, int64_t most);

  int64_t size() const { return rounds; }
  /// The number of rows of a pair in the rounds before `round`.
  int64_t begin(int from, int to, int64_t round) const {
    return counts[from * members + to] * round / rounds;
  }
  int64_t rows(int from, int to, int64_t round) const {
    return begin(from, to, round + 1) - begin(from, to, round);
  }
  int64_t count(int from, int to) const { return counts[from * members + to]; }

private:
  bool fits(int64_t most) const;

  std::vector<int64_t> counts;
  int members;
  int64_t rounds = 1;
};

/// Runs `op`, which has a group, on the rows of this rank. `owners` has the ids
/// of the rows and the experts of each member; `self` is this rank's index.
/// `data` returns the address of a buffer, and `runBody` runs the body once.
/// Needs 16 bytes of other memory for each row of this rank. Adds to `counts`;
/// a round in which no rows arrive counts as a tile.
Status runExpertExchange(const Plan &plan, const ExpertTilesOp &op,
                         const std::vector<ExpertIds> &owners, int self,
                         Communicator &comm,
                         const std::function<char *(int)> &data,
                         const std::function<Status()> &runBody,
                         ExpertCounts &counts);

} // namespace dpc::rt
