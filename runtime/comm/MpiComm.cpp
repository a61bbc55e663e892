//===- MpiComm.cpp - ranks are processes of mpirun ------------------------===//
//
// Every call starts non-blocking operations and polls them, because MPI makes
// progress only during calls, and because blocking operations have no timeout.
// Polls become rarer while a call waits, to leave the cores to computation. A
// rank that has waited long in a collective sends the other members a note on a
// separate communicator. At the timeout, a rank reports the members that have
// sent no note as missing.
//
// In a reduction, all pairs of members exchange messages at the same time, so
// that links carry data in both directions. (MPI's reduction between two ranks
// uses one direction after the other.) The order of the terms is the order of
// the members, so results are bitwise equal on all members and equal to those
// of LocalComm.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Wait.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mpi.h>
#include <new>
#include <sched.h>
#include <set>
#include <unistd.h>

namespace dpc::rt {

namespace {

/// A rank sends notes after this time or half of the timeout, if shorter.
constexpr double kNoteSeconds = 1.0;
/// An all_reduce sends a slice of at most this size undivided to each member.
constexpr int64_t kOneRoundBytes = 4096;
/// Limits the memory for received data: reductions run in batches of this size.
constexpr int64_t kBatchBytes = int64_t(4) << 20;
constexpr int kNoteTag = 1;

/// The sender waits in call number `call` of `group`.
struct Note {
  int32_t group;
  uint32_t call;
};

struct GroupComm {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> ranks; ///< world rank of each member
  int index = 0;          ///< of this rank
  uint32_t calls = 0;
  int size() const { return static_cast<int>(ranks.size()); }
};

struct Transfer {
  int peer = 0; ///< index in the group
  const void *out = nullptr;
  int64_t outBytes = 0;
  void *in = nullptr;
  int64_t inBytes = 0;
};

/// Divides the reduction of an array: member i reduces `length(i)` elements
/// from `first(i)` on. If `stride` is 0, every member reduces all elements.
struct Shares {
  char *data = nullptr;
  DType type = DType::F32;
  int64_t count = 0, stride = 0, longest = 0;

