//===- RankCells.h - communication partners of every rank -------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// Returns the rank `shift` places after position `index` of a cell. With
/// `wrap`, the cell is a ring; otherwise, returns -1 if there is no such rank.
int peerIn(const std::vector<int> &cell, int index, int shift, bool wrap);

/// Like cellOf() and peerOf() of Plan.h, but without a search of the group at
/// each call. The plan must outlive this object, and its groups must contain
/// each rank once.
class RankCells {
public:
  explicit RankCells(const Plan &plan);

  const std::vector<int> &cellOf(int group, int rank) const {
    return *places[group][rank].cell;
  }
  /// Returns -1 if the message has no peer.
  template <typename Op> int peerOf(const Op &message, int rank) const {
    const Place &place = places[message.group][rank];
    return peerIn(*place.cell, place.index, message.shift, message.wrap);
  }

private:
  struct Place {
    const std::vector<int> *cell;
    int index; ///< position of the rank in its cell
  };
  std::vector<std::vector<Place>> places; ///< by group and rank
};

} // namespace dpc::rt
