#include "runtime/cuda/MessagePlan.h"

#include "runtime/cuda/CudaApi.h"
#include "runtime/plan/Ledger.h"
#include "runtime/plan/RankCells.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace dpc::rt {

namespace {

/// Assigns offsets to the copies of messages. An offset is free once its
/// message has moved, because the next copy runs later on the same stream.
class MessageRoom {
public:
  int64_t take(int64_t bytes) {
    Place *best = nullptr;
    for (Place &place : places)
      if (place.isFree && place.bytes >= bytes &&
          (!best || place.bytes < best->bytes))
        best = &place;
    if (!best) {
      places.push_back({end, (bytes + 255) / 256 * 256, true});
      end += places.back().bytes;
      best = &places.back();
    }
    best->isFree = false;
    return best->offset;
  }
  void give(int64_t offset) {
    for (Place &place : places)
      if (place.offset == offset)
        place.isFree = true;
  }
  int64_t size() const { return end; }

private:
  struct Place {
    int64_t offset, bytes;
    bool isFree;
  };
  std::vector<Place> places;
  int64_t end = 0;
};

class Simulation {
public:
  Simulation(const Plan &plan, int own) : plan(plan), own(own), cells(plan) {}

  Expected<DeviceProgram> run(char *device) {
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      RankProgram program;
      DPC_TRY(assign(program, unroll(plan, rank, rank == own ? device : nullptr,
                                     nullptr, false)));
      Rank state;
      state.tasks = std::move(program.queues[0]);
      state.signals.resize(program.events);
      for (size_t i = 0; i < state.tasks.size(); ++i)
        state.queues[static_cast<int>(state.tasks[i].instruction->queue)]
            .push_back(static_cast<int>(i));
      ranks.push_back(std::move(state));
    }
    for (bool any = true; any;) {
      any = advanceAll();
      any = meetAll() || any;
      any = moveAll() || any;
    }
    for (const Rank &rank : ranks)
      for (size_t q = 0; q < kNumQueues; ++q)
        if (rank.heads[q] < rank.queues[q].size())
          return Status::invalid(
              "the ranks of the plan wait for each other forever");
    result.tasks = std::move(ranks[own].tasks);
    result.events = static_cast<int>(ranks[own].signals.size());
    result.messageBytes = room.size();
    return std::move(result);
  }

private:
  struct Rank {
    std::vector<Task> tasks;
    std::vector<int> queues[kNumQueues]; ///< indices of tasks
    size_t heads[kNumQueues] = {};
    std::vector<uint32_t> signals; ///< signals so far, by event
  };
  /// From, to, group, tag.
  using Key = std::tuple<int, int, int, int64_t>;
  struct Sent {
    int64_t bytes, offset;
  };

  /// Returns the next task of a queue, or -1 if it must wait or does not exist.
  static int ready(const Rank &rank, int queue) {
    if (rank.heads[queue] == rank.queues[queue].size())
      return -1;
    int task = rank.queues[queue][rank.heads[queue]];
    for (const EventWait &wait : rank.tasks[task].waits)
      if (rank.signals[wait.event] < wait.count)
        return -1;
    return task;
  }
  static void finish(Rank &rank, int queue, int task) {
    ++rank.heads[queue];
    if (int event = rank.tasks[task].signals; event >= 0)
      ++rank.signals[event];
  }
  void keep(int rank, DeviceStep step) {
    if (rank == own)
      result.steps.push_back(std::move(step));
  }

  template <typename Op>
  Key keyOf(const Op &op, const Task &task, int from, int to) const {
    return {from, to, op.group,
            messageTag(op.tag, plan.mesh, task.entry->microBatch)};
  }

