//===- NcclCommTest.cpp - the conformance suite through NCCL --------------===//
//
// Runs the NCCL backend with a fake NCCL and a fake CUDA runtime.
//
//===----------------------------------------------------------------------===//
#include "test/unit/cuda/DeviceHostComm.h"
#include "test/unit/cuda/FakeCuda.h"
#include "test/unit/cuda/FakeNccl.h"
#include "test/unit/runtime/CommConformance.h"

#include <algorithm>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::HasSubstr;

namespace dpc::rt::test {

static const CudaApi cuda = fakeCudaApi();
static const NcclApi nccl = fakeNcclApi();

std::vector<int> worldSizes() { return {1, 2, 3, 4}; }

static void
onDevices(int ranks, double timeoutSeconds,
          const std::function<void(DeviceComm &, Communicator &)> &body) {
  auto controls = makeLocalComms(ranks, {timeoutSeconds});
  onThreads(controls.size(), [&](size_t rank) {
    auto made = makeNcclComm(cuda, nccl, *controls[rank], timeoutSeconds);
    ASSERT_TRUE(made.ok()) << made.status().message();
    // All ranks connect before one of them can abort.
    ASSERT_TRUE(controls[rank]->barrier(kWorldGroup).ok());
    body(**made, *controls[rank]);
  });
  EXPECT_EQ(fakeNcclMisuses(), 0);
}

void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body) {
  onDevices(ranks, timeoutSeconds,
            [&](DeviceComm &device, Communicator &control) {
              DeviceHostComm comm(cuda, device, control);
              body(comm);
            });
}

namespace {

struct Rank {
  Rank() {
    cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    void *made = nullptr;
    cuda.cudaMalloc(&made, 4096);
    device = static_cast<float *>(made);
    cuda.cudaHostAlloc(&made, 4096, 0);
    host = static_cast<float *>(made);
  }
  ~Rank() {
    cuda.cudaStreamDestroy(stream);
    cuda.cudaFree(device);
    cuda.cudaFreeHost(host);
  }
  Rank(const Rank &) = delete;
  Rank &operator=(const Rank &) = delete;

  void toDevice(int64_t count) const {
    (void)cuda.copy(device, host, count * 4, cudaMemcpyHostToDevice, stream)
        .ok();
  }
  void toHost(int64_t count) const {
    (void)cuda.copy(host, device, count * 4, cudaMemcpyDeviceToHost, stream)
        .ok();
  }
  Status allReduce(DeviceComm &comm, int64_t count,
                   ReduceKind kind = ReduceKind::Sum, double scale = 1) const {
    return comm.allReduce(kWorldGroup, {{device, count, DType::F32}}, kind,
                          scale, stream);
  }

