//===- InProcessCommTest.cpp - the suite with ranks on one device ---------===//
#include "runtime/cuda/DeviceKernels.h"
#include "test/unit/cuda/DeviceHostComm.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/cuda/FakeCuda.h"
#include "test/unit/runtime/CommConformance.h"

#include <gtest/gtest.h>
#include <numeric>

namespace dpc::rt::test {

static const CudaApi cuda = fakeCudaApi();

static const DeviceKernels &kernels() {
  static std::unique_ptr<DeviceKernels> loaded = [] {
    addRuntimeKernels();
    return std::move(*DeviceKernels::load(cuda, "image"));
  }();
  return *loaded;
}

std::vector<int> worldSizes() { return {1, 2, 3, 4}; }

void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body) {
  auto controls = makeLocalComms(ranks, {timeoutSeconds});
  auto devices = makeInProcessComms(cuda, kernels(), ranks, timeoutSeconds);
  onThreads(ranks, [&](size_t rank) {
    DeviceHostComm comm(cuda, *devices[rank], *controls[rank]);
    body(comm);
  });
}

namespace {

/// Events make the results independent of delays.
TEST(InProcessComm, SlowStreamsChangeNothing) {
  setFakeDelay(300, 7);
  onRanks(4, 30, [](Communicator &comm) {
    for (int round = 0; round < 10; ++round) {
      std::vector<int32_t> values(40), all(160);
      for (int i = 0; i < 40; ++i)
        values[i] = comm.rank() * 1000 + round * 40 + i;
      ASSERT_TRUE(
          comm.allGather(kWorldGroup, values.data(), all.data(), 160).ok());
      for (int i = 0; i < 160; ++i)
        ASSERT_EQ(all[i], i / 40 * 1000 + round * 40 + i % 40);
      ASSERT_TRUE(comm.allReduce(kWorldGroup, values.data(), 40, DType::I32,
                                 ReduceKind::Sum)
                      .ok());
      for (int i = 0; i < 40; ++i)
        ASSERT_EQ(values[i], 6000 + 4 * (round * 40 + i));
    }
  });
  setFakeDelay(0, 0);
}

TEST(InProcessComm, TooManyRanksAreRefused) {
  std::vector<int> all(17);
  std::iota(all.begin(), all.end(), 0);
  auto devices = makeInProcessComms(cuda, kernels(), 17, 1);
  EXPECT_EQ(devices[0]->makeGroups({{0, {"dp"}, {all}}}).message(),
            "a group of 17 ranks on one GPU; at most 16 are accepted");
}

} // namespace
} // namespace dpc::rt::test
