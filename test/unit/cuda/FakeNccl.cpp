#include "test/unit/cuda/FakeNccl.h"

#include "runtime/comm/Reduce.h"
#include "test/unit/cuda/FakeCuda.h"

#include <atomic>
#include <cstring>
#include <deque>

namespace dpc::rt::test {

namespace {

enum class CallKind {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Send,
  Recv
};

/// One call of one rank.
struct Call {
  CallKind kind = CallKind::AllReduce;
  const void *in = nullptr;
  void *out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclUint8;
  int op = ncclSum;
  int peer = 0; ///< or the root
  bool fits(const Call &other) const {
    return kind == other.kind && count == other.count && type == other.type &&
           op == other.op && peer == other.peer;
  }
};

/// One collective, which all ranks of the communicator join.
struct Meeting {
  std::map<int, Call> calls; ///< by rank
  size_t left = 0;
  bool isDone = false, isBroken = false;
};

/// One end of a message.
struct Post {
  Call call;
  bool isDone = false, isBroken = false;
};

/// What the ranks of a communicator share.
struct Clique {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 0, joined = 0;
  ncclResult_t error = ncclSuccess;
  std::string lastError;
  std::map<uint64_t, Meeting> meetings;
  /// By sender and receiver.
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Post>>> sends, recvs;
  /// One ncclCommSplit of all ranks: the color and key that each rank passes,
  /// and then its new clique and rank.
  struct Split {
    std::map<int, std::pair<int, int>> wishes;
    std::map<int, std::pair<std::shared_ptr<Clique>, int>> places;
  };
  std::map<uint64_t, Split> splits;
};

struct Comm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  uint64_t met = 0, splits = 0;
  std::atomic<bool> isAborted{false};
  std::atomic<int> busyLooks{0}; ///< polls that return ncclInProgress
  bool isFinalized = false;      ///< whether ncclCommFinalize was called
  std::map<int, double> scales;  ///< by reduction operator
  /// Null unless ncclCommSplit waits for other ranks.
  std::shared_ptr<Clique> parent;
  uint64_t parentSplit = 0;
  int parentRank = 0;
};

std::atomic<int> callsUntilBreak{0}, misuses{0}, groups{0};
std::atomic<bool> stalls{false}, refuses{false};

ncclResult_t misuse() {
  ++misuses;
  return ncclInvalidUsage;
}

std::shared_ptr<Comm> &commOf(ncclComm_t comm) {
  return *reinterpret_cast<std::shared_ptr<Comm> *>(comm);
}
ncclComm_t handleOf(std::shared_ptr<Comm> comm) {
  return reinterpret_cast<ncclComm_t>(
      new std::shared_ptr<Comm>(std::move(comm)));
}

std::optional<DType> typeOf(ncclDataType_t type) {
  switch (type) {
  case ncclFloat32:
    return DType::F32;
  case ncclFloat64:
    return DType::F64;
  case ncclBfloat16:
    return DType::BF16;
  case ncclFloat16:
    return DType::F16;
  case ncclInt64:
    return DType::I64;
  case ncclInt32:
    return DType::I32;
  case ncclUint8:
    return DType::U8;
  default:
    return std::nullopt;
  }
}

ReduceKind kindOf(int op) {
  return op == ncclProd  ? ReduceKind::Prod
         : op == ncclMax ? ReduceKind::Max
         : op == ncclMin ? ReduceKind::Min
                         : ReduceKind::Sum;
}

/// Multiplies the inputs of all ranks by `scale` and reduces them.
std::vector<char> reduced(const Meeting &meeting, const Call &call, DType type,
                          size_t elements, double scale) {
  std::vector<std::vector<char>> scaled;
  std::vector<const void *> parts;
  for (const auto &[rank, each] : meeting.calls) {
    const void *part = each.in;
    if (scale != 1) {
      auto &copy = scaled.emplace_back(elements * sizeOf(type));
      for (size_t i = 0; i < elements; ++i)
        storeFromDouble(copy.data(), type, static_cast<int64_t>(i),
                        scale *
                            loadAsDouble(part, type, static_cast<int64_t>(i)));
      part = copy.data();
    }
    parts.push_back(part);
  }
  std::vector<char> out(elements * sizeOf(type));
  reduceParts(parts, out.data(), 0, static_cast<int64_t>(elements), type,
              kindOf(call.op));
  return out;
}

void perform(Meeting &meeting, const Comm &comm) {
  const Call &call = meeting.calls.begin()->second;
  DType type = *typeOf(call.type);
  size_t bytes = call.count * sizeOf(type), size = meeting.calls.size();
  std::vector<char> all;
  if (call.kind == CallKind::AllReduce ||
      call.kind == CallKind::ReduceScatter) {
    auto it = comm.scales.find(call.op);
    all = reduced(meeting, call, type,
                  call.count * (call.kind == CallKind::AllReduce ? 1 : size),
                  it == comm.scales.end() ? 1 : it->second);
  } else if (call.kind == CallKind::AllGather) {
    for (const auto &[rank, each] : meeting.calls)
      all.insert(all.end(), static_cast<const char *>(each.in),
                 static_cast<const char *>(each.in) + bytes);
  } else {
    const auto *root = static_cast<const char *>(meeting.calls[call.peer].in);
    all.assign(root, root + bytes);
  }
  for (const auto &[rank, each] : meeting.calls)
    if (call.kind == CallKind::ReduceScatter)
      std::memcpy(each.out, all.data() + bytes * rank, bytes);
    else
      std::memcpy(each.out, all.data(), all.size());
}

/// Joins a collective and blocks the stream until all ranks have joined.
void meet(Comm &comm, const Call &call) {
  Clique &clique = *comm.clique;
  std::unique_lock lock(clique.mutex);
  uint64_t number = comm.met++;
  Meeting &meeting = clique.meetings[number];
  meeting.calls[comm.rank] = call;
  for (const auto &[rank, other] : meeting.calls)
    if (!call.fits(other)) {
      clique.error = ncclInvalidUsage;
      clique.lastError = "ranks " + std::to_string(rank) + " and " +
                         std::to_string(comm.rank) +
                         " call different collectives";
    }
  if (clique.error == ncclSuccess && !meeting.isBroken &&
      meeting.calls.size() == static_cast<size_t>(clique.size)) {
    perform(meeting, comm);
    meeting.isDone = true;
  }
  clique.changed.notify_all();
  clique.changed.wait(lock, [&] { return meeting.isDone || comm.isAborted; });
  meeting.isBroken |= !meeting.isDone;
  if (++meeting.left == static_cast<size_t>(clique.size))
    clique.meetings.erase(number);
}

/// Blocks the stream until all messages of an NCCL group have moved.
void exchange(Comm &comm, const std::vector<Call> &calls) {
  Clique &clique = *comm.clique;
  std::unique_lock lock(clique.mutex);
  std::vector<std::shared_ptr<Post>> own;
  for (const Call &call : calls) {
    bool sends = call.kind == CallKind::Send;
    auto pair = sends ? std::pair(comm.rank, call.peer)
                      : std::pair(call.peer, comm.rank);
    auto post = std::make_shared<Post>(Post{call});
    own.push_back(post);
    auto &others = (sends ? clique.recvs : clique.sends)[pair];
    if (others.empty()) {
      (sends ? clique.sends : clique.recvs)[pair].push_back(post);
      continue;
    }
    std::shared_ptr<Post> other = others.front();
    others.pop_front();
    if (other->isBroken)
      continue; // the peer aborted, so this end never finishes
    if (other->call.count != call.count) {
      clique.error = ncclInvalidUsage;
      clique.lastError = "a message's ends differ in size";
      continue;
    }
    std::memcpy(sends ? other->call.out : call.out,
                sends ? call.in : other->call.in, call.count);
    post->isDone = other->isDone = true;
  }
  clique.changed.notify_all();
  clique.changed.wait(lock, [&] {
    bool all = true;
    for (const auto &post : own)
      all &= post->isDone;
    return all || comm.isAborted;
  });
  for (const auto &post : own)
    post->isBroken |= !post->isDone;
}

/// A call of this thread after ncclGroupStart and before ncclGroupEnd.
struct Pending {
  std::shared_ptr<Comm> comm;
  Call call;
  cudaStream_t stream;
};
thread_local int groupDepth = 0;
thread_local std::vector<Pending> pending;

ncclResult_t flush() {
  std::map<std::pair<Comm *, cudaStream_t>, std::vector<Pending>> messages;
  std::vector<Pending> calls = std::move(pending);
  pending.clear();
  groups += !calls.empty();
  for (const Pending &each : calls) {
    each.comm->busyLooks = 2;
    if (int left = callsUntilBreak; left > 0 && --callsUntilBreak == 0) {
      std::lock_guard lock(each.comm->clique->mutex);
      each.comm->clique->error = ncclRemoteError;
      each.comm->clique->lastError = "a peer closed its connection";
    }
    if (each.call.kind == CallKind::Send || each.call.kind == CallKind::Recv)
      messages[{each.comm.get(), each.stream}].push_back(each);
    else
      enqueueOn(each.stream, [each] { meet(*each.comm, each.call); });
  }
  for (const auto &[key, list] : messages) {
    std::vector<Call> ends;
    for (const Pending &each : list)
      ends.push_back(each.call);
    enqueueOn(key.second,
              [comm = list.front().comm, ends] { exchange(*comm, ends); });
  }
  return ncclInProgress;
}

ncclResult_t add(ncclComm_t comm, const Call &call, cudaStream_t stream) {
  if (!typeOf(call.type))
    return ncclInvalidArgument;
  if (commOf(comm)->isFinalized)
    return misuse();
  pending.push_back({commOf(comm), call, stream});
  return groupDepth > 0 ? ncclSuccess : flush();
}

/// Creates the new cliques after the last rank's ncclCommSplit.
void settleSplit(Clique &parent, Clique::Split &split) {
  if (split.wishes.size() < static_cast<size_t>(parent.size))
    return;
  std::map<int, std::map<std::pair<int, int>, int>> colors; // (key, rank)
  for (auto [rank, wish] : split.wishes)
    colors[wish.first][{wish.second, rank}] = rank;
  for (const auto &[color, members] : colors) {
    auto clique = std::make_shared<Clique>();
    clique->size = clique->joined = static_cast<int>(members.size());
    int index = 0;
    for (const auto &[key, rank] : members)
      split.places[rank] = {clique, index++};
  }
}

bool isReady(Comm &comm) {
  if (comm.parent) {
    std::lock_guard lock(comm.parent->mutex);
    Clique::Split &split = comm.parent->splits[comm.parentSplit];
    auto it = split.places.find(comm.parentRank);
    if (it == split.places.end())
      return false;
    std::tie(comm.clique, comm.rank) = it->second;
    comm.parent = nullptr;
    return true;
  }
  std::lock_guard lock(comm.clique->mutex);
  return comm.clique->joined == comm.clique->size;
}

std::mutex worldsMutex;
std::map<std::string, std::shared_ptr<Clique>> worlds; ///< by unique id
std::atomic<int> nextId{1};

} // namespace

