#include "runtime/exec/ExpertExchange.h"
#include "runtime/base/HostTensor.h"
#include "test/unit/runtime/CommConformance.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace dpc::rt {
namespace {

/// Every row is in one round, and no member sends or receives too many.
TEST(ExpertExchange, RoundsFitWhateverTheCountsAre) {
  std::mt19937 random(7);
  for (int members : {1, 2, 5, 16})
    for (int64_t most : {members, members + 1, 4 * members, 1000})
      for (int64_t largest : {0, 1, 3, 700}) {
        std::vector<int64_t> counts(static_cast<size_t>(members) * members);
        for (int64_t &count : counts) // often none, as with a skewed router
          count = random() % 3 == 0 ? largest : largest * (random() % 2) / 5;
        ExchangeRounds rounds(counts, members, most);
        int64_t total = 0;
        for (int64_t round = 0; round < rounds.size(); ++round)
          for (int one = 0; one < members; ++one) {
            int64_t sent = 0, received = 0;
            for (int other = 0; other < members; ++other) {
              sent += rounds.rows(one, other, round);
              received += rounds.rows(other, one, round);
            }
            total += sent;
            ASSERT_LE(sent, most);
            ASSERT_LE(received, most);
          }
        EXPECT_EQ(total,
                  std::accumulate(counts.begin(), counts.end(), int64_t(0)));
      }
}

TEST(ExpertExchange, ABalancedRouterNeedsFewRounds) {
  EXPECT_EQ(ExchangeRounds({4, 4, 4, 4}, 2, 8).size(), 1);
  EXPECT_EQ(ExchangeRounds({4, 4, 4, 4}, 2, 4).size(), 2);
  EXPECT_EQ(ExchangeRounds({0, 0, 0, 0}, 2, 4).size(), 1);
  // All rows of both to one member.
  EXPECT_EQ(ExchangeRounds({8, 0, 8, 0}, 2, 4).size(), 4);
}

/// The ids and rows of one of several members, in tiles of five rows. The body
/// multiplies a row by its id + 1, and sums the tile.
struct Member {
  Member(int64_t tokens, int64_t tileRows, DType type) {
    add(DType::I64, {2 * tokens});  // 0: ids
    add(DType::I64, {tileRows});    // 1: ids of a tile
    add(type, {tokens, 3});         // 2: rows
    add(type, {tileRows, 3});       // 3: rows of a tile
    add(type, {tileRows, 3});       // 4: results of a tile
    add(DType::F32, {tokens, 3});   // 5: sums of rows
    add(type, {1, 3});              // 6: sum of a tile
    add(DType::F32, {1, 3});        // 7: sum of tiles
    add(DType::F32, {tileRows, 3}); // 8: rows on their way
    op.group = kWorldGroup;
    op.ids = 0;
    op.tileIds = 1;
    op.rows = 2 * tokens;
    op.tileRows = tileRows;
    op.experts = 2;
    op.takes = {{2, 3, 2}};
    op.adds = {{5, 4, 2}, {7, 6, 0}};
    op.staged = 8;
  }
  void add(DType type, std::vector<int64_t> shape) {
    int id = test::addBuffer(plan, "", BufferKind::Workspace, shape, type);
    data.emplace_back(plan.buffers[id].bytes, '\xff');
  }
  double get(int buffer, int64_t i) const {
    return loadAsDouble(data[buffer].data(), plan.buffers[buffer].dtype, i);
  }
  void set(int buffer, int64_t i, double value) {
    storeFromDouble(data[buffer].data(), plan.buffers[buffer].dtype, i, value);
  }
  void runBody() {
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < op.tileRows; ++r) {
        double value = get(3, r * 3 + c) * (get(1, r) + 1);
        set(4, r * 3 + c, value);
        sum += value;
      }
      set(6, c, sum);
    }
  }

  Plan plan;
  ExpertTilesOp op;
  std::vector<std::vector<char>> data;
};

