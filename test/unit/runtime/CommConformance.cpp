#include "test/unit/runtime/CommConformance.h"

#include "runtime/base/Wait.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace dpc::rt::test {
namespace {

constexpr double kTimeout = 30;

const DType kReducible[] = {DType::F32, DType::F64, DType::BF16,
                            DType::F16, DType::I64, DType::I32};
const ReduceKind kKinds[] = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min,
                             ReduceKind::Prod};

/// Small integers: sums and products are exact in all types.
double valueOf(int rank, int64_t i, ReduceKind kind) {
  if (kind == ReduceKind::Prod)
    return (rank + i) % 3 == 0 ? 2 : ((rank + i) % 3 == 1 ? 1 : -1);
  return static_cast<double>((rank * 7 + i * 3) % 11) - 5;
}

double reduced(const std::vector<int> &ranks, int64_t i, ReduceKind kind) {
  double acc = valueOf(ranks[0], i, kind);
  for (size_t r = 1; r < ranks.size(); ++r) {
    double v = valueOf(ranks[r], i, kind);
    acc = kind == ReduceKind::Sum   ? acc + v
          : kind == ReduceKind::Max ? std::max(acc, v)
          : kind == ReduceKind::Min ? std::min(acc, v)
                                    : acc * v;
  }
  return acc;
}

std::vector<char> filled(int rank, int64_t count, DType type, ReduceKind kind) {
  std::vector<char> data(count * sizeOf(type));
  for (int64_t i = 0; i < count; ++i)
    storeFromDouble(data.data(), type, i, valueOf(rank, i, kind));
  return data;
}

std::vector<int> allRanks(int size) {
  std::vector<int> ranks(size);
  for (int i = 0; i < size; ++i)
    ranks[i] = i;
  return ranks;
}

std::string message(const Status &status) { return status.message(); }

class CommTest : public testing::TestWithParam<int> {};

TEST_P(CommTest, AllReducesEveryTypeAndKindExactly) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    for (DType type : kReducible)
      for (ReduceKind kind : kKinds)
        for (int64_t count : {0, 1, 7, 1000, 20001}) {
          std::vector<char> data = filled(comm.rank(), count, type, kind);
          ASSERT_EQ(message(comm.allReduce(kWorldGroup, data.data(), count,
                                           type, kind)),
                    "");
          for (int64_t i = 0; i < count; ++i)
            ASSERT_EQ(loadAsDouble(data.data(), type, i),
                      reduced(allRanks(comm.size()), i, kind))
                << nameOf(type) << ' ' << nameOf(kind) << " element " << i;
        }
  });
}

/// All communicators give bitwise equal sums on all members, because terms are
/// in the order of the members.
TEST_P(CommTest, SumsAreTakenInTheOrderOfTheMembers) {
  auto valueAt = [](int rank, int64_t i) {
    return 1.f / static_cast<float>(1 + (i * 31 + rank * 17) % 1009);
  };
  onRanks(GetParam(), kTimeout, [&](Communicator &comm) {
    auto summed = [&](int64_t i) {
      float sum = valueAt(0, i);
      for (int rank = 1; rank < comm.size(); ++rank)
        sum += valueAt(rank, i);
      return sum;
    };
    // The last array is so large that communicators split it.
    for (int64_t count : {3, 5001, 2500007}) {
      std::vector<float> data(count);
      for (int64_t i = 0; i < count; ++i)
        data[i] = valueAt(comm.rank(), i);
      std::vector<float> out(count / comm.size());
      int64_t first = comm.rank() * static_cast<int64_t>(out.size());
      ASSERT_EQ(
          message(comm.reduceScatter(kWorldGroup, data.data(), out.data(),
                                     out.size(), DType::F32, ReduceKind::Sum)),
          "");
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], summed(first + i)) << "element " << i;
      ASSERT_EQ(message(comm.allReduce(kWorldGroup, data.data(), count,
                                       DType::F32, ReduceKind::Sum)),
                "");
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(data[i], summed(i)) << "element " << i;
    }
  });
}

/// The slices of a call may have different sizes and types.
TEST_P(CommTest, AllReducesSlicesTogether) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    std::vector<std::vector<char>> data;
    std::vector<Slice> slices;
    for (auto [count, type] :
         {std::pair(3, DType::F32), std::pair(30011, DType::BF16),
          std::pair(0, DType::F32), std::pair(5000, DType::I64),
          std::pair(1300000, DType::F32)}) {
      data.push_back(filled(comm.rank(), count, type, ReduceKind::Sum));
      slices.push_back({data.back().data(), count, type});
    }
    ASSERT_EQ(message(comm.allReduce(kWorldGroup, slices, ReduceKind::Sum)),
              "");
    for (const Slice &slice : slices)
      for (int64_t i = 0; i < slice.count; ++i)
        ASSERT_EQ(loadAsDouble(slice.data, slice.type, i),
                  reduced(allRanks(comm.size()), i, ReduceKind::Sum));
  });
}

