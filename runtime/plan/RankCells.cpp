#include "runtime/plan/RankCells.h"

namespace dpc::rt {

int peerIn(const std::vector<int> &cell, int index, int shift, bool wrap) {
  int size = static_cast<int>(cell.size());
  int peer = index + shift;
  if (wrap)
    peer = (peer % size + size) % size;
  return peer < 0 || peer >= size ? -1 : cell[peer];
}

RankCells::RankCells(const Plan &plan) : places(plan.groups.size()) {
  for (const Group &group : plan.groups) {
    std::vector<Place> &ofGroup = places[group.id];
    ofGroup.resize(plan.ranks());
    for (const std::vector<int> &cell : group.members)
      for (size_t i = 0; i < cell.size(); ++i)
        ofGroup[cell[i]] = {&cell, static_cast<int>(i)};
  }
}

} // namespace dpc::rt
