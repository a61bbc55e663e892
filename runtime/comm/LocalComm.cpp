//===- LocalComm.cpp - ranks are threads of one process -------------------===//
//
// In a collective, each member publishes its pointers and waits for the other
// members, reads their buffers directly, and waits again before buffers may be
// reused. A large all_reduce is a reduce_scatter in place, followed by an
// all_gather. In a small all_reduce, each member copies its input to a slot
// that all members read. The caller can then reuse its buffer at once, so
// members wait for each other only once.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Wait.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>

namespace dpc::rt {

namespace {

/// An all_reduce of at most this many bytes uses slots.
constexpr int64_t kSlotBytes = 4096;

struct alignas(64) Member {
  std::atomic<uint32_t> arrivals{0};
  const char *callName = "";
  const void *in = nullptr;
  void *out = nullptr;
  int64_t bytes = 0;
  std::vector<int64_t> sent; ///< bytes, in an all_to_all
  /// Calls use the two slots in turns: a fast member may already write for the
  /// next call while a slow member still reads. No member is two calls ahead.
  std::array<std::vector<char>, 2> slots{std::vector<char>(kSlotBytes),
                                         std::vector<char>(kSlotBytes)};
  /// The bytes and ReduceKind of the call in each slot; -1: no call yet.
  std::array<std::pair<int64_t, int>, 2> slotCalls{
      std::pair<int64_t, int>{-1, -1}, {-1, -1}};
};

struct Mailbox {
  std::mutex mutex;
  std::map<int64_t, std::deque<std::vector<char>>> messages; ///< by tag
  WaitWord posted;
};

/// A group divides all ranks into cells. Only ranks of one cell communicate.
struct Cell {
  explicit Cell(std::vector<int> ranks)
      : ranks(std::move(ranks)), members(this->ranks.size()),
        boxes(this->ranks.size() * this->ranks.size()) {}

  std::vector<int> ranks;
  std::vector<Member> members;
  std::vector<Mailbox> boxes; ///< [from * size + to]
  std::atomic<uint32_t> waiting{0};
  WaitWord epoch; ///< counts synchronizations
};

struct World {
  explicit World(int ranks) {
    std::vector<int> all(ranks);
    for (int i = 0; i < ranks; ++i)
      all[i] = i;
    cells[kWorldGroup].push_back(std::make_unique<Cell>(all));
  }

  std::atomic<bool> aborted{false};
  std::mutex mutex; ///< guards `cells`
  std::map<int, std::vector<std::unique_ptr<Cell>>> cells;
};

struct Seat {
  Cell *cell = nullptr;
  int index = 0;
  uint32_t meetings = 0;
  uint32_t smallCalls = 0; ///< selects the slot

  int size() const { return static_cast<int>(cell->ranks.size()); }
  Member &self() const { return cell->members[index]; }
};

Seat takeSeat(Cell &cell, int rank) {
  auto it = std::find(cell.ranks.begin(), cell.ranks.end(), rank);
  return {&cell, static_cast<int>(it - cell.ranks.begin())};
}

void show(Seat &seat, const char *name, const void *in, void *out,
          int64_t bytes) {
  Member &self = seat.self();
  self.callName = name;
  self.in = in;
  self.out = out;
  self.bytes = bytes;
}

std::vector<const void *> inputs(const Seat &seat) {
  std::vector<const void *> parts;
  parts.reserve(seat.cell->members.size());
  for (const Member &member : seat.cell->members)
    parts.push_back(member.in);
  return parts;
}

/// Returns the ranks that have not reached synchronization `goal`.
std::vector<int> absent(const Cell &cell, uint32_t goal) {
  std::vector<int> ranks;
  for (size_t i = 0; i < cell.ranks.size(); ++i)
    if (cell.members[i].arrivals.load() < goal)
      ranks.push_back(cell.ranks[i]);
  return ranks;
}

Status cancelled() { return Status::cancelled("another rank failed"); }

Status compareCalls(const Seat &seat, const char *name, int64_t bytes) {
  for (size_t i = 0; i < seat.cell->ranks.size(); ++i) {
    const Member &member = seat.cell->members[i];
    if (std::strcmp(member.callName, name) != 0 || member.bytes != bytes)
      return Status::invalid("rank ", seat.cell->ranks[i], " called ",
                             member.callName, " of ", member.bytes,
                             " bytes where rank ", seat.cell->ranks[seat.index],
                             " called ", name, " of ", bytes);
  }
  return Status::success();
}

class LocalComm : public Communicator {
public:
  LocalComm(std::shared_ptr<World> w, int rank, int size, double timeout)
      : world(std::move(w)), rankIndex(rank), worldSize(size),
        timeoutSeconds(timeout) {
    seats.push_back(takeSeat(*world->cells[kWorldGroup].front(), rankIndex));
  }

  int rank() const override { return rankIndex; }
  int size() const override { return worldSize; }

