#include "cost-model/machine/ComputeCost.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

/// A device with 4 SMs, tiles of 8 x 8, 1000 FLOP/s, an effective bandwidth of
/// 50 of 100 B/s, and 1 s per launch.
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

TEST(ComputeCost, NarrowGemmsOfCpusConvertTheirElements) {
  Device device = toy();
  GemmShape shape{1, 16, 8, 64};
  double wide = gemmSeconds(device, DType::F32, shape);
  EXPECT_DOUBLE_EQ(narrowGemmSeconds(device, DType::BF16, shape), wide);
  device.narrowElementSeconds = 0.5;
  EXPECT_DOUBLE_EQ(narrowGemmSeconds(device, DType::F32, shape), wide);
  // The elements of a, b and c.
  EXPECT_DOUBLE_EQ(narrowGemmSeconds(device, DType::BF16, shape),
                   wide + 0.5 * (16 * 64 + 64 * 8 + 16 * 8));
  EXPECT_DOUBLE_EQ(narrowGemmSeconds(device, DType::F16, {}), 0);
}

TEST(ComputeCost, LocalRanksConvertNarrowElements) {
  Expected<Cluster> one = makeLocalCluster(1), many = makeLocalCluster(4096);
  ASSERT_TRUE(one && many);
  double alone = one->groups.front().device.narrowElementSeconds;
  EXPECT_GT(alone, 0);
  // More ranks than cores take turns.
  EXPECT_GT(many->groups.front().device.narrowElementSeconds, alone);
  Expected<Device> gpu = loadDevice("h100-sxm-80gb");
  ASSERT_TRUE(gpu);
  EXPECT_EQ(gpu->narrowElementSeconds, 0);
}

TEST(ComputeCost, TilesAndWavesQuantize) {
  Device device = toy();
  device.gemm.operandCost = 4;
  // 5 tiles of 8 x 8 on 4 SMs need two waves that are 5/8 full. Tiles of 4 x 4
  // are better: 5 full waves at intensity (1 + 4/4) / (1 + 4/2) = 2/3.
  EXPECT_NEAR(gemmEfficiency(device, DType::F32, {5, 8, 8, 64}), 0.8 * 2 / 3,
              1e-12);
  // The single row fills half of a 2 x 2 tile, the smallest tile. Four tiles
  // run at intensity 2 / (1 + 4) = 0.4.
  EXPECT_NEAR(gemmEfficiency(device, DType::F32, {1, 1, 8, 64}),
              0.8 * 0.5 * 0.4, 1e-12);
}

TEST(ComputeCost, FewTilesSplitK) {
  Device device = toy();
  device.gemm.operandCost = 1e6; // Only loads count.
  device.memoryBytesPerSecond = 2e6;
  // One 8 x 8 tile with k = 1024 takes 8 * 8 * 1024 / 100 = 655.36 s on one of
  // 4 SMs. Four parts with k = 256, the smallest part, take a quarter of this
  // time. Each of the 64 partial sums of a part moves 8 bytes at 1e6 B/s.
  EXPECT_NEAR(gemmSeconds(device, DType::F32, {1, 8, 8, 1024}),
              1 + 655.36 / 4 + 8 * 4 * 64 / 1e6, 1e-9);
  // k = 510 is not split, because each part would have k = 255. Four tiles of 4
  // x 4 run at half the rate: 16 * 510 / 50.
  EXPECT_NEAR(gemmSeconds(device, DType::F32, {1, 8, 8, 510}), 1 + 163.2, 1e-3);
  device.gemm.rampSeconds = 5;
  EXPECT_NEAR(gemmSeconds(device, DType::F32, {1, 8, 8, 510}), 6 + 163.2, 1e-3);
}

TEST(ComputeCost, AttentionByHand) {
  Device device = toy();
  device.attentionForward = 0.5;
  device.attentionBackward = 0.25;
  AttentionShape shape{2, 16, 16, 8, 8, true, false, 4096};
  Software fused;
  fused.attention = AttentionKernels::Fused;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, fused),
                   1 + 4096 / 500.0);
  fused.attentionRate = 0.5;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, fused),
                   1 + 4096 / 250.0);
  shape.backward = true;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, fused),
                   1 + 4096 / 125.0);
  // Rates of the device's cuDNN kernels: 16 keys reach 800 x 16 / (16 + 48).
  device.peakFlops[static_cast<int>(DType::BF16)] = 1000;
  device.cudnnForward = {.flops = 800, .halfLength = 48};
  device.cudnnBackward = {.flops = 400, .halfLength = 16};
  Software cudnn;
  cudnn.attention = AttentionKernels::FusedCudnn;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::BF16, shape, cudnn),
                   1 + 4096 / 200.0);
  shape.backward = false;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::BF16, shape, cudnn),
                   1 + 4096 / 200.0);
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, cudnn),
                   attentionSeconds(device, DType::F32, shape, fused) / 2 +
                       0.5);
  // 250 keys reach half of the rate without a mask.
  device.cudnnForward.halfLength = 784;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::BF16, shape, cudnn),
                   1 + 4096 / 16.0);
  shape.causal = false;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::BF16, shape, cudnn),
                   1 + 4096 / (800 * 16 / 266.0));
  shape.causal = shape.backward = true;
  // The GEMMs of the scores (2 of 16 x 16 x 8) move 4 * 2 * (128 + 128 + 256) =
  // 4096 bytes at 50 B/s, and so do the GEMMs of the values: 1 + 81.92 s each.
  // The causal forward pass moves 3 bytes for each of 512 scores.
  Software unfused;
  unfused.attention = AttentionKernels::Unfused;
  shape.backward = false;
  double gemm = 1 + 4096 / 50.0;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, unfused),
                   2 * gemm + 1 + 3 * 512 / 50.0);
  shape.causal = false;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, unfused),
                   2 * gemm + 1 + 4 * 512 / 50.0);
  // The backward pass has four GEMMs and moves 6 bytes per score, and 5 more
  // for dropout.
  shape.backward = true;
  unfused.attentionDropout = true;
  EXPECT_DOUBLE_EQ(attentionSeconds(device, DType::F32, shape, unfused),
                   4 * gemm + 1 + 6 * 512 / 50.0 + 1 + 5 * 512 / 50.0);
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
  // Memory takes 9216 / 50 = 184 s, arithmetic 32768 / 800 = 41 s.
  EXPECT_DOUBLE_EQ(gemmSeconds(device, DType::F32, shape), 1 + 9216 / 50.0);
  device.memoryBytesPerSecond = 1e9;
  EXPECT_DOUBLE_EQ(gemmSeconds(device, DType::F32, shape), 1 + 32768 / 800.0);
}

