//===- PlanCheckMeetings.cpp - no rank waits for ever ---------------------===//
//
// Why it is enough to play the comm queues: within a rank, an instruction
// waits only for what comes before it in the rank's schedule (events count the
// signals so far, queues are in order). So by induction over the schedule a
// rank ends when each of its communications ends once it is the next in the
// comm queue. What that needs of other ranks is played here: a collective
// needs every member of its cell at the same collective, a receive needs its
// message, a send needs nobody. Playing is exact, whatever the order in which
// ranks are picked: a communication that may end stays so until it has.
//
//===----------------------------------------------------------------------===//
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
};

std::string ofMicroBatch(int64_t microBatch) {
  return " of micro-batch " + std::to_string(microBatch);
}

/// What all members of a collective must agree on, as text.
class Signature {
public:
  explicit Signature(const Plan &plan) : plan(plan) {}

  std::string of(const OpVariant &op, int64_t microBatch) const {
    std::string text(opName(op));
    std::visit([&](const auto &o) { text += details(o); }, op);
    return text + ofMicroBatch(microBatch);
  }

private:
  std::string sizeOf(int buffer) const {
    const Buffer &b = plan.buffers[buffer];
    return " " + std::to_string(b.bytes) + " bytes of " +
           std::string(nameOf(b.dtype));
  }
  std::string details(const AllReduceOp &op) const {
    std::string text = " " + std::string(nameOf(op.kind));
    for (int buffer : op.buffers)
      text += sizeOf(buffer);
    return text;
  }
  std::string details(const ReduceScatterOp &op) const {
    return " " + std::string(nameOf(op.kind)) + sizeOf(op.in);
  }
  std::string details(const BroadcastOp &op) const {
    return " from " + std::to_string(op.root) + sizeOf(op.buffer);
  }
  template <typename Op> std::string details(const Op &op) const {
    if constexpr (requires { op.in; })
      return sizeOf(op.in);
    else
      return "";
  }

  const Plan &plan;
};

/// Plays the comm queues of all ranks against each other.
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
      while (!isDone(rank)) {
        std::vector<int> moved = advance(rank);
        if (moved.empty())
          break;
        for (int other : moved)
          if (other != rank)
            ready.push_back(other);
      }
    }
    int first = -1;
    for (int rank = static_cast<int>(queues.size()) - 1; rank >= 0; --rank)
      if (!isDone(rank)) {
        DPC_TRY(checkSize(rank));
        first = rank;
      }
    return first < 0 ? checkReceived() : stuck(first);
  }

