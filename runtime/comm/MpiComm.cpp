//===- MpiComm.cpp - ranks are processes that mpirun started --------------===//
//
// Every call starts a non-blocking operation and polls it, which gives MPI the
// progress it does not make by itself and lets calls time out. To name who is
// missing, a rank that has waited long in a collective tells the other members
// so with a small note on a separate communicator; members without a note
// when time is up are the missing ones.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Wait.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mpi.h>
#include <sched.h>
#include <set>
#include <unistd.h>

namespace dpc::rt {

namespace {

/// After this long (or half the timeout) in one call, the others are told.
constexpr double kNoteSeconds = 1.0;
/// Polls before the processor is given away between polls.
constexpr int kBusyPolls = 200;
constexpr int kNoteTag = 1;

/// "Rank `from` waits in call number `call` of group `group`."
struct Note {
  int32_t group;
  uint32_t call;
};

struct GroupComm {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> ranks; ///< in the world, by index
  uint32_t calls = 0;
};

MPI_Op mpiOp(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return MPI_SUM;
  case ReduceKind::Max:
    return MPI_MAX;
  case ReduceKind::Min:
    return MPI_MIN;
  case ReduceKind::Prod:
    return MPI_PROD;
  }
  return MPI_SUM;
}

MPI_Datatype mpiType(DType type) {
  switch (type) {
  case DType::F64:
    return MPI_DOUBLE;
  case DType::I64:
    return MPI_INT64_T;
  case DType::I32:
    return MPI_INT32_T;
  default:
    return MPI_FLOAT; // 16-bit floats are widened first
  }
}

bool isHalf(DType type) { return type == DType::BF16 || type == DType::F16; }

std::vector<float> widen(const void *data, int64_t count, DType type) {
  std::vector<float> wide(count);
  const auto *bits = static_cast<const uint16_t *>(data);
  for (int64_t i = 0; i < count; ++i)
    wide[i] = type == DType::BF16 ? bf16ToFloat(bits[i]) : f16ToFloat(bits[i]);
  return wide;
}

void narrow(const std::vector<float> &wide, void *data, DType type) {
  auto *bits = static_cast<uint16_t *>(data);
  for (size_t i = 0; i < wide.size(); ++i)
    bits[i] = type == DType::BF16 ? floatToBf16(wide[i]) : floatToF16(wide[i]);
}

class MpiComm : public Communicator {
public:
  explicit MpiComm(const CommOptions &options) : options(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rankIndex);
    MPI_Comm_size(MPI_COMM_WORLD, &worldSize);
    void *limit = nullptr;
    int isSet = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &isSet);
    if (isSet)
      tagLimit = *static_cast<int *>(limit);
    GroupComm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world.comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &notes);
    MPI_Comm_set_errhandler(world.comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < worldSize; ++i)
      world.ranks.push_back(i);
    groups.push_back(std::move(world));
  }

  /// Messages on their way still need their bytes: waits for them, and gives
  /// the bytes up rather than free them under MPI when nobody receives.
  ~MpiComm() override {
    double deadline = nowSeconds() + options.timeoutSeconds;
    for (int64_t polls = 0; !sends.empty() && nowSeconds() < deadline;
         ++polls) {
      dropFinishedSends();
      rest(polls);
    }
    for (auto *list : {&sends, &noteSends})
      if (!list->empty())
        new std::deque<PendingSend>(std::move(*list));
  }

  int rank() const override { return rankIndex; }
  int size() const override { return worldSize; }

  Status makeGroups(const std::vector<Group> &made) override {
    // Splitting blocks without a timeout: first see that all are here.
    DPC_TRY(barrier(kWorldGroup));
    for (const Group &group : made)
      for (size_t color = 0; color < group.members.size(); ++color) {
        const std::vector<int> &cell = group.members[color];
        if (!std::binary_search(cell.begin(), cell.end(), rankIndex))
          continue;
        GroupComm own;
        own.ranks = cell;
        MPI_Comm_split(groups[0].comm, static_cast<int>(color), rankIndex,
                       &own.comm);
        MPI_Comm_set_errhandler(own.comm, MPI_ERRORS_RETURN);
        groups.push_back(std::move(own));
      }
    return Status::success();
  }

  Status allReduce(int group, void *data, int64_t count, DType type,
                   ReduceKind kind) override {
    if (isHalf(type)) {
      std::vector<float> wide = widen(data, count, type);
      DPC_TRY(allReduce(group, wide.data(), count, DType::F32, kind));
      narrow(wide, data, type);
      return Status::success();
    }
    auto *bytes = static_cast<char *>(data);
    for (int64_t first = 0; first < count; first += kMaxCount) {
      int part = static_cast<int>(std::min(kMaxCount, count - first));
      DPC_TRY(run(group, "all_reduce", [&](MPI_Comm comm, MPI_Request *r) {
        return MPI_Iallreduce(MPI_IN_PLACE, bytes + first * sizeOf(type), part,
                              mpiType(type), mpiOp(kind), comm, r);
      }));
    }
    return Status::success();
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind) override {
    if (isHalf(type)) {
      int64_t members = static_cast<int64_t>(at(group).ranks.size());
      std::vector<float> wide = widen(in, count * members, type), sum(count);
      DPC_TRY(reduceScatter(group, wide.data(), sum.data(), count, DType::F32,
                            kind));
      narrow(sum, out, type);
      return Status::success();
    }
    DPC_TRY(fitsCount("reduce_scatter", count));
    return run(group, "reduce_scatter", [&](MPI_Comm comm, MPI_Request *r) {
      return MPI_Ireduce_scatter_block(in, out, static_cast<int>(count),
                                       mpiType(type), mpiOp(kind), comm, r);
    });
  }

  Status allGather(int group, const void *in, void *out,
                   int64_t bytes) override {
    DPC_TRY(fitsCount("all_gather", bytes));
    int count = static_cast<int>(bytes);
    return run(group, "all_gather", [&](MPI_Comm comm, MPI_Request *r) {
      return MPI_Iallgather(in, count, MPI_BYTE, out, count, MPI_BYTE, comm, r);
    });
  }

  Status allToAll(int group, const void *in, void *out,
                  int64_t bytes) override {
    DPC_TRY(fitsCount("all_to_all", bytes));
    int count = static_cast<int>(bytes);
    return run(group, "all_to_all", [&](MPI_Comm comm, MPI_Request *r) {
      return MPI_Ialltoall(in, count, MPI_BYTE, out, count, MPI_BYTE, comm, r);
    });
  }

  Status broadcast(int group, void *data, int64_t bytes, int root) override {
    DPC_TRY(fitsCount("broadcast", bytes));
    return run(group, "broadcast", [&](MPI_Comm comm, MPI_Request *r) {
      return MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, comm, r);
    });
  }

  Status send(int group, const void *data, int64_t bytes, int peer,
              int64_t tag) override {
    DPC_TRY(fitsCount("send", bytes));
    DPC_TRY(fitsTag("send", tag));
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
    DPC_TRY(fitsTag("recv", tag));
    GroupComm &g = at(group);
    MPI_Request request;
    DPC_TRY(
        check("recv", MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer,
                                static_cast<int>(tag), g.comm, &request)));
    double deadline = nowSeconds() + options.timeoutSeconds;
    for (int64_t polls = 0;; ++polls) {
      int done = 0;
      DPC_TRY(check("recv", MPI_Test(&request, &done, MPI_STATUS_IGNORE)));
      if (done)
        return Status::success();
      dropFinishedSends();
      if (polls > kBusyPolls) {
        if (nowSeconds() > deadline)
          return missing("recv with tag " + std::to_string(tag),
                         {g.ranks[peer]});
        rest(polls);
      }
    }
  }

  Status finishSends() override {
    double deadline = nowSeconds() + options.timeoutSeconds;
    for (int64_t polls = 0; !sends.empty(); ++polls) {
      dropFinishedSends();
      if (polls > kBusyPolls) {
        if (nowSeconds() > deadline)
          return missing("send", {sends.front().to});
        rest(polls);
      }
    }
    return Status::success();
  }

  Status barrier(int group) override {
    return run(group, "barrier", [&](MPI_Comm comm, MPI_Request *r) {
      return MPI_Ibarrier(comm, r);
    });
  }

  /// MPI has no survivors: the job ends, with this process's status.
  void abort() override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