TEST(ComputeCost, ResultsOfFp8HaveTwoBytes) {
  Device device = toy();
  device.peakFlops[static_cast<int>(DType::FP8)] = 1e12;
  GemmShape shape{1, 16, 32, 64};
  shape.resultBytes = 2;
  // (16 + 32) * 64 operands of one byte and 16 * 32 results of two bytes move
  // at 50 B/s.
  EXPECT_NEAR(gemmSeconds(device, DType::FP8, shape), 1 + 4096 / 50.0, 1e-6);
  // A row of 8 results of two bytes each is aligned to 16 bytes.
  device.gemm.alignBytes = 16;
  device.gemm.misalignedFraction = 0.5;
  double efficiency = gemmEfficiency(device, DType::FP8, shape);
  shape.n = 8;
  shape.m = 64;
  EXPECT_DOUBLE_EQ(gemmEfficiency(device, DType::FP8, shape), efficiency);
}

// With 3 taps, a convolution's im2col matrix has each element three times.
TEST(ComputeCost, ConvolutionsMoveTheirImage) {
  GemmShape shape{1, 16, 16, 48};
  EXPECT_DOUBLE_EQ(shape.bytes(DType::F32), 4 * (16 * 48 * 2 + 256));
  shape.elements = 16 * 18 + 16 * 48 + 256;
  EXPECT_DOUBLE_EQ(shape.bytes(DType::F32), 4 * 1312);
  EXPECT_DOUBLE_EQ(gemmSeconds(toy(), DType::F32, shape), 1 + 4 * 1312 / 50.0);
}

TEST(ComputeCost, GradientsOfFiltersSplitMore) {
  Device device = toy();
  device.multiprocessors = 64;
  device.gemm.operandCost = 1e6; // Only loads count.
  device.memoryBytesPerSecond = 2e6;
  // A 2 x 2 tile with k = 16384 is split into 8 parts of 2 * 2 * 2048
  // multiply-adds. An SM does 1000 / 2 / 64 * 0.8 = 6.25 multiply-adds per
  // second in 8 x 8 tiles, and a quarter of this rate in 2 x 2 tiles.
  GemmShape shape{1, 2, 2, 16384};
  EXPECT_NEAR(gemmSeconds(device, DType::F32, shape), 1 + 4 * 4 * 2048 / 6.25,
              0.1);
  // k is split into 64 parts of 256.
  shape.mostParts = 64;
  EXPECT_NEAR(gemmSeconds(device, DType::F32, shape), 1 + 4 * 4 * 256 / 6.25,
              0.1);
  // 128 parts would have k = 128, which is too short.
  shape.mostParts = 128;
  EXPECT_NEAR(gemmSeconds(device, DType::F32, shape), 1 + 4 * 4 * 256 / 6.25,
              0.1);
}

TEST(ComputeCost, StreamsAndEmptyWork) {
  EXPECT_DOUBLE_EQ(streamSeconds(toy(), 100), 3);
  EXPECT_DOUBLE_EQ(streamSeconds(toy(), 100, 5000), 6);
  EXPECT_EQ(streamSeconds(toy(), 0), 0);
  EXPECT_EQ(gemmSeconds(toy(), DType::F32, {1, 0, 4, 4}), 0);
}

TEST(ComputeCost, GemmsOnA100AreNearMeasurements) {
  Expected<Device> device = loadDevice("a100-sxm-80gb");
  ASSERT_TRUE(device) << device.message();
  auto teraflops = [&](int64_t n) {
    GemmShape shape{1, n, n, n};
    return shape.flops() / gemmSeconds(*device, DType::F16, shape) / 1e12;
  };
  // NVIDIA's plot shows 27, 90, 195, 260 and 290 under short load. The device
  // file is for sustained load.
  EXPECT_NEAR(teraflops(8192), 260, 15);
  EXPECT_NEAR(teraflops(2048), 180, 35);
  EXPECT_NEAR(teraflops(512), 25, 15);
  EXPECT_GT(teraflops(4096), teraflops(1024));
}

TEST(ComputeCost, TypesWithoutAPeakAreReplaced) {
  Expected<Device> v100 = loadDevice("v100-sxm2-32gb");
  ASSERT_TRUE(v100) << v100.message();
  EXPECT_EQ(computeType(*v100, DType::BF16), DType::F16);
  EXPECT_EQ(computeType(*v100, DType::FP8), DType::F16);
  EXPECT_EQ(computeType(*v100, DType::F32), DType::F32);
  EXPECT_EQ(computeType(toy(), DType::BF16), DType::F32);
  EXPECT_EQ(symbolizeDType("fp16"), DType::F16);
  EXPECT_EQ(symbolizeDType("int4"), std::nullopt);
  EXPECT_EQ(bytesPerElement(DType::BF16), 2);
}
