#include "runtime/base/Wait.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/MeasureCollectives.h"
#include "test/unit/runtime/CommConformance.h"
#include "test/unit/runtime/Expect.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

namespace dpc::rt::test {

std::vector<int> worldSizes() { return {1, 2, 3, 4, 8}; }

void onRanks(int ranks, double timeoutSeconds,
             const std::function<void(Communicator &)> &body) {
  auto comms = makeLocalComms(ranks, {timeoutSeconds});
  std::vector<std::thread> threads;
  threads.reserve(comms.size());
  for (auto &comm : comms)
    threads.emplace_back([&body, raw = comm.get()] { body(*raw); });
  for (std::thread &thread : threads)
    thread.join();
}

namespace {

TEST(LocalComm, SumsInTheOrderOfTheRanks) {
  // In f32, the sum of 1e8, 1 and -1e8 depends on the order.
  const float values[] = {1e8f, 1.f, -1e8f};
  for (int64_t count : {1, 100000}) {
    onRanks(3, 30, [&](Communicator &comm) {
      std::vector<float> data(count, values[comm.rank()]);
      ASSERT_TRUE(comm.allReduce(kWorldGroup, data.data(), count, DType::F32,
                                 ReduceKind::Sum)
                      .ok());
      for (float v : data)
        ASSERT_EQ(v, (1e8f + 1.f) - 1e8f);
    });
  }
}

TEST(LocalComm, AbortCancelsTheOthers) {
  double begin = nowSeconds();
  onRanks(3, 30, [](Communicator &comm) {
    if (comm.rank() == 1) {
      comm.abort();
      return;
    }
    EXPECT_EQ(comm.barrier(kWorldGroup).code(), StatusCode::Cancelled);
  });
  EXPECT_LT(nowSeconds() - begin, 5);
}

TEST(LocalComm, DifferentCallsAreNoticed) {
  onRanks(2, 30, [](Communicator &comm) {
    std::vector<float> data(4096), out(8192);
    Status status =
        comm.rank() == 0
            ? comm.allReduce(kWorldGroup, data.data(), 4096, DType::F32,
                             ReduceKind::Sum)
            : comm.allGather(kWorldGroup, data.data(), out.data(), 16384);
    EXPECT_HAS(status.message(), "called");
  });
}

/// Small arrays go through slots, which have a separate check.
TEST(LocalComm, DifferentSmallCallsAreNoticed) {
  for (bool sameSize : {false, true})
    onRanks(2, 30, [&](Communicator &comm) {
      std::vector<float> data(16);
      bool first = comm.rank() == 0;
      Status status =
          comm.allReduce(kWorldGroup, data.data(), first || sameSize ? 4 : 8,
                         DType::F32, first ? ReduceKind::Sum : ReduceKind::Max);
      EXPECT_HAS(status.message(), "called");
    });
}

TEST(LocalComm, DISABLED_Speed) {
  for (int ranks : {2, 4})
    for (int64_t bytes : {1 << 10, 64 << 10, 1 << 20, 64 << 20}) {
      std::vector<double> best(ranks, 1e9);
      onRanks(ranks, 30, [&](Communicator &comm) {
        std::vector<float> data(bytes / 4, 1.f);
        for (int round = 0; round < (bytes > (1 << 22) ? 8 : 200); ++round) {
          (void)comm.barrier(kWorldGroup);
          double begin = nowSeconds();
          (void)comm.allReduce(kWorldGroup, data.data(), bytes / 4, DType::F32,
                               ReduceKind::Max);
          best[comm.rank()] = std::min(best[comm.rank()], nowSeconds() - begin);
        }
      });
      std::printf("all_reduce %9lld bytes x%d: %.1f us\n",
                  static_cast<long long>(bytes), ranks, best[0] * 1e6);
    }
}

TEST(LocalComm, PeersAcrossHosts) {
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(peersAcrossHosts({"a", "a", "b", "b"}), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(peersAcrossHosts({"a", "b", "b", "a"}), (Groups{{0, 1}, {2, 3}}));
  // The result is empty for one host, for one rank per host, and for hosts of
  // different sizes.
  EXPECT_EQ(peersAcrossHosts({"a", "a"}), Groups{});
  EXPECT_EQ(peersAcrossHosts({"a", "b"}), Groups{});
  EXPECT_EQ(peersAcrossHosts({"a", "a", "b"}), Groups{});
}

TEST(LocalComm, GroupsAreMeasuredAtOnce) {
  onRanks(4, 20, [](Communicator &comm) {
    std::vector<std::string> hosts = {"a", "a", "b", "b"};
    std::vector<std::vector<int>> groups = peersAcrossHosts(hosts);
    ASSERT_TRUE(comm.makeGroups({{0, {}, groups}}).ok());
    Expected<CollectiveSample> sample = measureAllReduce(comm, 4096, 0);
    ASSERT_TRUE(sample) << sample.status().message();
    EXPECT_GT(sample->seconds, 0);
    std::string text = formatAllReduce({{4000, 1e-6}}, hosts, groups);
    EXPECT_HAS(text, "#  Rank   2 Group  0 on b ");
    EXPECT_HAS(text, "#  Rank   3 Group  1 on b ");
    // algbw and busbw are equal for two ranks
    EXPECT_HAS(text, "  4.000   4.000 ");
  });
}

} // namespace
} // namespace dpc::rt::test