/// Returns how many rows have experts of `self`.
int64_t ownRows(int members, int64_t tokens, int self,
                const std::function<int64_t(int, int64_t)> &idOf) {
  int64_t rows = 0;
  for (int member = 0; member < members; ++member)
    for (int64_t r = 0; r < 2 * tokens; ++r)
      rows += idOf(member, r) >= 0 && idOf(member, r) / 2 == self;
  return rows;
}

/// Runs `members` members with two experts each, whose `tokens` tokens choose
/// the experts idOf(member, row), and compares with sums over all rows.
void expectSums(int members, int64_t tokens, int64_t tileRows, DType type,
                const std::function<int64_t(int, int64_t)> &idOf) {
  auto valueOf = [&](int member, int64_t token, int64_t c) {
    return static_cast<double>(member * 7 + token * 3 + c % 2) / 4;
  };
  test::onRanks(members, 60, [&](Communicator &comm) {
    int self = comm.rank();
    Member own(tokens, tileRows, type);
    for (int64_t r = 0; r < 2 * tokens; ++r)
      own.set(0, r, static_cast<double>(idOf(self, r)));
    for (int64_t i = 0; i < tokens * 3; ++i)
      own.set(2, i, valueOf(self, i / 3, i % 3));
    std::vector<ExpertIds> owners;
    owners.reserve(members);
    for (int member = 0; member < members; ++member)
      owners.push_back({own.data[0].data(), DType::I64, 2 * member, 2});
    int64_t tiles = 0;
    ExpertCounts counts;
    Status status = runExpertExchange(
        own.plan, own.op, owners, self, comm,
        [&](int id) { return own.data[id].data(); },
        [&] {
          ++tiles;
          own.runBody();
          return Status::success();
        },
        counts);
    ASSERT_EQ(status.message(), "");
    EXPECT_EQ(counts.rows, ownRows(members, tokens, self, idOf));
    EXPECT_GE(counts.tiles, tiles);
    std::vector<double> rows(tokens * 3), whole(3);
    for (int member = 0; member < members; ++member)
      for (int64_t r = 0; r < 2 * tokens; ++r)
        for (int64_t c = 0; c < 3; ++c) {
          int64_t id = idOf(member, r);
          bool hasOwner = id >= 0 && id < 2 * members;
          double value =
              hasOwner ? valueOf(member, r / 2, c) * static_cast<double>(id + 1)
                       : 0;
          if (member == self)
            rows[r / 2 * 3 + c] += value;
          if (id / 2 == self && id >= 0)
            whole[c] += value;
        }
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_NEAR(own.get(5, i), rows[i], 1e-4) << "rank " << self;
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_NEAR(own.get(7, i), whole[i], 1e-3) << "rank " << self;
    EXPECT_LE(tiles, 4 * members * tokens / (tileRows - members + 1) + 2);
  });
}

TEST(ExpertExchange, RowsReturnToTheirTokens) {
  for (int members : {1, 2, 4})
    for (int64_t tokens : {1, 6, 40})
      for (int64_t tileRows : {4, 7, 100})
        expectSums(members, tokens, tileRows, DType::F32,
                   [&](int member, int64_t row) {
                     return (member * 5 + row * 3) % (2 * members);
                   });
}

/// All rows of all members go to one, so that the others run no tile.
TEST(ExpertExchange, NoRowIsLostIfOneRankHasAll) {
  expectSums(4, 40, 6, DType::F32, [](int, int64_t) { return 5; });
}

TEST(ExpertExchange, RowsWithoutAnExpertStay) {
  expectSums(3, 10, 5, DType::F32, [](int member, int64_t row) {
    return row % 4 == 0 ? -1 : row % 4 == 1 ? 6 + member : row % 6;
  });
}

TEST(ExpertExchange, HalfRowsAreAddedInFull) {
  expectSums(2, 2, 4, DType::BF16,
             [](int member, int64_t row) { return (member + row) % 4; });
}

} // namespace
} // namespace dpc::rt
