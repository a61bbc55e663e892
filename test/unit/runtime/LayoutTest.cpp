#include "runtime/base/Layout.h"
#include "runtime/base/DType.h"
#include "test/unit/runtime/Expect.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace dpc::rt {
namespace {

/// Packs the shards of an array 0, 1, 2, ... and unpacks them into a new array,
/// which must be equal.
void expectRoundTrip(const Layout &layout, const std::vector<int64_t> &shape,
                     const Mesh &mesh) {
  ASSERT_TRUE(checkLayout(layout, shape, mesh).ok());
  int64_t count = numElements(shape);
  std::vector<float> global(count), back(count, -1);
  std::iota(global.begin(), global.end(), 0.f);
  int64_t local = numElements(localShape(layout, mesh)), seen = 0;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    for (int64_t mb = 0; mb < mesh.microBatchesOf(rank); ++mb) {
      std::vector<float> shard(local, NAN);
      packShard(global.data(), shard.data(), 4, layout, mesh, rank, mb);
      unpackShard(shard.data(), back.data(), 4, layout, mesh, rank, mb);
      if (ownsShard(layout, mesh, rank, mb))
        seen += std::count_if(shard.begin(), shard.end(),
                              [](float v) { return !std::isnan(v); });
    }
  EXPECT_EQ(back, global);
  EXPECT_EQ(seen, count) << "each element has one owner";
}

TEST(Layout, ShardsFollowTheFormula) {
  Mesh mesh{{{"dp", 3}}, 1};
  std::vector<int64_t> valid;
  valid.reserve(3);
  for (int rank = 0; rank < 3; ++rank)
    valid.push_back(shardOf(8, {"dp"}, mesh, rank, 0).valid);
  EXPECT_EQ(valid, (std::vector<int64_t>{3, 3, 2}));
  Mesh four{{{"dp", 4}}, 1};
  FactorShard last = shardOf(5, {"dp"}, four, 3, 0);
  EXPECT_EQ(last.valid, 0);
  EXPECT_EQ(last.capacity, 2);
  EXPECT_EQ(last.offset, 6);
}

TEST(Layout, NestedAxesSplitShards) {
  // dp=2 splits 10 into 5 and 5; tp=3 splits 5 into 2, 2 and 1.
  Mesh mesh{{{"dp", 2}, {"tp", 3}}, 1};
  std::vector<std::pair<int64_t, int64_t>> shards;
  for (int rank = 0; rank < 6; ++rank) {
    FactorShard shard = shardOf(10, {"dp", "tp"}, mesh, rank, 0);
    shards.emplace_back(shard.offset, shard.valid);
  }
  EXPECT_EQ(shards, (std::vector<std::pair<int64_t, int64_t>>{
                        {0, 2}, {2, 2}, {4, 1}, {5, 2}, {7, 2}, {9, 1}}));
}

TEST(Layout, UnevenSharesSplitTheBatchEvenly) {
  // dp and mb split 8 rows into 4 parts; the first dp rank takes three.
  Mesh mesh{{{"dp", 2}, {"tp", 2}}, 2, {3, 1}};
  std::vector<int64_t> offsets;
  for (int64_t rank : {0, 1, 2, 3})
    for (int64_t mb = 0; mb < mesh.microBatchesOf(rank); ++mb)
      offsets.push_back(shardOf(8, {"dp", "mb"}, mesh, rank, mb).offset);
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 2, 4, 0, 2, 4, 6, 6}));
  EXPECT_EQ(mesh.mostMicroBatches(), 3);
  EXPECT_EQ(shardOf(8, {"dp"}, mesh, 2, 0).offset, 4) << "whole shares";
  EXPECT_EQ(shardOf(8, {"tp"}, mesh, 1, 2).offset, 4);
}

TEST(Layout, UnevenSharesOfTwoDataAxes) {
  Mesh mesh{{{"dp", 2}, {"cp", 2}, {"dpi", 2}}, 3, {1, 4, 2, 5}};
  EXPECT_EQ(mesh.dataRanks(), 4);
  Layout layout{{{{23, {"dp", "dpi", "mb"}}}, {{4, {"cp"}}}}};
  expectRoundTrip(layout, {23, 4}, mesh);
  expectRoundTrip(Layout{{{{24, {"dp", "dpi", "mb"}}}, {{4, {}}}}}, {24, 4},
                  Mesh{{{"dp", 2}, {"dpi", 2}}, 3, {1, 4, 2, 5}});
}

