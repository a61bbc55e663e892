//===- InProcessComm.cpp - ranks are threads on one device ----------------===//
//
// In a collective, each rank shows the other ranks the address of its data and
// an event that is recorded after the data is written. The stream of each rank
// waits for the events of all ranks, reads from their memory, and records a
// second event. A rank overwrites its data only after the second events of all
// ranks. Threads synchronize only to exchange addresses and events: they do not
// wait for the device.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/Wait.h"
#include "runtime/cuda/DeviceComm.h"
#include "runtime/cuda/DeviceKernels.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <unistd.h>

namespace dpc::rt {

namespace {

/// What a rank shows to its cell during a collective.
struct Shown {
  const char *name = "";
  const void *in = nullptr;
  int64_t bytes = 0;
  cudaEvent_t written = nullptr, reduced = nullptr, read = nullptr;
};

struct Cell {
  explicit Cell(std::vector<int> ranks)
      : ranks(std::move(ranks)), shown(this->ranks.size()),
        arrivals(this->ranks.size()) {}
  std::vector<int> ranks;
  std::vector<Shown> shown;
  std::vector<uint64_t> arrivals; ///< calls of meet(), by rank
  size_t here = 0;                ///< ranks that wait in meet()
  uint64_t meetings = 0;
};

/// A message that waits for its receiver.
struct Post {
  const void *data = nullptr;
  int64_t bytes = 0;
  cudaEvent_t written = nullptr, read = nullptr;
  bool isTaken = false;
};

struct World {
  explicit World(const CudaApi &cuda) : cuda(cuda) {}
  /// Ranks read the memory of other ranks, so memory is freed only after the
  /// last rank is destroyed.
  ~World() {
    for (void *memory : allocations)
      cuda.cudaFree(memory);
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  const CudaApi &cuda;
  std::vector<void *> allocations;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  bool aborted = false;
  std::map<int, std::vector<std::unique_ptr<Cell>>> cells; ///< by group
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Post>>> posts;
};

struct Seat {
  Cell *cell = nullptr;
  int index = 0;
  int size() const { return static_cast<int>(cell->ranks.size()); }
  Shown &own() const { return cell->shown[index]; }
};

Status copy(const CudaApi &cuda, void *to, int64_t toOffset, const void *from,
            int64_t fromOffset, int64_t bytes, cudaStream_t stream) {
  return cuda.copy(static_cast<char *>(to) + toOffset,
                   static_cast<const char *>(from) + fromOffset, bytes,
                   cudaMemcpyDeviceToDevice, stream);
}

Status cancelled() { return {StatusCode::Cancelled, "another rank failed"}; }

std::vector<const void *> inputs(const Seat &seat) {
  std::vector<const void *> parts;
  parts.reserve(seat.cell->shown.size());
  for (const Shown &shown : seat.cell->shown)
    parts.push_back(shown.in);
  return parts;
}

class InProcessComm : public DeviceComm {
public:
  InProcessComm(std::shared_ptr<World> world, const CudaApi &cuda,
                const DeviceKernels &kernels, int rank, int size,
                double timeoutSeconds)
      : world(std::move(world)), cuda(cuda), kernels(kernels), rankIndex(rank),
        worldSize(size), timeoutSeconds(timeoutSeconds) {
    (void)sit(*this->world->cells[kWorldGroup].front()).ok();
  }

  ~InProcessComm() override {
    for (cudaEvent_t event : events)
      cuda.cudaEventDestroy(event);
  }

  int rank() const override { return rankIndex; }
  int size() const override { return worldSize; }
  bool capturable() const override { return worldSize == 1; }