  Status makeGroups(const std::vector<Group> &groups) override {
    {
      std::lock_guard lock(world->mutex);
      for (const Group &group : groups) {
        auto &cells = world->cells[group.id];
        if (cells.empty())
          for (const auto &members : group.members)
            cells.push_back(std::make_unique<Cell>(members));
        for (auto &cell : cells)
          if (std::count(cell->ranks.begin(), cell->ranks.end(), rankIndex))
            seats.push_back(takeSeat(*cell, rankIndex));
      }
    }
    return barrier(kWorldGroup);
  }

  Status allReduce(int group, const std::vector<Slice> &slices,
                   ReduceKind kind) override {
    for (const Slice &slice : slices)
      DPC_TRY(reduceSlice(group, slice.data, slice.count, slice.type, kind));
    return Status::success();
  }

  Status reduceSlice(int group, void *data, int64_t count, DType type,
                     ReduceKind kind) {
    Seat &seat = seatIn(group);
    int64_t bytes = count * sizeOf(type);
    if (seat.size() == 1)
      return Status::success();
    if (bytes <= kSlotBytes)
      return smallAllReduce(seat, data, count, type, kind);
    show(seat, "all_reduce", data, data, bytes);
    DPC_TRY(meet(seat, "all_reduce", bytes));
    // Member i reduces chunk i; the other members then copy it.
    auto chunk = [&](int64_t i) {
      return i == seat.size() ? count : count * i / seat.size() / 16 * 16;
    };
    int64_t first = chunk(seat.index);
    auto *bytesOut = static_cast<char *>(data);
    reduceParts(inputs(seat), bytesOut + first * sizeOf(type), first,
                chunk(seat.index + 1) - first, type, kind);
    DPC_TRY(meet(seat, "all_reduce"));
    for (int i = 0; i < seat.size(); ++i)
      if (i != seat.index)
        std::memcpy(bytesOut + chunk(i) * sizeOf(type),
                    static_cast<const char *>(seat.cell->members[i].in) +
                        chunk(i) * sizeOf(type),
                    (chunk(i + 1) - chunk(i)) * sizeOf(type));
    return meet(seat, "all_reduce");
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind) override {
    Seat &seat = seatIn(group);
    int64_t bytes = count * sizeOf(type);
    show(seat, "reduce_scatter", in, out, bytes);
    DPC_TRY(meet(seat, "reduce_scatter", bytes));
    reduceParts(inputs(seat), out, count * seat.index, count, type, kind);
    return meet(seat, "reduce_scatter");
  }

  Status allGather(int group, const void *in, void *out,
                   int64_t bytes) override {
    Seat &seat = seatIn(group);
    show(seat, "all_gather", in, out, bytes);
    DPC_TRY(meet(seat, "all_gather", bytes));
    for (int step = 0; step < seat.size(); ++step) {
      int i = (seat.index + step) % seat.size(); // spreads the load
      std::memcpy(static_cast<char *>(out) + i * bytes,
                  seat.cell->members[i].in, bytes);
    }
    return meet(seat, "all_gather");
  }

  Status allToAll(int group, const void *in, const std::vector<int64_t> &sent,
                  void *out, const std::vector<int64_t> &received) override {
    Seat &seat = seatIn(group);
    show(seat, "all_to_all", in, out, 0);
    seat.self().sent = sent; // Others may read it after a failure of this rank.
    DPC_TRY(meet(seat, "all_to_all", 0));
    std::vector<int64_t> begins(received.size());
    std::exclusive_scan(received.begin(), received.end(), begins.begin(),
                        int64_t(0));
    for (int step = 0; step < seat.size(); ++step) {
      int i = (seat.index + step) % seat.size(); // spreads the load
      const Member &member = seat.cell->members[i];
      auto own = member.sent.begin() + seat.index;
      if (*own != received[i])
        return Status::invalid("all_to_all expects ", received[i],
                               " bytes, rank ", seat.cell->ranks[i], " sent ",
                               *own);
      if (received[i] > 0) // an empty array may have a null address
        std::memcpy(static_cast<char *>(out) + begins[i],
                    static_cast<const char *>(member.in) +
                        std::accumulate(member.sent.begin(), own, int64_t(0)),
                    received[i]);
    }
    return meet(seat, "all_to_all");
  }

  Status broadcast(int group, void *data, int64_t bytes, int root) override {
    Seat &seat = seatIn(group);
    show(seat, "broadcast", data, data, bytes);
    DPC_TRY(meet(seat, "broadcast", bytes));
    if (seat.index != root)
      std::memcpy(data, seat.cell->members[root].in, bytes);
    return meet(seat, "broadcast");
  }

  Status send(int group, const void *data, int64_t bytes, int peer,
              int64_t tag) override {
    Seat &seat = seatIn(group);
    Mailbox &box = seat.cell->boxes[seat.index * seat.size() + peer];
    const auto *from = static_cast<const char *>(data);
    {
      std::lock_guard lock(box.mutex);
      box.messages[tag].emplace_back(from, from + bytes);
    }
    box.posted.increment();
    return Status::success();
  }