  int64_t first(int member) const { return std::min(count, member * stride); }
  int64_t length(int member) const {
    return std::min(longest, count - first(member));
  }
  char *at(int member) const { return data + first(member) * sizeOf(type); }
  int64_t bytes(int member) const { return length(member) * sizeOf(type); }
};

/// Pauses between two polls: not in the first 20 us, then yields the core, then
/// sleeps for a quarter of the time waited so far, at most 0.2 ms. A longer
/// sleep could stop a fast link: in 0.2 ms, a link of 100 Gbit/s carries 2.5
/// MB, which the buffers of the kernel can hold.
class Patience {
public:
  double waited() const { return nowSeconds() - began; }
  void rest() const {
    double seconds = waited();
    if (seconds < kBusySeconds)
      return;
    if (seconds < kYieldSeconds)
      sched_yield();
    else
      usleep(static_cast<useconds_t>(
          1e6 * std::min(seconds / 4, kLongestRestSeconds)));
  }

private:
  static constexpr double kBusySeconds = 20e-6, kYieldSeconds = 100e-6,
                          kLongestRestSeconds = 200e-6;
  double began = nowSeconds();
};

Status fitsCount(const char *name, int64_t count) {
  if (count <= INT_MAX)
    return Status::success();
  return Status::unsupported(name, " of ", count,
                             " bytes or elements: MPI takes at most ", INT_MAX);
}

Status fitsTag(const char *name, int64_t tag, int tagLimit) {
  if (tag < tagLimit)
    return Status::success();
  return Status::unsupported(name, " with tag ", tag,
                             ": this MPI library takes at most ", tagLimit - 1,
                             " (a plan uses each tag once per micro-batch)");
}

Status check(const char *name, int error) {
  if (error == MPI_SUCCESS)
    return Status::success();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, text, &length);
  return Status::io(name, ": ", std::string(text, length));
}

/// Returns the other members in an order that begins with the next one, so that
/// not all members send to the same peer first.
std::vector<int> others(const GroupComm &g) {
  std::vector<int> peers;
  for (int step = 1; step < g.size(); ++step)
    peers.push_back((g.index + step) % g.size());
  return peers;
}

int64_t alignUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

MPI_Request *newIn(std::vector<MPI_Request> &requests) {
  return &requests.emplace_back(MPI_REQUEST_NULL);
}

class MpiComm : public Communicator {
public:
  explicit MpiComm(const CommOptions &options) : options(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rankIndex);
    MPI_Comm_size(MPI_COMM_WORLD, &worldSize);
    assert((options.ranks.empty() ||
            static_cast<int>(options.ranks.size()) == worldSize) &&
           "a rank for every process");
    if (!options.ranks.empty())
      rankIndex = options.ranks[rankIndex];
    void *limit = nullptr;
    int isSet = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void *>(&limit),
                      &isSet);
    if (isSet)
      tagLimit = *static_cast<int *>(limit);
    GroupComm world;
    // Ranks may be in a different order than processes.
    MPI_Comm_split(MPI_COMM_WORLD, 0, rankIndex, &world.comm);
    MPI_Comm_dup(world.comm, &notes);
    MPI_Comm_set_errhandler(world.comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < worldSize; ++i)
      world.ranks.push_back(i);
    world.index = rankIndex;
    groups.push_back(std::move(world));
  }

  /// Waits for messages in transit, because MPI reads their memory. After the
  /// timeout, leaks the memory of messages that were not received.
  ~MpiComm() override {
    for (Patience patience;
         !sends.empty() && patience.waited() < options.timeoutSeconds;) {
      dropFinishedSends();
      patience.rest();
    }
    for (auto *list : {&sends, &noteSends})
      if (!list->empty())
        new (std::nothrow) std::deque<PendingSend>(std::move(*list));
  }

  int rank() const override { return rankIndex; }
  int size() const override { return worldSize; }

  Status makeGroups(const std::vector<Group> &made) override {
    // MPI_Comm_split has no timeout, so all ranks must be present first.
    DPC_TRY(barrier(kWorldGroup));
    for (const Group &group : made)
      for (size_t color = 0; color < group.members.size(); ++color) {
        const std::vector<int> &cell = group.members[color];
        if (!std::binary_search(cell.begin(), cell.end(), rankIndex))
          continue;
        GroupComm own;
        own.ranks = cell;
        own.index = static_cast<int>(
            std::lower_bound(cell.begin(), cell.end(), rankIndex) -
            cell.begin());
        MPI_Comm_split(groups[0].comm, static_cast<int>(color), rankIndex,
                       &own.comm);
        MPI_Comm_set_errhandler(own.comm, MPI_ERRORS_RETURN);
        groups.push_back(std::move(own));
      }
    return Status::success();
  }

  Status allReduce(int group, const std::vector<Slice> &slices,
                   ReduceKind kind) override {
    std::vector<Slice> batch;
    int64_t bytes = 0;
    for (const Slice &slice : slices) {
      int64_t size = sizeOf(slice.type), longest = kBatchBytes / size;
      for (int64_t first = 0; first < slice.count; first += longest) {
        int64_t count = std::min(longest, slice.count - first);
        if (bytes + count * size > kBatchBytes) {
          DPC_TRY(allReduceBatch(group, batch, kind));
          batch.clear();
          bytes = 0;
        }
        batch.push_back({static_cast<char *>(slice.data) + first * size, count,
                         slice.type});
        bytes += count * size;
      }
    }
    return allReduceBatch(group, batch, kind);
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind) override {
    int64_t size = sizeOf(type), longest = kBatchBytes / size;
    char *from = static_cast<char *>(const_cast<void *>(in)); // only read
    for (int64_t first = 0; first < count; first += longest) {
      Shares shares{from + first * size, type, count * at(group).size(), count,
                    std::min(longest, count - first)};
      DPC_TRY(reduceShares(group, "reduce_scatter", {shares},
                           {static_cast<char *>(out) + first * size}, kind));
    }
    return Status::success();
  }

  Status allGather(int group, const void *in, void *out,
                   int64_t bytes) override {
    DPC_TRY(fitsCount("all_gather", bytes));
    auto *to = static_cast<char *>(out);
    std::memcpy(to + at(group).index * bytes, in, bytes);
    std::vector<Transfer> transfers;
    for (int peer : others(at(group)))
      transfers.push_back({peer, in, bytes, to + peer * bytes, bytes});
    return exchange(group, "all_gather", transfers);
  }

  Status allToAll(int group, const void *in, const std::vector<int64_t> &sent,
                  void *out, const std::vector<int64_t> &received) override {
    std::vector<Transfer> transfers;
    const auto *from = static_cast<const char *>(in);
    auto *to = static_cast<char *>(out);
    for (int peer = 0; peer < at(group).size(); ++peer) {
      DPC_TRY(fitsCount("all_to_all", std::max(sent[peer], received[peer])));
      transfers.push_back({peer, from, sent[peer], to, received[peer]});
      from += sent[peer];
      to += received[peer];
    }
    const Transfer &own = transfers[at(group).index];
    if (own.inBytes > 0) // an empty array may have a null address
      std::memcpy(own.in, own.out, own.inBytes);
    // The next member first, so that not all members send to the same peer.
    std::rotate(transfers.begin(), transfers.begin() + at(group).index,
                transfers.end());
    transfers.erase(transfers.begin());
    return exchange(group, "all_to_all", transfers);
  }

  Status broadcast(int group, void *data, int64_t bytes, int root) override {
    DPC_TRY(fitsCount("broadcast", bytes));
    return run(group, "broadcast", [&](MPI_Comm comm) {
      return MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, comm,
                        newIn(requests));
    });
  }

  Status send(int group, const void *data, int64_t bytes, int peer,
              int64_t tag) override {
    DPC_TRY(fitsCount("send", bytes));
    DPC_TRY(fitsTag("send", tag, tagLimit));
    dropFinishedSends();
    const auto *from = static_cast<const char *>(data);
    PendingSend &pending = sends.emplace_back();
    pending.to = at(group).ranks[peer];
    pending.data.assign(from, from + bytes);
    return check("send", MPI_Isend(pending.data.data(), static_cast<int>(bytes),
                                   MPI_BYTE, peer, static_cast<int>(tag),
                                   at(group).comm, &pending.request));
  }

  Status recv(int group, void *data, int64_t bytes, int peer,
              int64_t tag) override {
    DPC_TRY(fitsCount("recv", bytes));
    DPC_TRY(fitsTag("recv", tag, tagLimit));
    GroupComm &g = at(group);
    MPI_Request request;
    DPC_TRY(
        check("recv", MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer,
                                static_cast<int>(tag), g.comm, &request)));
    for (Patience patience;; patience.rest()) {
      int done = 0;
      DPC_TRY(check("recv", MPI_Test(&request, &done, MPI_STATUS_IGNORE)));
      if (done)
        return Status::success();
      dropFinishedSends();
      if (patience.waited() > options.timeoutSeconds)
        return lateRanks(rankIndex, options.timeoutSeconds,
                         "recv with tag " + std::to_string(tag),
                         {g.ranks[peer]});
    }
  }

  Status finishSends() override {
    for (Patience patience; !sends.empty(); patience.rest()) {
      dropFinishedSends();
      if (!sends.empty() && patience.waited() > options.timeoutSeconds)
        return lateRanks(rankIndex, options.timeoutSeconds, "send",
                         {sends.front().to});
    }
    return Status::success();
  }

  Status barrier(int group) override {
    return run(group, "barrier", [&](MPI_Comm comm) {
      return MPI_Ibarrier(comm, newIn(requests));
    });
  }

  void abort() override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  void setTimeout(double seconds) override { options.timeoutSeconds = seconds; }