  Status makeGroups(const std::vector<Group> &groups) override {
    for (const Group &group : groups)
      for (size_t i = 0; i < group.members.size(); ++i) {
        const std::vector<int> &members = group.members[i];
        if (!std::binary_search(members.begin(), members.end(), rankIndex))
          continue;
        if (members.size() > kMostInProcess)
          return Status::unsupported(
              "a group of " + std::to_string(members.size()) +
              " ranks on one GPU; at most " + std::to_string(kMostInProcess) +
              " are accepted");
        std::lock_guard lock(world->mutex);
        auto &cells = world->cells[group.id];
        cells.resize(group.members.size());
        if (!cells[i])
          cells[i] = std::make_unique<Cell>(members);
        DPC_TRY(sit(*cells[i]));
      }
    return meet(seats[0], "making groups");
  }

  Expected<void *> allocate(int64_t bytes) override {
    void *memory = nullptr;
    DPC_TRY(assign(memory, cuda.allocate(bytes)));
    std::lock_guard lock(world->mutex);
    world->allocations.push_back(memory);
    return memory;
  }

  Status allReduce(int group, const std::vector<Slice> &slices, ReduceKind kind,
                   double scale, cudaStream_t stream) override {
    for (const Slice &slice : slices)
      DPC_TRY(reduceSlice(seats[group + 1], slice, kind, scale, stream));
    return Status::success();
  }

  Status reduceScatter(int group, const void *in, void *out, int64_t count,
                       DType type, ReduceKind kind,
                       cudaStream_t stream) override {
    Seat &seat = seats[group + 1];
    return collective(
        seat, "reduce_scatter", in, count * sizeOf(type), stream, [&] {
          return kernels.reduce(inputs(seat), out, count * seat.index, count,
                                type, kind, 1, stream);
        });
  }

  Status allGather(int group, const void *in, void *out, int64_t bytes,
                   cudaStream_t stream) override {
    Seat &seat = seats[group + 1];
    return collective(seat, "all_gather", in, bytes, stream, [&]() -> Status {
      for (int i = 0; i < seat.size(); ++i)
        DPC_TRY(copy(cuda, out, i * bytes, seat.cell->shown[i].in, 0, bytes,
                     stream));
      return Status::success();
    });
  }

  Status allToAll(int group, const void *in, void *out, int64_t bytes,
                  cudaStream_t stream) override {
    Seat &seat = seats[group + 1];
    return collective(seat, "all_to_all", in, bytes, stream, [&]() -> Status {
      for (int i = 0; i < seat.size(); ++i)
        DPC_TRY(copy(cuda, out, i * bytes, seat.cell->shown[i].in,
                     seat.index * bytes, bytes, stream));
      return Status::success();
    });
  }

  Status broadcast(int group, void *data, int64_t bytes, int root,
                   cudaStream_t stream) override {
    Seat &seat = seats[group + 1];
    return collective(seat, "broadcast", data, bytes, stream, [&] {
      return seat.index == root ? Status::success()
                                : copy(cuda, data, 0, seat.cell->shown[root].in,
                                       0, bytes, stream);
    });
  }

  Status exchange(const std::vector<DeviceMessage> &messages,
                  cudaStream_t stream) override {
    std::vector<std::pair<std::shared_ptr<Post>, int>> sent;
    for (const DeviceMessage &m : messages)
      if (m.isSend) {
        auto post = std::make_shared<Post>();
        post->data = m.data;
        post->bytes = m.bytes;
        for (cudaEvent_t *event : {&post->written, &post->read})
          DPC_TRY(takeEvent(*event));
        DPC_TRY(cuda.record(post->written, stream));
        sent.emplace_back(post, m.peer);
        std::lock_guard lock(world->mutex);
        world->posts[{rankIndex, m.peer}].push_back(std::move(post));
        world->changed.notify_all();
      }
    for (const DeviceMessage &m : messages)
      if (!m.isSend)
        DPC_TRY(receive(m, stream));
    for (auto &[post, peer] : sent) {
      DPC_TRY(until("send", peer, [&post = post] { return post->isTaken; }));
      DPC_TRY(cuda.await(post->read, stream));
      spare.push_back(post->written);
      spare.push_back(post->read);
    }
    return Status::success();
  }