NcclApi fakeNcclApi() {
  NcclApi api;
  api.link();
  return api;
}

void breakFakeNccl(int calls) { callsUntilBreak = calls; }
int fakeNcclMisuses() { return misuses; }
int fakeNcclGroups() { return groups; }
void refuseFakeNcclWorlds(bool refuse) { refuses = refuse; }
void stallFakeNcclEnds(bool stall) { stalls = stall; }

} // namespace dpc::rt::test

using namespace dpc::rt::test;

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION(2, 19, 3); // may be older than the headers
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error"
         : result == ncclSuccess   ? "no error"
                                   : "an error of the fake";
}
const char *ncclGetLastError(ncclComm_t comm) {
  return comm && commOf(comm)->clique ? commOf(comm)->clique->lastError.c_str()
                                      : "";
}
ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess
                                                  : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void *memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommRegister(ncclComm_t, void *memory, size_t, void **handle) {
  *handle = memory;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t, void *) { return ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::memset(id, 0, sizeof *id);
  int number = nextId++;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id,
                                    int rank, ncclConfig_t *config) {
  if (config->blocking != 0)
    return ncclInvalidUsage; // calls of blocking communicators have no timeout
  auto made = std::make_shared<Comm>();
  made->rank = rank;
  {
    std::lock_guard lock(worldsMutex);
    auto &clique = worlds[std::string(id.internal, sizeof id.internal)];
    if (!clique)
      clique = std::make_shared<Clique>();
    made->clique = clique;
  }
  {
    std::lock_guard lock(made->clique->mutex);
    made->clique->size = size;
    ++made->clique->joined;
    if (refuses && made->clique->error == ncclSuccess) {
      made->clique->error = ncclInvalidUsage;
      made->clique->lastError = "Duplicate GPU detected";
    }
  }
  *comm = handleOf(std::move(made));
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t *made, ncclConfig_t *config) {
  if (config->blocking != 0)
    return ncclInvalidUsage;
  Comm &parent = *commOf(comm);
  auto child = std::make_shared<Comm>();
  child->parent = parent.clique;
  child->parentSplit = parent.splits++;
  child->parentRank = parent.rank;
  {
    std::lock_guard lock(parent.clique->mutex);
    Clique::Split &split = parent.clique->splits[child->parentSplit];
    split.wishes[parent.rank] = {color, key};
    settleSplit(*parent.clique, split);
  }
  *made = handleOf(std::move(child));
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error) {
  Comm &comm = *commOf(handle);
  bool isBusy = comm.busyLooks > 0 || (comm.isFinalized && stalls);
  if (comm.busyLooks > 0)
    --comm.busyLooks;
  if (!isReady(comm) || isBusy) {
    *error = ncclInProgress;
    return ncclSuccess;
  }
  std::lock_guard lock(comm.clique->mutex);
  *error = comm.clique->error;
  return ncclSuccess;
}