TEST_P(CommTest, ReduceScattersEveryType) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    for (DType type : kReducible)
      for (ReduceKind kind : kKinds) {
        constexpr int64_t count = 513;
        std::vector<char> in =
            filled(comm.rank(), count * comm.size(), type, kind);
        std::vector<char> out(count * sizeOf(type));
        ASSERT_EQ(message(comm.reduceScatter(kWorldGroup, in.data(), out.data(),
                                             count, type, kind)),
                  "");
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(
              loadAsDouble(out.data(), type, i),
              reduced(allRanks(comm.size()), comm.rank() * count + i, kind));
      }
  });
}

TEST_P(CommTest, GathersExchangesAndBroadcasts) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    int size = comm.size(), rank = comm.rank();
    for (int64_t count : {1, 3000}) {
      std::vector<int32_t> in(count * size), out(count * size);
      for (int64_t i = 0; i < count * size; ++i)
        in[i] = static_cast<int32_t>(rank * 100000 + i);
      ASSERT_EQ(message(comm.allGather(kWorldGroup, in.data(), out.data(),
                                       count * 4)),
                "");
      for (int64_t i = 0; i < count * size; ++i)
        ASSERT_EQ(out[i], i / count * 100000 + i % count);
      std::vector<int64_t> sizes(size, count * 4);
      ASSERT_EQ(message(comm.allToAll(kWorldGroup, in.data(), sizes, out.data(),
                                      sizes)),
                "");
      for (int64_t i = 0; i < count * size; ++i)
        ASSERT_EQ(out[i], i / count * 100000 + rank * count + i % count);
      int root = size - 1;
      ASSERT_EQ(
          message(comm.broadcast(kWorldGroup, in.data(), count * 4, root)), "");
      ASSERT_EQ(in[count - 1], root * 100000 + count - 1);
    }
  });
}

/// Rank i sends i * (j + 2) % 5 bytes to rank j, none among them.
TEST_P(CommTest, ExchangesUnevenChunks) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    auto count = [](int from, int to) -> int64_t {
      return from * (to + 2) % 5 * 700;
    };
    auto byteOf = [](int from, int to, int64_t i) {
      return static_cast<char>(from * 50 + to * 7 + i % 31);
    };
    int rank = comm.rank();
    std::vector<int64_t> sent, received;
    std::vector<char> in, want;
    for (int peer = 0; peer < comm.size(); ++peer) {
      sent.push_back(count(rank, peer));
      received.push_back(count(peer, rank));
      for (int64_t i = 0; i < sent.back(); ++i)
        in.push_back(byteOf(rank, peer, i));
      for (int64_t i = 0; i < received.back(); ++i)
        want.push_back(byteOf(peer, rank, i));
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<char> out(want.size());
      ASSERT_EQ(message(comm.allToAll(kWorldGroup, in.data(), sent, out.data(),
                                      received)),
                "");
      ASSERT_EQ(out, want);
    }
  });
}

TEST_P(CommTest, SendsAroundARingBeforeReceiving) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    int size = comm.size(), rank = comm.rank();
    if (size == 1)
      return;
    // larger than messages that MPI sends eagerly
    constexpr int64_t count = 100000;
    for (int message = 0; message < 3; ++message) {
      std::vector<int32_t> data(count, rank * 10 + message);
      ASSERT_EQ(test::message(comm.send(kWorldGroup, data.data(), count * 4,
                                        (rank + 1) % size, 7)),
                "");
    }
    for (int message = 0; message < 3; ++message) {
      std::vector<int32_t> data(count);
      int from = (rank + size - 1) % size;
      ASSERT_EQ(test::message(
                    comm.recv(kWorldGroup, data.data(), count * 4, from, 7)),
                "");
      ASSERT_EQ(data.front(), from * 10 + message);
      ASSERT_EQ(data.back(), from * 10 + message);
    }
  });
}

/// recv() skips earlier messages with different tags.
TEST_P(CommTest, MessagesWithOtherTagsMayBeReceivedFirst) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    int size = comm.size(), rank = comm.rank();
    if (size == 1)
      return;
    constexpr int64_t count = 50000;
    constexpr int64_t tags = 4, rounds = 3;
    for (int64_t round = 0; round < rounds; ++round)
      for (int64_t tag = 0; tag < tags; ++tag) {
        std::vector<int32_t> data(count * (tag % 2) + 1,
                                  static_cast<int32_t>(round * 10 + tag));
        auto bytes = static_cast<int64_t>(data.size() * 4);
        ASSERT_EQ(message(comm.send(kWorldGroup, data.data(), bytes,
                                    (rank + 1) % size, tag)),
                  "");
      }
    // Rank 0 calls recv() late, so that its messages arrive before the call.
    if (rank == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int64_t tag = tags - 1; tag >= 0; --tag)
      for (int64_t round = 0; round < rounds; ++round) {
        std::vector<int32_t> data(count * (tag % 2) + 1);
        auto bytes = static_cast<int64_t>(data.size() * 4);
        ASSERT_EQ(message(comm.recv(kWorldGroup, data.data(), bytes,
                                    (rank + size - 1) % size, tag)),
                  "");
        ASSERT_EQ(data.front(), round * 10 + tag);
        ASSERT_EQ(data.back(), round * 10 + tag);
      }
    ASSERT_EQ(message(comm.finishSends()), "");
    ASSERT_EQ(message(comm.barrier(kWorldGroup)), "");
  });
}