  Status wait(cudaStream_t stream) override {
    double began = nowSeconds();
    for (int looks = 0;; ++looks) {
      cudaError_t state = cuda.cudaStreamQuery(stream);
      if (state == cudaSuccess)
        return Status::success();
      if (state != cudaErrorNotReady)
        return cuda.check(state, "waiting for a stream");
      if (looks % 64 == 0) {
        std::lock_guard lock(world->mutex);
        if (world->aborted)
          return cancelled();
      }
      if (nowSeconds() - began > timeoutSeconds)
        return Status(StatusCode::Timeout, "rank " + std::to_string(rankIndex) +
                                               " waited " +
                                               std::to_string(timeoutSeconds) +
                                               " s for its own stream");
      if (looks > 200)
        usleep(20);
    }
  }

  void abort() override {
    std::lock_guard lock(world->mutex);
    world->aborted = true;
    world->changed.notify_all();
  }

private:
  Status takeEvent(cudaEvent_t &event) {
    if (!spare.empty()) {
      event = spare.back();
      spare.pop_back();
      return Status::success();
    }
    DPC_TRY(assign(event, cuda.newEvent()));
    events.push_back(event);
    return Status::success();
  }
  Status sit(Cell &cell) {
    auto it = std::find(cell.ranks.begin(), cell.ranks.end(), rankIndex);
    seats.push_back({&cell, static_cast<int>(it - cell.ranks.begin())});
    Shown &own = seats.back().own();
    for (cudaEvent_t *event : {&own.written, &own.reduced, &own.read})
      DPC_TRY(takeEvent(*event));
    return Status::success();
  }

  /// Waits on the host for done(). After the timeout, the error names the ranks
  /// that late() returns. Both functions run under the lock.
  template <typename Done, typename Late>
  Status until(const char *name, std::unique_lock<std::mutex> &lock,
               Done &&done, Late &&late) {
    bool came = world->changed.wait_for(
        lock, std::chrono::duration<double>(timeoutSeconds),
        [&] { return done() || world->aborted; });
    if (done())
      return Status::success();
    return came ? cancelled()
                : lateRanks(rankIndex, timeoutSeconds, name, late());
  }
  template <typename Done>
  Status until(const char *name, int peer, Done &&done) {
    std::unique_lock lock(world->mutex);
    return until(name, lock, done, [&] { return std::vector<int>{peer}; });
  }

  /// Waits on the host until all ranks of the cell have called meet().
  Status meet(Seat &seat, const char *name) {
    Cell &cell = *seat.cell;
    std::unique_lock lock(world->mutex);
    uint64_t goal = ++cell.arrivals[seat.index];
    if (++cell.here == cell.ranks.size()) {
      cell.here = 0;
      ++cell.meetings;
      world->changed.notify_all();
      return Status::success();
    }
    return until(
        name, lock, [&] { return cell.meetings >= goal; },
        [&] {
          std::vector<int> late;
          for (size_t i = 0; i < cell.ranks.size(); ++i)
            if (cell.arrivals[i] < goal)
              late.push_back(cell.ranks[i]);
          return late;
        });
  }

  /// Shows data to the cell. The stream then waits for the data of all ranks.
  Status open(Seat &seat, const char *name, const void *in, int64_t bytes,
              cudaStream_t stream) {
    Shown &own = seat.own();
    own.name = name;
    own.in = in;
    own.bytes = bytes;
    DPC_TRY(cuda.record(own.written, stream));
    DPC_TRY(meet(seat, name));
    for (int i = 0; i < seat.size(); ++i) {
      const Shown &other = seat.cell->shown[i];
      if (std::strcmp(other.name, name) != 0 || other.bytes != bytes)
        return Status::invalid(
            "rank " + std::to_string(seat.cell->ranks[i]) + " called " +
            other.name + " of " + std::to_string(other.bytes) +
            " bytes where rank " + std::to_string(rankIndex) + " called " +
            name + " of " + std::to_string(bytes));
      if (i != seat.index)
        DPC_TRY(cuda.await(other.written, stream));
    }
    return Status::success();
  }

