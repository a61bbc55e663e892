#include "runtime/plan/QueueOrder.h"

#include <algorithm>

namespace dpc::rt {

PlacedBuffers::PlacedBuffers(const Plan &plan, int64_t stage)
    : plan(plan), firstPlace(plan.buffers.size(), -1) {
  for (const Buffer &buffer : plan.buffers) {
    if (buffer.stage != stage)
      continue;
    firstPlace[buffer.id] = static_cast<int>(places.size());
    int64_t begin = buffer.offset, step = 0, count = 1;
    if (buffer.frame >= 0) {
      const Frame &frame = plan.frames[buffer.frame];
      begin += frame.offset;
      step = frame.bytes;
      count = frame.count;
    }
    for (int64_t i = 0; i < count; ++i, begin += step)
      places.push_back({buffer.id, buffer.space, begin, begin + buffer.bytes});
  }
  findOverlaps();
}

void PlacedBuffers::findOverlaps() {
  meets.resize(places.size());
  std::vector<int> order;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i].end > places[i].begin)
      order.push_back(static_cast<int>(i));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(places[a].space, places[a].begin) <
           std::pair(places[b].space, places[b].begin);
  });
  std::vector<int> open; // places that end after the current offset
  for (int id : order) {
    std::erase_if(open, [&](int other) {
      return places[other].space != places[id].space ||
             places[other].end <= places[id].begin;
    });
    for (int other : open) {
      meets[id].push_back(other);
      meets[other].push_back(id);
    }
    meets[id].push_back(id);
    open.push_back(id);
  }
}

int PlacedBuffers::placeOf(int buffer,
                           const std::vector<FrameSlot> &slots) const {
  int frame = plan.buffers[buffer].frame;
  if (frame < 0)
    return firstPlace[buffer];
  for (const FrameSlot &slot : slots)
    if (slot.frame == frame)
      return firstPlace[buffer] + static_cast<int>(slot.slot);
  return -1;
}

int PlacedBuffers::rootOfPlace(int place) const {
  int buffer = places[place].buffer, root = plan.buffers[buffer].viewOf;
  // A view is in the same slot as the viewed buffer.
  return root < 0 ? place : firstPlace[root] + (place - firstPlace[buffer]);
}

void QueueOrder::merge(Clock &clock, const Clock &ended) {
  for (int q = 0; q < kNumQueues; ++q)
    clock[q] = std::max(clock[q], ended[q]);
}

QueueOrder::Latest
QueueOrder::latestConflict(const Accesses &accesses,
                           const std::vector<FrameSlot> &slots,
                           int other) const {
  Latest latest;
  auto consider = [&](int64_t position, int buffer, int place, bool writes) {
    if (position > latest.position)
      latest = {position, buffer, placed.bufferAt(place), writes};
  };
  for (int id : accesses.reads)
    for (int o : placed.overlaps(placed.placeOf(id, slots)))
      consider(last[o].writes[other], id, o, true);
  for (int id : accesses.writes)
    for (int o : placed.overlaps(placed.placeOf(id, slots))) {
      consider(last[o].writes[other], id, o, true);
      consider(last[o].reads[other], id, o, false);
    }
  return latest;
}

bool QueueOrder::step(const Instruction &instruction, const Accesses &accesses,
                      const std::vector<FrameSlot> &slots,
                      const Resolve &resolve) {
  int queue = static_cast<int>(instruction.queue);
  Clock &clock = clocks[queue];
  for (int event : instruction.waits)
    if (auto it = signalled.find(event); it != signalled.end())
      merge(clock, it->second);
  for (int other = 0; other < kNumQueues; ++other) {
    if (other == queue)
      continue;
    Latest latest = latestConflict(accesses, slots, other);
    if (latest.position <= clock[other])
      continue;
    const Instruction *earlier = runs[other][latest.position - 1];
    if (!resolve({earlier, latest.buffer, latest.earlierBuffer,
                  latest.earlierWrites}))
      return false;
    // The instruction now waits for the conflicting access.
    merge(clock, lastRun.at(earlier));
  }
  ++clock[queue];
  runs[queue].push_back(&instruction);
  for (int id : accesses.reads)
    last[placed.placeOf(id, slots)].reads[queue] = clock[queue];
  for (int id : accesses.writes)
    last[placed.placeOf(id, slots)].writes[queue] = clock[queue];
  lastRun[&instruction] = clock;
  if (instruction.signals >= 0)
    signalled[instruction.signals] = clock;
  return true;
}

} // namespace dpc::rt