TEST_P(CommTest, GroupsHaveSeparateMessages) {
  if (GetParam() != 4)
    return;
  Mesh mesh{{{"pp", 2}, {"dp", 2}}, 1};
  std::vector<Group> groups = {
      {0, {"pp"}, groupMembers(mesh, {"pp"})},
      {1, {"pp", "dp"}, groupMembers(mesh, {"pp", "dp"})}};
  onRanks(4, kTimeout, [&](Communicator &comm) {
    ASSERT_EQ(message(comm.makeGroups(groups)), "");
    int rank = comm.rank();
    if (rank < 2) {
      for (int group : {0, 1}) {
        int32_t value = rank * 10 + group;
        int peer = group == 0 ? 1 : rank + 2;
        ASSERT_EQ(message(comm.send(group, &value, 4, peer, 3)), "");
      }
    } else {
      for (int group : {1, 0}) {
        int32_t value = -1;
        int peer = group == 0 ? 0 : rank - 2;
        ASSERT_EQ(message(comm.recv(group, &value, 4, peer, 3)), "");
        EXPECT_EQ(value, (rank - 2) * 10 + group);
      }
    }
    ASSERT_EQ(message(comm.barrier(kWorldGroup)), "");
  });
}

/// If a message is missing, the error names its sender.
TEST_P(CommTest, AMissingSenderIsNamed) {
  if (GetParam() == 1)
    return;
  onRanks(GetParam(), 0.4, [](Communicator &comm) {
    if (comm.rank() != 0)
      return;
    static auto *kept = new float(0); // see ALateRankIsNamed
    Status status = comm.recv(kWorldGroup, kept, 4, 1, 9);
    EXPECT_EQ(status.code(), StatusCode::Timeout);
    EXPECT_EQ(status.message(),
              "rank 0 waited 0.4 s in recv with tag 9 for rank 1");
  });
}

/// Calls alternate between the rows, the columns and all ranks of a mesh.
TEST_P(CommTest, GroupsAreIndependent) {
  int rows = GetParam() % 2 == 0 ? 2 : 1, columns = GetParam() / rows;
  Mesh mesh{{{"dp", rows}, {"tp", columns}}, 1};
  std::vector<Group> groups = {{0, {"tp"}, groupMembers(mesh, {"tp"})},
                               {1, {"dp"}, groupMembers(mesh, {"dp"})},
                               {2, {}, groupMembers(mesh, {})}};
  onRanks(GetParam(), kTimeout, [&](Communicator &comm) {
    ASSERT_EQ(message(comm.makeGroups(groups)), "");
    for (int round = 0; round < 20; ++round)
      for (const Group &group : groups) {
        float value = static_cast<float>(comm.rank()), want = 0;
        for (const auto &cell : group.members)
          if (std::count(cell.begin(), cell.end(), comm.rank()))
            want = static_cast<float>(
                std::accumulate(cell.begin(), cell.end(), 0));
        ASSERT_EQ(message(comm.allReduce(group.id, &value, 1, DType::F32,
                                         ReduceKind::Sum)),
                  "");
        EXPECT_EQ(value, want) << "group " << group.id;
      }
  });
}

TEST_P(CommTest, NaNIsNotLost) {
  onRanks(GetParam(), kTimeout, [](Communicator &comm) {
    float value = comm.rank() == 0 ? NAN : 1.f;
    ASSERT_EQ(message(comm.allReduce(kWorldGroup, &value, 1, DType::F32,
                                     ReduceKind::Sum)),
              "");
    EXPECT_TRUE(std::isnan(value));
  });
}

TEST_P(CommTest, ALateRankIsNamed) {
  if (GetParam() == 1)
    return;
  onRanks(GetParam(), 0.4, [](Communicator &comm) {
    int late = comm.size() - 1;
    if (comm.rank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      return;
    }
    // Never freed, because the unfinished operation may still write to it.
    static auto *kept = new std::array<std::array<float, 5000>, 8>();
    Status status = comm.allReduce(kWorldGroup, (*kept)[comm.rank()].data(),
                                   5000, DType::F32, ReduceKind::Sum);
    EXPECT_EQ(status.code(), StatusCode::Timeout);
    EXPECT_EQ(status.message(), "rank " + std::to_string(comm.rank()) +
                                    " waited 0.4 s in all_reduce for rank " +
                                    std::to_string(late));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommTest, testing::ValuesIn(worldSizes()));

} // namespace
} // namespace dpc::rt::test
