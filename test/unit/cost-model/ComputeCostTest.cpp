#include "cost-model/ComputeCost.h"

#include <gtest/gtest.h>

using namespace dpc::cost;

/// 4 SMs, 8x8 tiles, 1000 FLOP/s, 50 B/s of 100, 1 s launch.
static Device toy() {
  Device device;
  device.peakFlops[static_cast<int>(DType::F32)] = 1000;
  device.memoryBytes = 1e6;
  device.memoryBytesPerSecond = 100;
  device.memoryFraction = 0.5;
  device.multiprocessors = 4;
  device.launchSeconds = 1;
  device.gemm.peakFraction = 0.8;
  device.gemm.tileM = device.gemm.tileN = 8;
  return device;
}

TEST(ComputeCost, FullWaveReachesThePeakFraction) {
  EXPECT_DOUBLE_EQ(gemmEfficiency(toy(), DType::F32, {1, 16, 16, 64}), 0.8);
}

TEST(ComputeCost, TilesAndWavesQuantize) {
  // 5 tiles on 4 SMs: two waves for 5/8 of the work. Halving both tile sides
  // gives 20 tiles, 5 full waves at 0.85^2 = 0.7225: better.
  EXPECT_DOUBLE_EQ(gemmEfficiency(toy(), DType::F32, {5, 8, 8, 64}),
                   0.8 * 0.7225);
  // One row of a tile of at least 2 rows, one SM busy... 1 x 8: tiles of 2 x 2
  // (four of them) use 8 of 16 slots at 0.85^4.
  EXPECT_DOUBLE_EQ(gemmEfficiency(toy(), DType::F32, {1, 1, 8, 64}),
                   0.8 * 0.5 * 0.85 * 0.85 * 0.85 * 0.85);
}

TEST(ComputeCost, SmallKAndMisalignment) {
  Device device = toy();
  device.gemm.halfK = 64;
  EXPECT_DOUBLE_EQ(gemmEfficiency(device, DType::F32, {1, 16, 16, 64}), 0.4);
  device.gemm.alignBytes = 32;
  device.gemm.misalignedFraction = 0.5;
  EXPECT_DOUBLE_EQ(gemmEfficiency(device, DType::F32, {1, 16, 16, 64}), 0.4);
  EXPECT_LT(gemmEfficiency(device, DType::F32, {1, 16, 16, 65}), 0.21);
}

TEST(ComputeCost, RooflineTakesTheLarger) {
  Device device = toy();
  GemmShape shape{1, 16, 16, 64};
  EXPECT_DOUBLE_EQ(shape.flops(), 32768);
  EXPECT_DOUBLE_EQ(shape.bytes(DType::F32), 4 * (16 * 64 * 2 + 256));
  // Memory: 9216 / 50 = 184 s; arithmetic: 32768 / 800 = 41 s.
  EXPECT_DOUBLE_EQ(gemmSeconds(device, DType::F32, shape), 1 + 9216 / 50.0);
  device.memoryBytesPerSecond = 1e9;
  EXPECT_DOUBLE_EQ(gemmSeconds(device, DType::F32, shape), 1 + 32768 / 800.0);
}

TEST(ComputeCost, StreamsAndEmptyWork) {
  EXPECT_DOUBLE_EQ(streamSeconds(toy(), 100), 3);
  EXPECT_DOUBLE_EQ(streamSeconds(toy(), 100, 5000), 6);
  EXPECT_EQ(streamSeconds(toy(), 0), 0);
  EXPECT_EQ(gemmSeconds(toy(), DType::F32, {1, 0, 4, 4}), 0);
}

TEST(ComputeCost, LargeProductsOnA100AreNearTheMeasured) {
  Result<Device> device = loadDevice("a100-sxm-80gb");
  ASSERT_TRUE(device) << device.error();
  auto teraflops = [&](int64_t n) {
    GemmShape shape{1, n, n, n};
    return shape.flops() / gemmSeconds(*device, DType::F16, shape) / 1e12;
  };
  // Read off NVIDIA's plot: 27, 90, 195, 260 at short load; the device file
  // holds the sustained 0.775 of peak.
  EXPECT_NEAR(teraflops(8192), 235, 15);
  EXPECT_NEAR(teraflops(2048), 180, 35);
  EXPECT_NEAR(teraflops(512), 25, 15);
  EXPECT_GT(teraflops(4096), teraflops(1024));
}

TEST(ComputeCost, TypesThatADeviceLacks) {
  Result<Device> v100 = loadDevice("v100-sxm2-32gb");
  ASSERT_TRUE(v100) << v100.error();
  EXPECT_EQ(computeType(*v100, DType::BF16), DType::F16);
  EXPECT_EQ(computeType(*v100, DType::FP8), DType::F16);
  EXPECT_EQ(computeType(*v100, DType::F32), DType::F32);
  EXPECT_EQ(computeType(toy(), DType::BF16), DType::F32);
  EXPECT_EQ(symbolizeDType("fp16"), DType::F16);
  EXPECT_EQ(symbolizeDType("int4"), std::nullopt);
  EXPECT_EQ(bytesPerElement(DType::BF16), 2);
}