  cudaStream_t stream = nullptr;
  float *device = nullptr, *host = nullptr;
};

TEST(NcclComm, MultipliesBeforeASum) {
  onDevices(4, 30, [](DeviceComm &comm, Communicator &) {
    Rank own;
    for (int i = 0; i < 5; ++i)
      own.host[i] = static_cast<float>(comm.rank() * 8 + i);
    own.toDevice(5);
    for (int i = 0; i < 2; ++i) { // the second call reuses NCCL's operator
      ASSERT_EQ(own.allReduce(comm, 5, ReduceKind::Sum, 0.25).message(), "");
    }
    own.toHost(5);
    ASSERT_TRUE(comm.wait(own.stream).ok());
    for (int i = 0; i < 5; ++i) // the second call keeps the mean
      EXPECT_EQ(own.host[i], 12.f + static_cast<float>(i));
    EXPECT_EQ(own.allReduce(comm, 5, ReduceKind::Max, 0.25).message(),
              "NCCL scales only sums of floats");
  });
}

/// Calls return although earlier work still blocks the stream.
TEST(NcclComm, CallsDoNotWaitForTheStream) {
  onDevices(2, 30, [](DeviceComm &comm, Communicator &control) {
    Rank own;
    std::atomic<bool> opened{false};
    cuda.cudaLaunchHostFunc(
        own.stream,
        [](void *gate) {
          while (!*static_cast<std::atomic<bool> *>(gate))
            std::this_thread::yield();
        },
        &opened);
    own.host[0] = 1;
    own.toDevice(1);
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(own.allReduce(comm, 1).ok());
    own.toHost(1);
    ASSERT_TRUE(control.barrier(kWorldGroup).ok()); // no rank has begun
    opened = true;
    ASSERT_TRUE(comm.wait(own.stream).ok());
    EXPECT_EQ(own.host[0], 1024);
  });
}

/// In a ring, all ranks send and receive in one call without a deadlock.
TEST(NcclComm, MessagesOfACallAreGrouped) {
  onDevices(3, 30, [](DeviceComm &comm, Communicator &) {
    Rank own;
    int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    own.host[0] = static_cast<float>(comm.rank());
    own.toDevice(1);
    Status status = comm.exchange(
        {{own.device, 4, next, true}, {own.device + 16, 4, previous, false}},
        own.stream);
    ASSERT_TRUE(status.ok()) << status.message();
    own.toHost(17);
    ASSERT_TRUE(comm.wait(own.stream).ok());
    EXPECT_EQ(own.host[16], static_cast<float>(previous));
  });
}

/// The all_gathers of several buffers are one NCCL group.
TEST(NcclComm, ListsOfBuffersAreGrouped) {
  int before = fakeNcclGroups();
  onDevices(2, 30, [](DeviceComm &comm, Communicator &) {
    Rank own;
    for (int i = 0; i < 3; ++i)
      own.host[i] = static_cast<float>(comm.rank() * 3 + i);
    own.toDevice(3);
    Status status =
        comm.together(kWorldGroup, "all_gather", own.stream, [&]() -> Status {
          for (int i = 0; i < 3; ++i)
            DPC_TRY(comm.allGather(kWorldGroup, own.device + i,
                                   own.device + 16 + 2 * i, 4, own.stream));
          return Status::success();
        });
    ASSERT_EQ(status.message(), "");
    own.toHost(22);
    ASSERT_TRUE(comm.wait(own.stream).ok());
    for (int i = 0; i < 6; ++i) {
      int member = i % 2, part = i / 2;
      EXPECT_EQ(own.host[16 + i], static_cast<float>(member * 3 + part));
    }
  });
  EXPECT_EQ(fakeNcclGroups(), before + 2); // one per rank
}

TEST(NcclComm, MemoryIsRegisteredAndFreed) {
  size_t before = fakeAllocations();
  onDevices(2, 30, [](DeviceComm &comm, Communicator &) {
    ASSERT_TRUE(comm.makeGroups({}).ok());
    Expected<void *> memory = comm.allocate(1 << 16);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
  });
  EXPECT_EQ(fakeAllocations(), before);
}

/// If finalization of a communicator never completes, the destructor aborts it.
TEST(NcclComm, FinalizationHasATimeLimit) {
  size_t before = fakeAllocations();
  stallFakeNcclEnds(true);
  auto began = std::chrono::steady_clock::now();
  onDevices(2, 1, [](DeviceComm &comm, Communicator &) {
    ASSERT_TRUE(comm.makeGroups({}).ok());
    ASSERT_TRUE(comm.allocate(1 << 16).ok());
  });
  stallFakeNcclEnds(false);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_EQ(fakeAllocations(), before);
}

/// NCCL's error is reported if two ranks share a GPU.
TEST(NcclComm, ErrorsOfNcclAreReported) {
  refuseFakeNcclWorlds(true);
  auto controls = makeLocalComms(2, {30});
  onThreads(2, [&](size_t rank) {
    EXPECT_EQ(makeNcclComm(cuda, nccl, *controls[rank], 30).status().message(),
              "connecting NCCL: NCCL: an error of the fake (Duplicate GPU "
              "detected)");
  });
  refuseFakeNcclWorlds(false);
  EXPECT_EQ(fakeNcclMisuses(), 0);
}

/// If the process of a peer ends, a wait fails before its timeout.
TEST(NcclComm, ADeadPeerEndsTheWait) {
  breakFakeNccl(2);
  onDevices(2, 30, [](DeviceComm &comm, Communicator &control) {
    Rank own;
    own.host[0] = 1;
    own.toDevice(1);
    if (comm.rank() == 1) {
      EXPECT_TRUE(control.barrier(kWorldGroup).ok());
      return;
    }
    for (int i = 0; i < 2; ++i)
      (void)own.allReduce(comm, 1).ok();
    Status status = comm.wait(own.stream);
    EXPECT_EQ(status.code(), StatusCode::Io);
    EXPECT_THAT(status.message(), HasSubstr("a peer closed its connection"));
    EXPECT_TRUE(control.barrier(kWorldGroup).ok());
  });
  breakFakeNccl(0);
}

TEST(NcclComm, AbortCancelsTheOthers) {
  onDevices(3, 30, [](DeviceComm &comm, Communicator &) {
    Rank own;
    own.toDevice(1);
    if (comm.rank() == 1)
      return comm.abort();
    (void)own.allReduce(comm, 1).ok();
    EXPECT_EQ(comm.wait(own.stream).code(), StatusCode::Cancelled);
  });
}

TEST(NcclComm, DifferentCollectivesAreNoticed) {
  onDevices(2, 5, [](DeviceComm &comm, Communicator &) {
    Rank own;
    own.toDevice(1);
    Status status = comm.rank() == 0 ? comm.broadcast(kWorldGroup, own.device,
                                                      4, 0, own.stream)
                                     : own.allReduce(comm, 1);
    if (status.ok())
      status = comm.wait(own.stream);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), HasSubstr("call different collectives"));
  });
}

} // namespace
} // namespace dpc::rt::test
