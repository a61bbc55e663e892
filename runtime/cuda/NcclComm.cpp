//===- NcclComm.cpp - ranks on GPUs, through NCCL -------------------------===//
//
// Every communicator is non-blocking: a call may return ncclInProgress, and the
// rank then polls until the call is done or the timeout has passed. The
// communicators of groups are split from that of the world, so that they share
// its connections. NCCL does not report which ranks are missing. After a
// timeout, the waiting ranks therefore send each other messages over `control`
// (a roll call); a rank that does not answer is missing.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Wait.h"
#include "runtime/cuda/DeviceComm.h"
#include "runtime/cuda/NcclApi.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <unistd.h>

namespace dpc::rt {

namespace {

/// Messages of plans do not use this tag.
constexpr int64_t kRollTag = (int64_t(1) << 52) - 1;
/// How long a roll call waits for answers. Waiting ranks answer immediately.
constexpr double kRollSeconds = 5;
/// The time limit for shutting down all communicators.
constexpr double kEndSeconds = 10;

std::optional<ncclDataType_t> ncclTypeOf(DType type) {
  static const std::map<DType, ncclDataType_t> types = {
      {DType::F32, ncclFloat32},   {DType::F64, ncclFloat64},
      {DType::BF16, ncclBfloat16}, {DType::F16, ncclFloat16},
      {DType::I64, ncclInt64},     {DType::I32, ncclInt32},
      {DType::I8, ncclInt8},       {DType::U8, ncclUint8},
      {DType::U32, ncclUint32},    {DType::U64, ncclUint64}};
  auto it = types.find(type);
  return it == types.end() ? std::nullopt : std::optional(it->second);
}

ncclRedOp_t ncclOpOf(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return ncclSum;
  case ReduceKind::Max:
    return ncclMax;
  case ReduceKind::Min:
    return ncclMin;
  case ReduceKind::Prod:
    return ncclProd;
  }
  return ncclSum;
}

struct Cell {
  ncclComm_t comm = nullptr;
  std::vector<int> ranks;
  int index = 0; ///< of this rank
  /// Reduction operators that multiply first, by scale and type.
  std::map<std::pair<double, int>, ncclRedOp_t> scaled;
};

struct Reduction {
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
};

Expected<Reduction> reductionFor(const NcclApi &nccl, Cell &cell, DType type,
                                 ReduceKind kind, double scale) {
  std::optional<ncclDataType_t> own = ncclTypeOf(type);
  if (!own)
    return Status::unsupported("NCCL cannot reduce " +
                               std::string(nameOf(type)));
  if (scale == 1)
    return Reduction{*own, ncclOpOf(kind)};
  if (kind != ReduceKind::Sum || !isFloat(type))
    return Status::unsupported("NCCL scales only sums of floats");
  auto [it, isNew] = cell.scaled.try_emplace({scale, *own}, ncclSum);
  if (isNew) {
    char scalar[8] = {};
    storeFromDouble(scalar, type, 0, scale);
    DPC_TRY(nccl.check(nccl.ncclRedOpCreatePreMulSum(&it->second, scalar, *own,
                                                     ncclScalarHostImmediate,
                                                     cell.comm),
                       cell.comm, "ncclRedOpCreatePreMulSum"));
  }
  return Reduction{*own, it->second};
}

Status cancelled() { return {StatusCode::Cancelled, "another rank failed"}; }

/// The names of submitted calls that may be unfinished.
class IssuedCalls {
public:
  explicit IssuedCalls(const CudaApi &cuda) : cuda(cuda) {}
  IssuedCalls(const IssuedCalls &) = delete;
  IssuedCalls &operator=(const IssuedCalls &) = delete;
  ~IssuedCalls() {
    for (const Issued &each : issued)
      cuda.cudaEventDestroy(each.done);
    for (cudaEvent_t event : spareEvents)
      cuda.cudaEventDestroy(event);
  }

  /// Records an event after a call. Captured calls get no event, because it
  /// would become part of the graph.
  Status mark(const char *name, cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    DPC_TRY(cuda.check(cuda.cudaStreamIsCapturing(stream, &capture), name));
    if (capture != cudaStreamCaptureStatusNone)
      return Status::success();
    forgetFinished();
    cudaEvent_t event = nullptr;
    if (spareEvents.empty()) {
      DPC_TRY(assign(event, cuda.newEvent()));
    } else {
      event = spareEvents.back();
      spareEvents.pop_back();
    }
    issued.push_back({name, event});
    return cuda.record(event, stream);
  }

