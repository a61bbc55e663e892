//===- RankCells.h - communication partners of every rank -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_RANKCELLS_H
#define DPC_RUNTIME_PLAN_RANKCELLS_H

#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// The rank `shift` places after the one at `index` of a cell; -1 if that is
/// outside of the cell and the cell is not a ring (`wrap`).
int peerIn(const std::vector<int> &cell, int index, int shift, bool wrap);

/// The cell of every rank in every group. cellOf() and peerOf() of Plan.h
/// search a group for one rank; this class is for many queries. The plan, whose
/// groups must partition its ranks, outlives it.
class RankCells {
public:
  explicit RankCells(const Plan &plan);

  const std::vector<int> &cellOf(int group, int rank) const {
    return *places[group][rank].cell;
  }
  /// The rank at the other end of a message, or -1 when it leaves the group.
  template <typename Op> int peerOf(const Op &message, int rank) const {
    const Place &place = places[message.group][rank];
    return peerIn(*place.cell, place.index, message.shift, message.wrap);
  }

private:
  struct Place {
    const std::vector<int> *cell;
    int index; ///< of the rank in its cell
  };
  std::vector<std::vector<Place>> places; ///< by group and rank
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_RANKCELLS_H