private:
  struct PendingSend {
    int to = 0; ///< rank in the world
    std::vector<char> data;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  GroupComm &at(int group) { return groups[group + 1]; }

  /// Waits for the operations that `start` adds by newIn(requests).
  template <typename Start>
  Status run(int group, const char *name, Start &&start) {
    GroupComm &g = at(group);
    ++g.calls;
    if (g.size() > 1)
      dropFinishedSends();
    requests.clear();
    Status status = check(name, start(g.comm));
    if (status.ok())
      status = finish(group, name);
    if (!status.ok()) // unfinished operations may still write to it
      new std::vector<char>(std::move(scratch));
    return status;
  }

  Status finish(int group, const char *name) {
    double noteAfter = std::min(kNoteSeconds, options.timeoutSeconds / 2);
    bool noted = false;
    for (Patience patience;; patience.rest()) {
      int done = 0;
      DPC_TRY(check(name,
                    MPI_Testall(static_cast<int>(requests.size()),
                                requests.data(), &done, MPI_STATUSES_IGNORE)));
      if (done)
        return Status::success();
      double waited = patience.waited();
      if (!noted && waited > noteAfter) {
        sendNotes(group);
        noted = true;
      }
      // Waits a little longer for notes of members that arrived late.
      if (waited > options.timeoutSeconds + 1.2 * noteAfter)
        return lateRanks(rankIndex, options.timeoutSeconds, name,
                         absent(group));
    }
  }

  /// Runs all transfers concurrently. Starts sends before receives: MPI
  /// transmits a long message only when the receiver requests it, and a member
  /// that first answered the requests of others would delay its own sends.
  Status exchange(int group, const char *name,
                  const std::vector<Transfer> &transfers) {
    if (transfers.empty())
      return Status::success();
    return run(group, name, [&](MPI_Comm comm) {
      for (const Transfer &t : transfers)
        if (t.outBytes > 0)
          if (int error =
                  MPI_Isend(t.out, static_cast<int>(t.outBytes), MPI_BYTE,
                            t.peer, tagLimit, comm, newIn(requests)))
            return error;
      for (const Transfer &t : transfers)
        if (t.inBytes > 0)
          if (int error = MPI_Irecv(t.in, static_cast<int>(t.inBytes), MPI_BYTE,
                                    t.peer, tagLimit, comm, newIn(requests)))
            return error;
      return MPI_SUCCESS;
    });
  }

  /// For each array i, reduces the share of this member over all members into
  /// outs[i], which may be the share itself.
  Status reduceShares(int group, const char *name,
                      const std::vector<Shares> &all,
                      const std::vector<char *> &outs, ReduceKind kind) {
    int own = at(group).index, size = at(group).size();
    int64_t kept = 0;
    for (const Shares &shares : all)
      kept += (size - 1) * alignUp(shares.bytes(own));
    scratch.resize(std::max<size_t>(scratch.size(), kept));
    char *next = scratch.data();
    std::vector<std::vector<const void *>> parts(all.size());
    std::vector<Transfer> transfers;
    for (size_t i = 0; i < all.size(); ++i) {
      parts[i].assign(size, all[i].at(own));
      for (int peer : others(at(group))) {
        transfers.push_back({peer, all[i].at(peer), all[i].bytes(peer), next,
                             all[i].bytes(own)});
        parts[i][peer] = next;
        next += alignUp(all[i].bytes(own));
      }
    }
    DPC_TRY(exchange(group, name, transfers));
    for (size_t i = 0; i < all.size(); ++i)
      reduceParts(parts[i], outs[i], 0, all[i].length(own), all[i].type, kind);
    return Status::success();
  }

  /// Each member reduces its share and sends the result to the other members.
  /// Small slices, and all slices in groups of two, are instead sent as a whole
  /// and reduced by every member, which takes one round.
  Status allReduceBatch(int group, const std::vector<Slice> &batch,
                        ReduceKind kind) {
    int own = at(group).index, size = at(group).size();
    std::vector<Shares> all;
    std::vector<char *> outs;
    std::vector<Transfer> rest;
    for (const Slice &slice : batch) {
      auto *data = static_cast<char *>(slice.data);
      bool whole =
          size == 2 || slice.count * sizeOf(slice.type) <= kOneRoundBytes;
      int64_t part = (slice.count + size - 1) / size;
      Shares shares{data, slice.type, slice.count, whole ? 0 : part,
                    whole ? slice.count : part};
      all.push_back(shares);
      outs.push_back(shares.at(own));
      if (whole)
        continue;
      for (int peer : others(at(group)))
        rest.push_back({peer, shares.at(own), shares.bytes(own),
                        shares.at(peer), shares.bytes(peer)});
    }
    DPC_TRY(reduceShares(group, "all_reduce", all, outs, kind));
    return exchange(group, "all_reduce", rest);
  }

  void sendNotes(int group) {
    const GroupComm &g = at(group);
    for (int rank : g.ranks) {
      if (rank == rankIndex)
        continue;
      PendingSend &pending = noteSends.emplace_back();
      Note note{group, g.calls};
      pending.data.resize(sizeof note);
      std::memcpy(pending.data.data(), &note, sizeof note);
      MPI_Isend(pending.data.data(), sizeof note, MPI_BYTE, rank, kNoteTag,
                notes, &pending.request);
    }
  }

  std::vector<int> absent(int group) {
    const GroupComm &g = at(group);
    std::set<int> here{rankIndex};
    int found = 1;
    while (true) {
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, notes, &found, &status);
      if (!found)
        break;
      Note note;
      MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, kNoteTag, notes,
               MPI_STATUS_IGNORE);
      if (note.group == group && note.call == g.calls)
        here.insert(status.MPI_SOURCE);
    }
    std::vector<int> ranks;
    for (int rank : g.ranks)
      if (!here.count(rank))
        ranks.push_back(rank);
    return ranks;
  }

  void dropFinishedSends() {
    for (auto *list : {&sends, &noteSends})
      while (!list->empty()) {
        int done = 0;
        MPI_Test(&list->front().request, &done, MPI_STATUS_IGNORE);
        if (!done)
          break;
        list->pop_front();
      }
  }

  CommOptions options;
  int rankIndex = 0, worldSize = 1;
  /// The largest tag, which exchange() uses. MPI allows at least 32767.
  int tagLimit = 32767;
  MPI_Comm notes = MPI_COMM_NULL;
  std::vector<GroupComm> groups; ///< group g has index g + 1
  /// A deque, because MPI uses the addresses of the elements.
  std::deque<PendingSend> sends, noteSends;
  std::vector<MPI_Request> requests; ///< of the current call
  std::vector<char> scratch;         ///< received data to reduce
};

void finalizeMpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized)
    MPI_Finalize();
}

} // namespace

bool hasMpi() { return true; }

std::string mpiLibrary() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  // Details follow after a comma (Open MPI) or a line end (other libraries).
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
    return "of unknown version";
  std::string name(text, static_cast<size_t>(length));
  return name.substr(0, name.find_first_of(",\n"));
}

Expected<std::unique_ptr<Communicator>>
makeMpiComm(const CommOptions &options) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE)
      return Status::unsupported(
          "--comm=mpi: this MPI library does not allow calls from several "
          "threads (MPI_THREAD_MULTIPLE)");
    std::atexit(finalizeMpi);
  }
  return std::unique_ptr<Communicator>(std::make_unique<MpiComm>(options));
}

} // namespace dpc::rt
