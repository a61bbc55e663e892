#include "runtime/plan/PlanChecks.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace dpc::rt {

namespace {

/// One run of a collective or message by one rank.
struct Meeting {
  const std::string *phase;
  size_t index;
  int64_t microBatch;
  bool operator==(const Meeting &o) const {
    return *phase == *o.phase && index == o.index && microBatch == o.microBatch;
  }
};

int groupOf(const OpVariant &op) {
  return std::visit(
      [](const auto &o) {
        if constexpr (requires { o.group; })
          return o.group;
        else
          return -1;
      },
      op);
}

/// Plays the comm queues of all ranks against each other. Sends are buffered
/// and never wait; a collective needs every member at the same run; a receive
/// needs its message.
class Play {
public:
  explicit Play(const Plan &plan)
      : plan(plan), queues(plan.ranks()), next(plan.ranks(), 0) {
    for (int64_t rank = 0; rank < plan.ranks(); ++rank)
      for (const ScheduleEntry &entry : plan.schedule[rank]) {
        const auto &instructions = plan.phases.at(entry.phase);
        for (size_t i = 0; i < instructions.size(); ++i)
          if (isCollective(instructions[i].op))
            queues[rank].push_back({&entry.phase, i, entry.microBatch});
      }
  }

  Status run() {
    std::deque<int> ready;
    for (size_t rank = 0; rank < queues.size(); ++rank)
      ready.push_back(static_cast<int>(rank));
    while (!ready.empty()) {
      int rank = ready.front();
      ready.pop_front();
      while (next[rank] < queues[rank].size()) {
        std::vector<int> moved = advance(rank);
        if (moved.empty())
          break;
        for (int other : moved)
          if (other != rank)
            ready.push_back(other);
      }
    }
    for (size_t rank = 0; rank < queues.size(); ++rank)
      if (next[rank] < queues[rank].size())
        return Status::invalid(here(static_cast<int>(rank)) + ": rank " +
                               std::to_string(rank) +
                               " would wait for ever here");
    for (const auto &[key, messages] : inFlight)
      if (!messages.empty())
        return Status::invalid(
            "a message from rank " + std::to_string(std::get<1>(key)) +
            " to rank " + std::to_string(std::get<2>(key)) + " (buffer of " +
            std::to_string(messages.front()) +
            " bytes) is sent but never received");
    return Status::success();
  }

private:
  const OpVariant &opAt(int rank) const {
    const Meeting &meeting = queues[rank][next[rank]];
    return plan.phases.at(*meeting.phase)[meeting.index].op;
  }
  std::string here(int rank) const {
    const Meeting &meeting = queues[rank][next[rank]];
    return placeOf(plan, *meeting.phase, meeting.index);
  }
  const std::vector<int> &cellOf(int group, int rank) const {
    for (const auto &cell : plan.groups[group].members)
      if (std::binary_search(cell.begin(), cell.end(), rank))
        return cell;
    return plan.groups[group].members.front();
  }

  /// Peer of a message, or -1 when it leaves the group.
  template <typename Op> int peerOf(const Op &op, int rank) const {
    const std::vector<int> &cell = cellOf(op.group, rank);
    int size = static_cast<int>(cell.size());
    int index = static_cast<int>(
        std::lower_bound(cell.begin(), cell.end(), rank) - cell.begin());
    int peer = index + op.shift;
    if (op.wrap)
      peer = (peer % size + size) % size;
    return peer < 0 || peer >= size ? -1 : cell[peer];
  }

  /// Tries the next run of `rank`; returns the ranks that moved on or may.
  std::vector<int> advance(int rank) {
    const OpVariant &op = opAt(rank);
    if (auto *send = std::get_if<SendOp>(&op)) {
      int peer = peerOf(*send, rank);
      ++next[rank];
      if (peer < 0)
        return {rank};
      inFlight[{send->group, rank, peer}].push_back(
          plan.buffers[send->buffer].bytes);
      return {rank, peer};
    }
    if (auto *recv = std::get_if<RecvOp>(&op)) {
      int peer = peerOf(*recv, rank);
      if (peer >= 0) {
        auto &messages = inFlight[{recv->group, peer, rank}];
        if (messages.empty() ||
            messages.front() != plan.buffers[recv->buffer].bytes)
          return {};
        messages.pop_front();
      }
      ++next[rank];
      return {rank};
    }
    const std::vector<int> &cell = cellOf(groupOf(op), rank);
    for (int member : cell)
      if (next[member] >= queues[member].size() ||
          !(queues[member][next[member]] == queues[rank][next[rank]]))
        return {};
    for (int member : cell)
      ++next[member];
    return cell;
  }

  const Plan &plan;
  std::vector<std::vector<Meeting>> queues;
  std::vector<size_t> next;
  /// Sizes of the messages between (group, from, to).
  std::map<std::tuple<int, int, int>, std::deque<int64_t>> inFlight;
};

} // namespace

Status checkMeetings(const Plan &plan) { return Play(plan).run(); }

} // namespace dpc::rt
