#include "cost-model/Calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace dpc::cost;

/// FLOP/s of one core of the made-up machine.
static double coreRate(const GemmShape &shape) {
  double slow = shape.transA ? 2 : shape.transB ? 1.25 : 1;
  return 25e9 * std::sqrt(double(shape.k) / 2048) / slow;
}

/// A machine of exactly known constants: four cores, 10 GB/s, 2 us.
static CalibrationProbe exactProbe() {
  CalibrationProbe probe;
  probe.gemm = [](const GemmShape &shape) {
    return 2e-6 + shape.flops() / coreRate(shape);
  };
  probe.stream = [](double bytes) { return 2e-6 + bytes / 10e9; };
  probe.launch = [] { return 2e-6; };
  probe.allReduce = [](double bytes) { return 14e-6 + bytes / 4e9; };
  probe.machine = "a made-up machine";
  probe.memoryBytes = 16.0 * (1 << 30);
  probe.cores = 4;
  return probe;
}

TEST(Calibrate, FindsTheConstantsAndReadsBack) {
  Result<std::string> text = calibrateDevice(exactProbe());
  ASSERT_TRUE(text) << text.error();
  std::string path =
      testing::TempDir() + "dpc-calibrate-" + std::to_string(getpid());
  std::ofstream(path) << *text;
  Result<Cluster> cluster = makeLocalCluster(2, path);
  std::remove(path.c_str());
  ASSERT_TRUE(cluster) << cluster.error();
  const Device &device = cluster->groups[0].device;
  EXPECT_NEAR(device.peak(DType::F32), 50e9, 1e7);
  // On the grid, between its points, past its end.
  GemmShape shape{3, 512, 128, 512};
  for (int64_t k : {512, 1000, 4096})
    for (int transposed : {0, 1, 2}) {
      shape.k = k;
      shape.transA = transposed == 2;
      shape.transB = transposed == 1;
      GemmShape inside = shape;
      inside.k = std::min<int64_t>(k, 2048);
      EXPECT_NEAR(gemmSeconds(device, DType::F32, shape),
                  2e-6 + shape.flops() / (2 * coreRate(inside)),
                  1e-3 * shape.flops() / (2 * coreRate(inside)))
          << k << " " << transposed;
    }
  EXPECT_NEAR(device.memoryBytesPerSecond, 5e9, 1);
  EXPECT_NEAR(device.launchSeconds, 2e-6, 1e-12);
  EXPECT_EQ(device.multiprocessors, 2);
  EXPECT_DOUBLE_EQ(device.memoryBytes, 8.0 * (1 << 30));
  EXPECT_NEAR(cluster->levels[0].bytesPerSecond, 4e9, 1e3);
  EXPECT_NEAR(cluster->levels[0].latencySeconds, 7e-6, 1e-9);
}

TEST(Calibrate, ATableSaysWhatWasMeasured) {
  Result<std::string> table =
      describeCalibration(*calibrateDevice(exactProbe()));
  ASSERT_TRUE(table) << table.error();
  for (const char *line :
       {"calibrated, all 4 cores together:\n",
        "\n  product of 2048 x 2048 x 2048       100 GFLOP/s\n",
        "\n  product of 512 x 512 x 512           50 GFLOP/s\n",
        "\n  memory                               10 GB/s\n",
        "\n  kernel call                        2000 ns\n",
        "\n  exchange of two ranks                 4 GB/s\n",
        "\n                                        7 us at least\n"})
    EXPECT_NE(table->find(line), std::string::npos) << line << *table;
  EXPECT_FALSE(describeCalibration("no device"));
}

TEST(Calibrate, OtherWorkInMostPassesDoesNotCount) {
  CalibrationProbe noisy = exactProbe();
  int calls = 0;
  noisy.gemm = [&](const GemmShape &shape) {
    return exactProbe().gemm(shape) * (calls++ % 5 < 2 ? 3 : 1);
  };
  noisy.stream = [&, pass = 0](double bytes) mutable {
    return exactProbe().stream(bytes) * (pass++ < 4 ? 5 : 1);
  };
  EXPECT_EQ(*calibrateDevice(noisy), *calibrateDevice(exactProbe()));
}

TEST(Calibrate, AFailedProbeIsOneLine) {
  CalibrationProbe probe = exactProbe();
  probe.gemm = [](const GemmShape &shape) { return shape.k == 512 ? -1 : 1; };
  EXPECT_NE(calibrateDevice(probe).error().find("32 x 32 x 512"),
            std::string::npos);
  probe = exactProbe();
  probe.launch = [] { return -1.0; };
  Result<std::string> text = calibrateDevice(probe);
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().find("an empty kernel"), std::string::npos);
  probe = exactProbe();
  probe.stream = [](double) { return 1.0; };
  EXPECT_FALSE(calibrateDevice(probe));
  probe = exactProbe();
  probe.memoryBytes = 0;
  EXPECT_FALSE(calibrateDevice(probe));
  probe = exactProbe();
  probe.allReduce = nullptr;
  EXPECT_TRUE(calibrateDevice(probe));
}