private:
  /// MPI counts are int; this also keeps a part in whole pages.
  static constexpr int64_t kMaxCount = int64_t(1) << 28;

  struct PendingSend {
    int to = 0; ///< rank in the world
    std::vector<char> data;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  GroupComm &at(int group) { return groups[group + 1]; }

  static Status fitsCount(const char *name, int64_t count) {
    if (count <= INT_MAX)
      return Status::success();
    return Status::unsupported(
        std::string(name) + " of " + std::to_string(count) +
        " bytes or elements: MPI takes at most " + std::to_string(INT_MAX));
  }

  Status fitsTag(const char *name, int64_t tag) const {
    if (tag <= tagLimit)
      return Status::success();
    return Status::unsupported(
        std::string(name) + " with tag " + std::to_string(tag) +
        ": this MPI library takes at most " + std::to_string(tagLimit) +
        " (tags times micro-batches)");
  }

  static Status check(const char *name, int error) {
    if (error == MPI_SUCCESS)
      return Status::success();
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(error, text, &length);
    return Status::io(std::string(name) + ": " + std::string(text, length));
  }

  /// Starts an operation on a group and polls it to its end.
  template <typename Start>
  Status run(int group, const char *name, Start &&start) {
    GroupComm &g = at(group);
    ++g.calls;
    if (g.ranks.size() > 1)
      dropFinishedSends();
    MPI_Request request;
    DPC_TRY(check(name, start(g.comm, &request)));
    double began = 0,
           noteAfter = std::min(kNoteSeconds, options.timeoutSeconds / 2);
    bool noted = false;
    for (int64_t polls = 0;; ++polls) {
      int done = 0;
      DPC_TRY(check(name, MPI_Test(&request, &done, MPI_STATUS_IGNORE)));
      if (done)
        return Status::success();
      if (polls < kBusyPolls)
        continue;
      double now = nowSeconds();
      if (began == 0)
        began = now;
      if (!noted && now - began > noteAfter) {
        sendNotes(group);
        noted = true;
      }
      // The extra time lets notes of members that came late arrive.
      if (now - began > options.timeoutSeconds + 1.2 * noteAfter)
        return missing(name, absent(group));
      rest(polls);
    }
  }

  /// Gives the processor away: ranks may outnumber cores.
  static void rest(int64_t polls) {
    if (polls < 20 * kBusyPolls)
      sched_yield();
    else
      usleep(50);
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

  Status missing(const std::string &name, const std::vector<int> &ranks) const {
    std::string list;
    for (int rank : ranks)
      list += (list.empty() ? "" : ", ") + std::to_string(rank);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", options.timeoutSeconds);
    return {Code::Timeout, "rank " + std::to_string(rankIndex) + " waited " +
                               seconds + " s in " + name + " for rank " +
                               (list.empty() ? "(all came late)" : list)};
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
  int64_t tagLimit = 32767; ///< what MPI promises at least
  MPI_Comm notes = MPI_COMM_NULL;
  std::vector<GroupComm> groups; ///< [0] is the world, [g + 1] group g
  /// Addresses stay while growing at the end.
  std::deque<PendingSend> sends, noteSends;
};

void finalizeMpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized)
    MPI_Finalize();
}

} // namespace

bool hasMpi() { return true; }

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