  void forgetFinished() {
    while (!issued.empty() &&
           cuda.cudaEventQuery(issued.front().done) == cudaSuccess) {
      spareEvents.push_back(issued.front().done);
      issued.pop_front();
    }
  }
  const char *oldest() {
    forgetFinished();
    return issued.empty() ? "a step" : issued.front().name;
  }

private:
  struct Issued {
    const char *name;
    cudaEvent_t done;
  };

  const CudaApi &cuda;
  std::deque<Issued> issued;
  std::vector<cudaEvent_t> spareEvents;
};

class NcclComm : public DeviceComm {
public:
  NcclComm(const CudaApi &cuda, const NcclApi &nccl, Communicator &control,
           double timeoutSeconds)
      : cuda(cuda), nccl(nccl), control(control),
        timeoutSeconds(timeoutSeconds), issued(cuda) {}

  ~NcclComm() override {
    if (!aborted)
      endAll();
    for (void *memory : allocations)
      nccl.ncclMemFree(memory);
  }

  /// Rank 0 sends NCCL's id to the other ranks.
  Status start() {
    ncclUniqueId id = {};
    if (rank() == 0)
      DPC_TRY(
          nccl.check(nccl.ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId"));
    DPC_TRY(control.broadcast(kWorldGroup, &id, sizeof id, 0));
    Cell world;
    world.ranks.resize(size());
    std::iota(world.ranks.begin(), world.ranks.end(), 0);
    world.index = rank();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    cells.push_back(std::move(world));
    ncclResult_t result = nccl.ncclCommInitRankConfig(
        &cells.back().comm, size(), id, rank(), &config);
    return settle(result, cells.back().comm, "connecting NCCL");
  }

  int rank() const override { return control.rank(); }
  int size() const override { return control.size(); }

  Status makeGroups(const std::vector<Group> &groups) override {
    for (const Group &group : groups)
      for (size_t color = 0; color < group.members.size(); ++color) {
        const std::vector<int> &members = group.members[color];
        auto it = std::find(members.begin(), members.end(), rank());
        if (it == members.end())
          continue;
        Cell cell;
        cell.ranks = members;
        cell.index = static_cast<int>(it - members.begin());
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        config.splitShare = 1;
        int index = cell.index;
        cells.push_back(std::move(cell));
        ncclResult_t result =
            nccl.ncclCommSplit(cells[0].comm, static_cast<int>(color), index,
                               &cells.back().comm, &config);
        // The parent communicator stays in progress until all ranks have split.
        DPC_TRY(settle(result, cells[0].comm, "ncclCommSplit"));
        DPC_TRY(settle(ncclInProgress, cells.back().comm, "ncclCommSplit"));
      }
    return Status::success();
  }

  /// With registered memory, NCCL can transfer directly between arenas.
  Expected<void *> allocate(int64_t bytes) override {
    void *memory = nullptr;
    DPC_TRY(nccl.check(nccl.ncclMemAlloc(&memory, static_cast<size_t>(bytes)),
                       nullptr, "ncclMemAlloc"));
    allocations.push_back(memory);
    for (const Cell &cell : cells) {
      void *handle = nullptr;
      ncclResult_t result = nccl.ncclCommRegister(
          cell.comm, memory, static_cast<size_t>(bytes), &handle);
      DPC_TRY(settle(result, cell.comm, "ncclCommRegister"));
      registrations.emplace_back(cell.comm, handle);
    }
    return memory;
  }

  bool capturable() const override { return true; }

  Status allReduce(int group, const std::vector<Slice> &slices, ReduceKind kind,
                   double scale, cudaStream_t stream) override {
    Cell &cell = cells[group + 1];
    return grouped("all_reduce", cell, stream, [&] {
      for (const Slice &slice : slices) {
        Reduction how;
        DPC_TRY(assign(how, reductionFor(nccl, cell, slice.type, kind, scale)));
        if (slice.count > 0)
          DPC_TRY(nccl.check(nccl.ncclAllReduce(slice.data, slice.data,
                                                slice.count, how.type, how.op,
                                                cell.comm, stream),
                             cell.comm, "all_reduce"));
      }
      return Status::success();
    });
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind,
                       cudaStream_t stream) override {
    Reduction how;
    DPC_TRY(assign(how, reductionFor(nccl, cells[group + 1], type, kind, 1)));
    return submit(group, "reduce_scatter", stream, [&](ncclComm_t comm) {
      return count == 0 ? ncclSuccess
                        : nccl.ncclReduceScatter(in, out, count, how.type,
                                                 how.op, comm, stream);
    });
  }

  Status allGather(int group, const void *in, void *out, int64_t bytes,
                   cudaStream_t stream) override {
    return submit(group, "all_gather", stream, [&](ncclComm_t comm) {
      return nccl.ncclAllGather(in, out, bytes, ncclUint8, comm, stream);
    });
  }

  /// Uses grouped messages, because ncclAlltoAll exists only since NCCL 2.28.
  Status allToAll(int group, const void *in, void *out, int64_t bytes,
                  cudaStream_t stream) override {
    std::vector<DeviceMessage> messages;
    int size = static_cast<int>(cells[group + 1].ranks.size());
    for (int peer = 0; peer < size; ++peer) {
      auto *from = static_cast<char *>(const_cast<void *>(in)) + peer * bytes;
      messages.push_back({from, bytes, peer, true});
      messages.push_back(
          {static_cast<char *>(out) + peer * bytes, bytes, peer, false});
    }
    return sendAll("all_to_all", cells[group + 1], messages, stream);
  }

  Status broadcast(int group, void *data, int64_t bytes, int root,
                   cudaStream_t stream) override {
    return submit(group, "broadcast", stream, [&](ncclComm_t comm) {
      return nccl.ncclBroadcast(data, data, bytes, ncclUint8, root, comm,
                                stream);
    });
  }

  Status together(int group, const char *name, cudaStream_t stream,
                  const std::function<Status()> &calls) override {
    return grouped(name, cells[group + 1], stream, [&] {
      isGrouped = true;
      Status status = calls();
      isGrouped = false;
      return status;
    });
  }

  /// Always uses the communicator of all ranks, so that two ranks have one
  /// connection and one order of messages.
  Status exchange(const std::vector<DeviceMessage> &messages,
                  cudaStream_t stream) override {
    return sendAll("send and recv", cells[0], messages, stream);
  }

  Status wait(cudaStream_t stream) override {
    double began = nowSeconds();
    for (int looks = 0;; ++looks) {
      cudaError_t state = cuda.cudaStreamQuery(stream);
      if (state == cudaSuccess) {
        issued.forgetFinished();
        return Status::success();
      }
      if (state != cudaErrorNotReady)
        return cuda.check(state, "waiting for a stream");
      DPC_TRY(asyncErrors());
      double waited = nowSeconds() - began;
      if (waited > timeoutSeconds)
        return missing(issued.oldest());
      if (looks > kBusyLooks)
        usleep(waited < 0.01 ? 20 : 200);
    }
  }

  /// `control` reports the failure to the other ranks.
  void abort() override {
    control.abort();
    abortOwn();
  }

private:
  static constexpr int kBusyLooks = 200;

  template <typename Calls>
  Status grouped(const char *name, Cell &cell, cudaStream_t stream,
                 Calls &&calls) {
    if (isGrouped)
      return calls();
    DPC_TRY(nccl.check(nccl.ncclGroupStart(), cell.comm, name));
    Status status = calls();
    ncclResult_t result = nccl.ncclGroupEnd();
    DPC_TRY(status);
    DPC_TRY(settle(result, cell.comm, name));
    return issued.mark(name, stream);
  }

  template <typename Call>
  Status submit(int group, const char *name, cudaStream_t stream, Call &&call) {
    Cell &cell = cells[group + 1];
    return grouped(name, cell, stream, [&] {
      return nccl.check(call(cell.comm), cell.comm, name);
    });
  }

  /// `peer` is an index in the cell.
  Status sendAll(const char *name, Cell &cell,
                 const std::vector<DeviceMessage> &messages,
                 cudaStream_t stream) {
    return grouped(name, cell, stream, [&] {
      for (const DeviceMessage &m : messages)
        DPC_TRY(nccl.check(m.isSend ? nccl.ncclSend(m.data, m.bytes, ncclUint8,
                                                    m.peer, cell.comm, stream)
                                    : nccl.ncclRecv(m.data, m.bytes, ncclUint8,
                                                    m.peer, cell.comm, stream),
                           cell.comm, name));
      return Status::success();
    });
  }

  /// Polls while `comm`, which NCCL may set during the wait, is in progress.
  Status settle(ncclResult_t result, const ncclComm_t &comm, const char *what) {
    double began = nowSeconds();
    for (int looks = 0; result == ncclSuccess || result == ncclInProgress;
         ++looks) {
      ncclResult_t state = result;
      if (comm)
        DPC_TRY(
            nccl.check(nccl.ncclCommGetAsyncError(comm, &state), comm, what));
      if (state == ncclSuccess)
        return Status::success();
      if (state != ncclInProgress)
        return nccl.check(state, comm, what);
      if (control.aborted())
        return cancelled();
      if (nowSeconds() - began > timeoutSeconds)
        return missing(what);
      if (looks > kBusyLooks)
        usleep(100);
    }
    return nccl.check(result, comm, what);
  }

  Status asyncErrors() {
    for (const Cell &cell : cells) {
      ncclResult_t state = ncclSuccess;
      DPC_TRY(nccl.check(nccl.ncclCommGetAsyncError(cell.comm, &state),
                         cell.comm, "NCCL"));
      if (state != ncclSuccess && state != ncclInProgress) {
        Status status = nccl.check(state, cell.comm, issued.oldest());
        // If another rank failed first, NCCL's error is only a consequence.
        if (control.aborted())
          status = cancelled();
        abortOwn();
        return status;
      }
    }
    if (!control.aborted())
      return Status::success();
    abortOwn();
    return cancelled();
  }

  /// Calls the roll. A rank is missing if no message arrives from it.
  Status missing(const char *name) {
    control.setTimeout(std::min(timeoutSeconds, kRollSeconds));
    char here = 1;
    std::vector<int> late;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank())
        (void)control.send(kWorldGroup, &here, 1, peer, kRollTag).ok();
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank() &&
          control.recv(kWorldGroup, &here, 1, peer, kRollTag).code() ==
              StatusCode::Timeout)
        late.push_back(peer);
    abortOwn();
    return lateRanks(rank(), timeoutSeconds, name, late);
  }