/// NCCL finalizes in a thread, so several polls return ncclInProgress.
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Comm &comm = *commOf(handle);
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(handle, &state);
  if (state == ncclSuccess && comm.isFinalized)
    return misuse();
  if (state != ncclSuccess)
    return ncclInvalidArgument;
  comm.isFinalized = true;
  comm.busyLooks = 5;
  return ncclInProgress;
}
/// NCCL would wait for finalization without a timeout.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  bool isAtEnd = commOf(comm)->isFinalized && commOf(comm)->busyLooks == 0 &&
                 commOf(comm)->scales.empty();
  delete &commOf(comm);
  return isAtEnd ? ncclSuccess : misuse();
}
/// As in NCCL, other ranks continue to wait.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::shared_ptr<Comm> own = commOf(comm);
  own->isAborted = true;
  if (own->clique) {
    std::lock_guard lock(own->clique->mutex);
    own->clique->changed.notify_all();
  }
  delete &commOf(comm);
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                      ncclDataType_t type,
                                      ncclScalarResidence_t residence,
                                      ncclComm_t comm) {
  if (residence != ncclScalarHostImmediate || !typeOf(type))
    return ncclInvalidArgument;
  auto &scales = commOf(comm)->scales;
  int made = ncclNumOps + static_cast<int>(scales.size());
  scales[made] = dpc::rt::loadAsDouble(scalar, *typeOf(type), 0);
  *op = static_cast<ncclRedOp_t>(made);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  bool isThere = commOf(comm)->scales.erase(op) == 1;
  return isThere ? ncclSuccess : misuse();
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, {CallKind::AllReduce, in, out, count, type, op, 0}, stream);
}
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {CallKind::ReduceScatter, in, out, count, type, op, 0},
             stream);
}
ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, {CallKind::AllGather, in, out, count, type, 0, 0}, stream);
}
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, {CallKind::Broadcast, in, out, count, type, 0, root},
             stream);
}
ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {CallKind::Send, in, nullptr, count, type, 0, peer}, stream);
}
ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {CallKind::Recv, nullptr, out, count, type, 0, peer},
             stream);
}

ncclResult_t ncclGroupStart() {
  ++groupDepth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --groupDepth > 0 ? ncclSuccess : flush(); }
}
// NOLINTEND(readability-identifier-naming)
