//===- MinCut.cpp - The cheapest separation of a flow network -------------===//
#include "cost-model/solve/MinCut.h"

#include <algorithm>
#include <cassert>

namespace dpc::cost {

int32_t FlowNetwork::addNode() {
  outgoing.emplace_back();
  return static_cast<int32_t>(outgoing.size()) - 1;
}

void FlowNetwork::addEdge(int32_t from, int32_t to, int64_t capacity) {
  assert(capacity >= 0 && capacity <= kUnlimited && "capacity of an edge");
  outgoing[from].push_back(static_cast<int32_t>(edges.size()));
  edges.push_back({to, capacity});
  outgoing[to].push_back(static_cast<int32_t>(edges.size()));
  edges.push_back({from, 0});
}

/// Computes distances from the source over edges with free capacity. Returns
/// whether the sink is reached.
bool FlowNetwork::findLevels(int32_t source, int32_t sink) {
  level.assign(outgoing.size(), -1);
  level[source] = 0;
  std::vector<int32_t> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t id : outgoing[queue[i]]) {
      const Edge &edge = edges[id];
      if (edge.left == 0 || level[edge.to] >= 0)
        continue;
      level[edge.to] = level[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  return level[sink] >= 0;
}

/// Fills one path of rising levels. Returns the flow, or 0 without a path.
int64_t FlowNetwork::augment(int32_t source, int32_t sink) {
  std::vector<int32_t> path;
  int32_t node = source;
  while (node != sink) {
    bool advanced = false;
    for (size_t &i = next[node]; i < outgoing[node].size(); ++i) {
      const Edge &edge = edges[outgoing[node][i]];
      if (edge.left == 0 || level[edge.to] != level[node] + 1)
        continue;
      path.push_back(outgoing[node][i]);
      node = edge.to;
      advanced = true;
      break;
    }
    if (advanced)
      continue;
    if (path.empty())
      return 0;
    // At a dead end, go back and skip the edge that led here.
    node = edges[path.back() ^ 1].to;
    path.pop_back();
    ++next[node];
  }
  int64_t amount = kUnlimited;
  for (int32_t id : path)
    amount = std::min(amount, edges[id].left);
  for (int32_t id : path) {
    edges[id].left -= amount;
    edges[id ^ 1].left += amount;
  }
  return amount;
}

std::vector<bool> FlowNetwork::sourceSide(int32_t source, int32_t sink) {
  while (findLevels(source, sink)) {
    next.assign(outgoing.size(), 0);
    while (int64_t amount = augment(source, sink)) {
      value += amount;
      assert(value < kUnlimited && "every cut has an unlimited edge");
    }
  }
  std::vector<bool> side(outgoing.size());
  for (size_t i = 0; i < side.size(); ++i)
    side[i] = level[i] >= 0;
  return side;
}

} // namespace dpc::cost