TEST(Layout, UnevenSharesRequireDataAxesWithMicroBatches) {
  Mesh mesh{{{"dp", 2}}, 2, {3, 1}};
  EXPECT_TRUE(checkLayout({{{{8, {"dp", "mb"}}}}}, {8}, mesh).ok());
  Status apart = checkLayout({{{{2, {"dp"}}, {4, {"mb"}}}}}, {8}, mesh);
  EXPECT_HAS(apart.message(), "mb without 'dp'");
  mesh.batchShares.clear();
  EXPECT_TRUE(checkLayout({{{{2, {"dp"}}, {4, {"mb"}}}}}, {8}, mesh).ok());
}

TEST(Layout, RoundTripsUneven) {
  Mesh mesh{{{"dp", 3}}, 1};
  expectRoundTrip({{{{8, {"dp"}}}, {{5, {}}}}}, {8, 5}, mesh);
  expectRoundTrip({{{{5, {}}}, {{8, {"dp"}}}}}, {5, 8}, mesh);
}

TEST(Layout, RoundTripsInnerFactor) {
  // A fused projection: 192 = 3 * 4 heads * head_dim 16; tp=3 splits 4 heads.
  Mesh mesh{{{"tp", 3}}, 1};
  Layout layout{{{{2, {}}}, {{3, {}}, {4, {"tp"}}, {16, {}}}}};
  EXPECT_EQ(localShape(layout, mesh), (std::vector<int64_t>{2, 3 * 2 * 16}));
  expectRoundTrip(layout, {2, 192}, mesh);
}

TEST(Layout, RoundTripsTwoAxesOnOneFactorAndMicroBatches) {
  Mesh mesh{{{"dp", 2}, {"tp", 3}}, 3};
  expectRoundTrip({{{{10, {"dp", "tp"}}}}}, {10}, mesh);
  expectRoundTrip({{{{10, {"tp", "dp"}}}}}, {10}, mesh);
  expectRoundTrip({{{{11, {"dp", "mb"}}}, {{4, {"tp"}}}}}, {11, 4}, mesh);
}

TEST(Layout, RoundTripsEmptyShardsScalarsAndEmptyArrays) {
  Mesh mesh{{{"tp", 4}}, 1};
  expectRoundTrip({{{{3, {"tp"}}}, {{2, {}}}}}, {3, 2}, mesh);
  expectRoundTrip({}, {}, mesh);
  expectRoundTrip({{{{0, {"tp"}}}}}, {0}, mesh);
}

TEST(Layout, RefusesInvalidLayouts) {
  Mesh mesh{{{"tp", 4}}, 1};
  auto message = [&](const Layout &layout) {
    return checkLayout(layout, {12}, mesh).message();
  };
  EXPECT_HAS(message({{{{3, {}}, {3, {}}}}}), "multiply to 9, not 12");
  EXPECT_HAS(message({{{{12, {"pp"}}}}}), "'pp'");
  EXPECT_HAS(message({{{{3, {"tp"}}, {4, {"tp"}}}}}), "twice");
  EXPECT_HAS(message({}), "0 dimensions");
}

TEST(DType, HalfPrecisionRoundsToNearestEven) {
  EXPECT_EQ(floatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBf16(1.00390625f), 0x3f80); // tie: even is kept
  EXPECT_EQ(floatToBf16(1.01171875f), 0x3f82); // tie: odd is rounded up
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(NAN))));
  for (uint32_t bits = 0; bits < 0x7c00; ++bits)
    ASSERT_EQ(floatToF16(f16ToFloat(static_cast<uint16_t>(bits))), bits);
  EXPECT_EQ(floatToF16(65520.f), 0x7c00);
  EXPECT_EQ(floatToF16(65519.f), 0x7bff);
  EXPECT_EQ(floatToF16(-2.f), 0xc000);
  EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(NAN))));
}

} // namespace
} // namespace dpc::rt