private:
  /// A message on its way: (group, from, to, tag with micro-batch).
  using Address = std::tuple<int, int, int, int64_t>;
  struct Message {
    int64_t bytes;
    Meeting sent;
  };

  bool isDone(int rank) const { return next[rank] >= queues[rank].size(); }
  const Meeting &meetingOf(int rank) const { return queues[rank][next[rank]]; }
  const OpVariant &opOf(const Meeting &meeting) const {
    return plan.phases.at(*meeting.phase)[meeting.index].op;
  }
  std::string describe(const Meeting &meeting) const {
    return placeOf(plan, *meeting.phase, meeting.index) +
           ofMicroBatch(meeting.microBatch);
  }
  /// Where a rank is, for messages.
  std::string whereIs(int rank) const {
    return "rank " + std::to_string(rank) +
           (isDone(rank) ? " has ended its step"
                         : " waits at " + describe(meetingOf(rank)));
  }

  template <typename Op>
  Address addressOfRecv(const Op &op, int peer, int rank) const {
    return {op.group, peer, rank,
            messageTag(op.tag, plan.mesh, meetingOf(rank).microBatch)};
  }

  std::string stuckHere(int rank) const {
    const Meeting &meeting = meetingOf(rank);
    return placeOf(plan, *meeting.phase, meeting.index) + ": rank " +
           std::to_string(rank) + " would wait for ever here" +
           ofMicroBatch(meeting.microBatch);
  }

  /// Whether what a rank is stuck at is a message of another size than it
  /// expects.
  Status checkSize(int rank) const {
    auto *recv = std::get_if<RecvOp>(&opOf(meetingOf(rank)));
    if (!recv)
      return Status::success();
    int peer = peerOf(plan.groups[recv->group], *recv, rank);
    auto it = inFlight.find(addressOfRecv(*recv, peer, rank));
    if (it == inFlight.end() || it->second.empty())
      return Status::success();
    return Status::invalid(stuckHere(rank) + ": it expects " +
                           std::to_string(plan.buffers[recv->buffer].bytes) +
                           " bytes, " + describe(it->second.front().sent) +
                           " of rank " + std::to_string(peer) + " sends " +
                           std::to_string(it->second.front().bytes));
  }

  /// Why `rank` cannot go on.
  Status stuck(int rank) const {
    const Meeting &meeting = meetingOf(rank);
    const OpVariant &op = opOf(meeting);
    std::string text = stuckHere(rank);
    if (auto *recv = std::get_if<RecvOp>(&op)) {
      int peer = peerOf(plan.groups[recv->group], *recv, rank);
      return Status::invalid(text + " for tag " + std::to_string(recv->tag) +
                             " from rank " + std::to_string(peer) + ": " +
                             whereIs(peer));
    }
    for (int member : cellOf(plan.groups[groupOf(op)], rank))
      if (!isWith(rank, member))
        return Status::invalid(text + " (" +
                               Signature(plan).of(op, meeting.microBatch) +
                               "): " + whereIs(member));
    return Status::invalid(text);
  }

  Status checkReceived() const {
    for (const auto &[address, messages] : inFlight)
      if (!messages.empty()) {
        auto [group, from, to, tag] = address;
        return Status::invalid(
            describe(messages.front().sent) + ": the message from rank " +
            std::to_string(from) + " to rank " + std::to_string(to) +
            " with tag " + std::to_string(tag / plan.mesh.microBatches) + " (" +
            std::to_string(messages.front().bytes) +
            " bytes) is sent but never received");
      }
    return Status::success();
  }

  /// Whether `member` is at the collective that `rank` is at.
  bool isWith(int rank, int member) const {
    if (isDone(member))
      return false;
    const Meeting &a = meetingOf(rank), &b = meetingOf(member);
    const OpVariant &mine = opOf(a), &theirs = opOf(b);
    if (&mine == &theirs) // ranks of one stage
      return a.microBatch == b.microBatch;
    Signature signature(plan);
    return groupOf(mine) == groupOf(theirs) &&
           signature.of(mine, a.microBatch) ==
               signature.of(theirs, b.microBatch);
  }

  /// Tries the next run of `rank`; returns the ranks that moved on or may.
  std::vector<int> advance(int rank) {
    const OpVariant &op = opOf(meetingOf(rank));
    if (auto *send = std::get_if<SendOp>(&op)) {
      int peer = peerOf(plan.groups[send->group], *send, rank);
      const Meeting &sent = queues[rank][next[rank]];
      Address address{send->group, rank, peer,
                      messageTag(send->tag, plan.mesh, sent.microBatch)};
      ++next[rank];
      if (peer < 0)
        return {rank};
      inFlight[address].push_back({plan.buffers[send->buffer].bytes, sent});
      return {rank, peer};
    }
    if (auto *recv = std::get_if<RecvOp>(&op)) {
      int peer = peerOf(plan.groups[recv->group], *recv, rank);
      if (peer >= 0) {
        auto &messages = inFlight[addressOfRecv(*recv, peer, rank)];
        if (messages.empty() ||
            messages.front().bytes != plan.buffers[recv->buffer].bytes)
          return {};
        messages.pop_front();
      }
      ++next[rank];
      return {rank};
    }
    std::vector<int> cell = cellOf(plan.groups[groupOf(op)], rank);
    for (int member : cell)
      if (!isWith(rank, member))
        return {};
    for (int member : cell)
      ++next[member];
    return cell;
  }

  const Plan &plan;
  std::vector<std::vector<Meeting>> queues;
  std::vector<size_t> next;
  std::map<Address, std::deque<Message>> inFlight;
};

} // namespace

Status checkMeetings(const Plan &plan) { return Play(plan).run(); }

} // namespace dpc::rt