  /// Ends all communicators, so that NCCL's threads no longer use the memory. A
  /// communicator that does not end in time is aborted.
  void endAll() {
    double deadline = nowSeconds() + std::min(timeoutSeconds, kEndSeconds);
    for (auto [comm, handle] : registrations)
      nccl.ncclCommDeregister(comm, handle);
    for (auto it = cells.rbegin(); it != cells.rend(); ++it) {
      if (!it->comm)
        continue;
      for (auto [key, op] : it->scaled)
        nccl.ncclRedOpDestroy(op, it->comm);
      ncclResult_t state = nccl.ncclCommFinalize(it->comm);
      while (state == ncclInProgress && nowSeconds() < deadline) {
        usleep(100);
        if (nccl.ncclCommGetAsyncError(it->comm, &state) != ncclSuccess)
          state = ncclInternalError;
      }
      if (state == ncclSuccess)
        nccl.ncclCommDestroy(it->comm);
      else
        nccl.ncclCommAbort(it->comm);
    }
  }

  void abortOwn() {
    if (aborted)
      return;
    aborted = true;
    for (const Cell &cell : cells)
      if (cell.comm)
        nccl.ncclCommAbort(cell.comm);
  }

  const CudaApi &cuda;
  const NcclApi &nccl;
  Communicator &control;
  double timeoutSeconds;
  bool aborted = false;
  bool isGrouped = false; ///< in together()
  std::deque<Cell> cells; ///< [0] is the world, [g + 1] is group g; addresses
                          ///< must stay valid for NCCL
  std::vector<void *> allocations;
  std::vector<std::pair<ncclComm_t, void *>> registrations;
  IssuedCalls issued;
};

} // namespace

Expected<std::unique_ptr<DeviceComm>> makeNcclComm(const CudaApi &cuda,
                                                   const NcclApi &nccl,
                                                   Communicator &control,
                                                   double timeoutSeconds) {
  auto made = std::make_unique<NcclComm>(cuda, nccl, control, timeoutSeconds);
  DPC_TRY(made->start());
  return std::unique_ptr<DeviceComm>(std::move(made));
}

} // namespace dpc::rt