  /// Runs all tasks of a rank that do not wait for other ranks.
  bool advance(int index) {
    Rank &rank = ranks[index];
    bool any = false, moved = true;
    while (moved) {
      moved = false;
      for (int queue = 0; queue < kNumQueues; ++queue) {
        int id = ready(rank, queue);
        if (id < 0)
          continue;
        const Task &task = rank.tasks[id];
        const OpVariant &op = task.instruction->op;
        const auto *send = std::get_if<SendOp>(&op);
        if (meetsOthers(plan, op, index) && !send)
          continue;
        int peer = send ? cells.peerOf(*send, index) : -1;
        if (send && peer >= 0) {
          int64_t bytes = plan.buffers[send->buffer].bytes;
          int64_t offset = index == own ? room.take(bytes) : 0;
          sent[keyOf(*send, task, index, peer)].push_back({bytes, offset});
          keep(index, {DeviceStep::Kind::Stage, id, offset, {}});
        } else {
          keep(index, {DeviceStep::Kind::Task, id, 0, {}});
        }
        finish(rank, queue, id);
        moved = any = true;
      }
    }
    return any;
  }
  bool advanceAll() {
    bool any = false;
    for (int rank = 0; rank < plan.ranks(); ++rank)
      any |= advance(rank);
    return any;
  }

  /// Returns the next collective or recv of a rank, or -1.
  int meeting(int rank) const {
    return ready(ranks[rank], static_cast<int>(Queue::Comm));
  }

  /// Runs the collectives that all members have reached.
  bool meetAll() {
    bool any = false;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      int id = meeting(rank);
      if (id < 0)
        continue;
      const OpVariant &op = ranks[rank].tasks[id].instruction->op;
      if (std::holds_alternative<RecvOp>(op))
        continue;
      const std::vector<int> &members = cells.cellOf(groupOf(op), rank);
      if (members.front() != rank || !isHere(members, op))
        continue;
      for (int member : members) {
        int task = meeting(member);
        keep(member, {DeviceStep::Kind::Task, task, 0, {}});
        finish(ranks[member], static_cast<int>(Queue::Comm), task);
      }
      any = true;
    }
    return any;
  }
  bool isHere(const std::vector<int> &members, const OpVariant &op) const {
    return std::all_of(members.begin(), members.end(), [&](int member) {
      int id = meeting(member);
      if (id < 0)
        return false;
      const OpVariant &other = ranks[member].tasks[id].instruction->op;
      return other.index() == op.index() && groupOf(other) == groupOf(op);
    });
  }

  /// Moves the messages whose send has run and whose recv is reached.
  bool moveAll() {
    std::vector<std::pair<int, int>> reached; // rank and task
    DeviceStep round{DeviceStep::Kind::Round, -1, 0, {}};
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      int id = meeting(rank);
      if (id < 0)
        continue;
      const Task &task = ranks[rank].tasks[id];
      const auto *recv = std::get_if<RecvOp>(&task.instruction->op);
      if (!recv)
        continue;
      int peer = cells.peerOf(*recv, rank);
      auto it = sent.find(keyOf(*recv, task, peer, rank));
      if (it == sent.end() || it->second.empty())
        continue;
      Sent message = it->second.front();
      it->second.pop_front();
      reached.emplace_back(rank, id);
      if (peer == own) {
        round.messages.push_back(
            {rank, true, message.bytes, -1, message.offset});
        room.give(message.offset);
      }
      if (rank == own)
        round.messages.push_back({peer, false, message.bytes, id, 0});
    }
    for (auto [rank, id] : reached)
      finish(ranks[rank], static_cast<int>(Queue::Comm), id);
    if (!round.messages.empty())
      result.steps.push_back(std::move(round));
    return !reached.empty();
  }

  const Plan &plan;
  int own;
  RankCells cells;
  std::vector<Rank> ranks;
  std::map<Key, std::deque<Sent>> sent;
  MessageRoom room;
  DeviceProgram result;
};

} // namespace

Expected<DeviceProgram> planDevice(const Plan &plan, int rank, char *device) {
  return Simulation(plan, rank).run(device);
}

} // namespace dpc::rt
