//===- PlanCheckMeetings.cpp - no rank waits forever ----------------------===//
//
// Simulates the comm queues of all ranks. A collective ends when all members of
// its cell have reached it, a recv ends when its message is sent, and a send
// ends immediately. The order in which the simulation picks ranks does not
// matter, because a communication that can end now can also end later.
//
// Other queues and events need no simulation: an instruction waits only for
// instructions that are earlier in its rank's schedule. By induction over the
// schedule, a rank ends its step if its communications end.
//
//===----------------------------------------------------------------------===//
#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/RankCells.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>

namespace dpc::rt {

namespace {

/// One execution of a collective or message on one rank.
struct Meeting {
  const OpVariant *op;
  const std::string *phase;
  size_t index;
  int64_t microBatch;
};

std::string ofMicroBatch(int64_t microBatch) {
  return " of micro-batch " + std::to_string(microBatch);
}

/// Describes, as text, what must be equal on all members of a collective.
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
    return concat(" ", b.bytes, " bytes of ", nameOf(b.dtype));
  }
  std::string sizesOf(const std::vector<int> &buffers) const {
    std::string text;
    for (int buffer : buffers)
      text += sizeOf(buffer);
    return text;
  }
  std::string details(const AllReduceOp &op) const {
    return " " + std::string(nameOf(op.kind)) + sizesOf(op.buffers);
  }
  std::string details(const ReduceScatterOp &op) const {
    return " " + std::string(nameOf(op.kind)) + sizesOf(op.ins);
  }
  std::string details(const AllGatherOp &op) const { return sizesOf(op.ins); }
  std::string details(const ExpertTilesOp &op) const {
    std::string text = concat(" in tiles of ", op.tileRows, " rows");
    for (const auto *tiles : {&op.takes, &op.adds})
      for (const TileBuffer &one : *tiles)
        if (one.shares > 0)
          text += sizeOf(one.tile);
    return text;
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

class Play {
public:
  explicit Play(const Plan &plan)
      : plan(plan), cells(plan), first(firstWithSchedule(plan)),
        queues(plan.ranks()), next(plan.ranks(), 0), arrived(plan.ranks(), -1) {
    for (int rank = 0; rank < plan.ranks(); ++rank)
      if (first[rank] == rank)
        fillQueue(plan.schedule[rank], queues[rank]);
    for (const Group &group : plan.groups)
      for (const std::vector<int> &cell : group.members)
        waiting[&cell] = 0;
  }

  Status run() {
    for (int rank = 0; rank < plan.ranks(); ++rank)
      ready.push_back(rank);
    while (!ready.empty()) {
      int rank = ready.front();
      ready.pop_front();
      while (!isDone(rank) && advance(rank))
        ;
    }
    int late = -1;
    for (int rank = static_cast<int>(next.size()) - 1; rank >= 0; --rank)
      if (!isDone(rank)) {
        DPC_TRY(checkSize(rank));
        late = rank;
      }
    return late < 0 ? checkReceived() : stuck(late);
  }

private:
  /// Group, sender, receiver, and tag with micro-batch of a message.
  using Address = std::tuple<int, int, int, int64_t>;
  struct Message {
    int64_t bytes;
    Meeting sent;
  };

  void fillQueue(const std::vector<ScheduleEntry> &schedule,
                 std::vector<Meeting> &queue) const {
    for (const ScheduleEntry &entry : schedule) {
      const auto &instructions = plan.phases.at(entry.phase);
      for (size_t i = 0; i < instructions.size(); ++i)
        if (isCollective(instructions[i].op))
          queue.push_back(
              {&instructions[i].op, &entry.phase, i, entry.microBatch});
    }
  }

  const std::vector<Meeting> &queueOf(int rank) const {
    return queues[first[rank]];
  }
  bool isDone(int rank) const { return next[rank] >= queueOf(rank).size(); }
  const Meeting &meetingOf(int rank) const { return queueOf(rank)[next[rank]]; }
  std::string describe(const Meeting &meeting) const {
    return placeOf(plan, *meeting.phase, meeting.index) +
           ofMicroBatch(meeting.microBatch);
  }
  std::string whereIs(int rank) const {
    return concat("rank ", rank,
                  (isDone(rank) ? " has ended its step"
                                : " waits at " + describe(meetingOf(rank))));
  }

  template <typename Op>
  Address addressOfRecv(const Op &op, int peer, int rank) const {
    return {op.group, peer, rank,
            messageTag(op.tag, plan.mesh, meetingOf(rank).microBatch)};
  }

  std::string stuckHere(int rank) const {
    const Meeting &meeting = meetingOf(rank);
    return concat(placeOf(plan, *meeting.phase, meeting.index), ": rank ", rank,
                  " would wait forever here", ofMicroBatch(meeting.microBatch));
  }

  /// Fails if `rank` waits for a message that was sent with another size.
  Status checkSize(int rank) const {
    auto *recv = std::get_if<RecvOp>(meetingOf(rank).op);
    if (!recv)
      return Status::success();
    int peer = cells.peerOf(*recv, rank);
    auto it = inFlight.find(addressOfRecv(*recv, peer, rank));
    if (it == inFlight.end())
      return Status::success();
    return Status::invalid(stuckHere(rank), ": it expects ",
                           plan.buffers[recv->buffer].bytes, " bytes, ",
                           describe(it->second.front().sent), " of rank ", peer,
                           " sends ", it->second.front().bytes);
  }

  Status stuck(int rank) const {
    const Meeting &meeting = meetingOf(rank);
    const OpVariant &op = *meeting.op;
    std::string text = stuckHere(rank);
    if (auto *recv = std::get_if<RecvOp>(&op)) {
      int peer = cells.peerOf(*recv, rank);
      return Status::invalid(text, " for tag ", recv->tag, " from rank ", peer,
                             ": ", whereIs(peer));
    }
    for (int member : cells.cellOf(groupOf(op), rank))
      if (!isWith(rank, member))
        return Status::invalid(text, " (",
                               Signature(plan).of(op, meeting.microBatch),
                               "): ", whereIs(member));
    return Status::invalid(text);
  }

  Status checkReceived() const {
    if (!inFlight.empty()) {
      const auto &[address, messages] = *inFlight.begin();
      auto [group, from, to, tag] = address;
      return Status::invalid(
          describe(messages.front().sent), ": the message from rank ", from,
          " to rank ", to, " with tag ", tag / plan.mesh.mostMicroBatches(),
          " (", messages.front().bytes, " bytes) is sent but never received");
    }
    return Status::success();
  }

  /// Returns whether `member` has reached the same collective as `rank`.
  bool isWith(int rank, int member) const {
    if (isDone(member))
      return false;
    const Meeting &a = meetingOf(rank), &b = meetingOf(member);
    if (a.op == b.op) // ranks of one stage
      return a.microBatch == b.microBatch;
    Signature signature(plan);
    return groupOf(*a.op) == groupOf(*b.op) &&
           signature.of(*a.op, a.microBatch) ==
               signature.of(*b.op, b.microBatch);
  }

  /// Runs the next communication of `rank`, and adds the ranks that can then
  /// continue to `ready`. Returns false if `rank` must wait.
  bool advance(int rank) {
    const OpVariant &op = *meetingOf(rank).op;
    if (auto *message = std::get_if<SendOp>(&op)) {
      send(*message, rank);
      return true;
    }
    if (auto *message = std::get_if<RecvOp>(&op))
      return receive(*message, rank);
    return meet(cells.cellOf(groupOf(op), rank), rank);
  }

  void send(const SendOp &op, int rank) {
    const Meeting &sent = meetingOf(rank);
    int peer = cells.peerOf(op, rank);
    ++next[rank];
    if (peer < 0)
      return;
    Address address{op.group, rank, peer,
                    messageTag(op.tag, plan.mesh, sent.microBatch)};
    inFlight[address].push_back({plan.buffers[op.buffer].bytes, sent});
    ready.push_back(peer);
  }

  bool receive(const RecvOp &op, int rank) {
    int peer = cells.peerOf(op, rank);
    if (peer >= 0) {
      auto it = inFlight.find(addressOfRecv(op, peer, rank));
      if (it == inFlight.end() ||
          it->second.front().bytes != plan.buffers[op.buffer].bytes)
        return false;
      it->second.pop_front();
      if (it->second.empty())
        inFlight.erase(it);
    }
    ++next[rank];
    return true;
  }

  /// If all members of `cell` have reached the same collective, runs it and
  /// returns true; otherwise returns false. Members that have reached different
  /// collectives wait forever.
  bool meet(const std::vector<int> &cell, int rank) {
    int64_t &here = waiting.at(&cell);
    if (arrived[rank] != static_cast<int64_t>(next[rank])) {
      arrived[rank] = static_cast<int64_t>(next[rank]);
      ++here;
    }
    if (here < static_cast<int64_t>(cell.size()))
      return false;
    const Meeting *same = &meetingOf(rank);
    for (int member : cell) {
      const Meeting &other = meetingOf(member);
      if (other.op == same->op && other.microBatch == same->microBatch)
        continue;
      if (!isWith(rank, member))
        return false;
      same = &other;
    }
    here = 0;
    for (int member : cell) {
      ++next[member];
      if (member != rank)
        ready.push_back(member);
    }
    return true;
  }

  const Plan &plan;
  RankCells cells;
  std::vector<int> first;
  std::vector<std::vector<Meeting>> queues; ///< only of ranks in `first`
  std::vector<size_t> next;                 ///< index in the rank's queue
  std::vector<int64_t> arrived; ///< `next` when meet() counted the rank
  /// How many members of each cell have reached its next collective.
  std::unordered_map<const std::vector<int> *, int64_t> waiting;
  std::deque<int> ready;
  std::map<Address, std::deque<Message>> inFlight; ///< no queue is empty
};

} // namespace

Status checkMeetings(const Plan &plan) { return Play(plan).run(); }

} // namespace dpc::rt