  /// Records event `point`. The stream then waits for this event of all ranks.
  Status pass(Seat &seat, const char *name, cudaEvent_t Shown::*point,
              cudaStream_t stream) {
    DPC_TRY(cuda.record(seat.own().*point, stream));
    DPC_TRY(meet(seat, name));
    for (int i = 0; i < seat.size(); ++i)
      if (i != seat.index)
        DPC_TRY(cuda.await(seat.cell->shown[i].*point, stream));
    return Status::success();
  }

  template <typename Work>
  Status collective(Seat &seat, const char *name, const void *in, int64_t bytes,
                    cudaStream_t stream, Work &&work) {
    DPC_TRY(open(seat, name, in, bytes, stream));
    DPC_TRY(work());
    return pass(seat, name, &Shown::read, stream);
  }

  /// Each rank reduces one part of the slice, then copies the other parts.
  Status reduceSlice(Seat &seat, const Slice &slice, ReduceKind kind,
                     double scale, cudaStream_t stream) {
    int64_t width = sizeOf(slice.type);
    auto first = [&](int64_t i) { return slice.count * i / seat.size(); };
    auto bytesOf = [&](int64_t i) { return (first(i + 1) - first(i)) * width; };
    int64_t own = first(seat.index);
    DPC_TRY(open(seat, "all_reduce", slice.data, slice.count * width, stream));
    DPC_TRY(kernels.reduce(
        inputs(seat), static_cast<char *>(slice.data) + own * width, own,
        bytesOf(seat.index) / width, slice.type, kind, scale, stream));
    DPC_TRY(pass(seat, "all_reduce", &Shown::reduced, stream));
    for (int i = 0; i < seat.size(); ++i)
      if (i != seat.index)
        DPC_TRY(copy(cuda, slice.data, first(i) * width, seat.cell->shown[i].in,
                     first(i) * width, bytesOf(i), stream));
    return pass(seat, "all_reduce", &Shown::read, stream);
  }

  Status receive(const DeviceMessage &m, cudaStream_t stream) {
    std::shared_ptr<Post> post;
    auto &box = [&]() -> auto & {
      std::lock_guard lock(world->mutex);
      return world->posts[{m.peer, rankIndex}];
    }();
    DPC_TRY(until("recv", m.peer, [&] { return !box.empty(); }));
    {
      std::lock_guard lock(world->mutex);
      post = box.front();
      box.pop_front();
    }
    if (post->bytes != m.bytes)
      return Status::invalid("recv expects " + std::to_string(m.bytes) +
                             " bytes, rank " + std::to_string(m.peer) +
                             " sent " + std::to_string(post->bytes));
    DPC_TRY(cuda.await(post->written, stream));
    DPC_TRY(copy(cuda, m.data, 0, post->data, 0, m.bytes, stream));
    DPC_TRY(cuda.record(post->read, stream));
    std::lock_guard lock(world->mutex);
    post->isTaken = true;
    world->changed.notify_all();
    return Status::success();
  }

  std::shared_ptr<World> world;
  const CudaApi &cuda;
  const DeviceKernels &kernels;
  int rankIndex, worldSize;
  double timeoutSeconds;
  std::deque<Seat> seats; ///< [0] is the world, [g + 1] is group g
  std::vector<cudaEvent_t> events, spare; ///< all events; unused events
};

} // namespace

std::vector<std::unique_ptr<DeviceComm>>
makeInProcessComms(const CudaApi &cuda, const DeviceKernels &kernels, int ranks,
                   double timeoutSeconds) {
  auto world = std::make_shared<World>(cuda);
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  world->cells[kWorldGroup].push_back(std::make_unique<Cell>(all));
  std::vector<std::unique_ptr<DeviceComm>> comms;
  comms.reserve(ranks);
  for (int rank = 0; rank < ranks; ++rank)
    comms.push_back(std::make_unique<InProcessComm>(world, cuda, kernels, rank,
                                                    ranks, timeoutSeconds));
  return comms;
}

} // namespace dpc::rt