  Status recv(int group, void *data, int64_t bytes, int peer,
              int64_t tag) override {
    Seat &seat = seatIn(group);
    Mailbox &box = seat.cell->boxes[peer * seat.size() + seat.index];
    double deadline = nowSeconds() + timeoutSeconds;
    std::vector<char> received;
    bool got = false, late = false;
    box.posted.waitUntil([&] {
      std::lock_guard lock(box.mutex);
      if (auto it = box.messages.find(tag); it != box.messages.end()) {
        received = std::move(it->second.front());
        it->second.pop_front();
        if (it->second.empty())
          box.messages.erase(it);
        return got = true;
      }
      late = nowSeconds() > deadline;
      return late || world->aborted.load();
    });
    if (!got)
      return late ? missing("recv with tag " + std::to_string(tag),
                            {seat.cell->ranks[peer]})
                  : cancelled();
    if (static_cast<int64_t>(received.size()) != bytes)
      return Status::invalid("recv expects ", bytes, " bytes, rank ",
                             seat.cell->ranks[peer], " sent ", received.size());
    std::memcpy(data, received.data(), bytes);
    return Status::success();
  }

  /// Does nothing, because receivers free the copies.
  Status finishSends() override { return Status::success(); }

  Status barrier(int group) override {
    Seat &seat = seatIn(group);
    show(seat, "barrier", nullptr, nullptr, 0);
    return meet(seat, "barrier");
  }

  void abort() override {
    world->aborted = true;
    std::lock_guard lock(world->mutex);
    for (auto &[id, cells] : world->cells)
      for (auto &cell : cells) {
        cell->epoch.wakeAll();
        for (Mailbox &box : cell->boxes)
          box.posted.wakeAll();
      }
  }
  bool aborted() override { return world->aborted; }
  void setTimeout(double seconds) override { timeoutSeconds = seconds; }

private:
  Seat &seatIn(int group) { return seats[group + 1]; }

  Status smallAllReduce(Seat &seat, void *data, int64_t count, DType type,
                        ReduceKind kind) {
    int64_t bytes = count * sizeOf(type);
    uint32_t slot = seat.smallCalls++ % 2;
    Member &self = seat.self();
    if (bytes > 0) // an empty array may have a null address
      std::memcpy(self.slots[slot].data(), data, bytes);
    self.slotCalls[slot] = {bytes, static_cast<int>(kind)};
    DPC_TRY(meet(seat, "all_reduce"));
    std::vector<const void *> parts;
    parts.reserve(seat.cell->members.size());
    for (const Member &member : seat.cell->members) {
      if (member.slotCalls[slot] != self.slotCalls[slot])
        return Status::invalid(
            "rank ", rankIndex, " called all_reduce of ", bytes,
            " bytes where rank ",
            seat.cell->ranks[&member - seat.cell->members.data()],
            " called something else");
      parts.push_back(member.slots[slot].data());
    }
    reduceParts(parts, data, 0, count, type, kind);
    return Status::success();
  }

  /// If `bytes` >= 0, fails unless all members made the same call.
  Status meet(Seat &seat, const char *name, int64_t bytes = -1) {
    Cell &cell = *seat.cell;
    uint32_t goal = ++seat.meetings;
    if (seat.size() == 1)
      return Status::success();
    seat.self().arrivals.store(goal);
    if (cell.waiting.fetch_add(1) + 1 == cell.ranks.size()) {
      cell.waiting.store(0);
      cell.epoch.increment();
    } else {
      double deadline = 0;
      bool late = false;
      cell.epoch.waitUntil([&] {
        if (cell.epoch.load() >= goal || world->aborted.load())
          return true;
        double now = nowSeconds();
        if (deadline == 0)
          deadline = now + timeoutSeconds;
        late = now > deadline;
        return late;
      });
      if (cell.epoch.load() < goal)
        return late ? missing(name, absent(cell, goal)) : cancelled();
    }
    return bytes < 0 ? Status::success() : compareCalls(seat, name, bytes);
  }

  Status missing(const std::string &name, const std::vector<int> &ranks) const {
    return lateRanks(rankIndex, timeoutSeconds, name, ranks);
  }
  std::shared_ptr<World> world;
  int rankIndex, worldSize;
  double timeoutSeconds;
  std::vector<Seat> seats; ///< group g has index g + 1
};

} // namespace

std::vector<std::unique_ptr<Communicator>>
makeLocalComms(int ranks, const CommOptions &options) {
  auto world = std::make_shared<World>(ranks);
  std::vector<std::unique_ptr<Communicator>> comms;
  comms.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    comms.push_back(std::make_unique<LocalComm>(world, rank, ranks,
                                                options.timeoutSeconds));
  return comms;
}

} // namespace dpc::rt
