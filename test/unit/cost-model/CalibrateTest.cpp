#include "cost-model/Calibrate.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace dpc::cost;

/// A machine of exactly known constants: 100 GFLOP/s, halfK 32, 10 GB/s, 2 us.
static CalibrationProbe exactProbe() {
  CalibrationProbe probe;
  probe.gemm = [](const GemmShape &shape, DType) {
    double k = double(shape.k);
    double slow = shape.n == 509 ? 2 : 1;
    return 2e-6 + slow * shape.flops() * (k + 32) / k / 100e9;
  };
  probe.stream = [](double bytes) { return 2e-6 + bytes / 10e9; };
  probe.launch = [] { return 2e-6; };
  probe.exchange = [](double bytes) { return 7e-6 + bytes / 4e9; };
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
  EXPECT_NEAR(device.peak(DType::F32), 50e9, 1e3);
  EXPECT_NEAR(device.gemm.halfK, 32, 1e-6);
  EXPECT_NEAR(device.gemm.misalignedFraction, 0.5, 0.01);
  EXPECT_NEAR(device.memoryBytesPerSecond, 5e9, 1);
  EXPECT_NEAR(device.launchSeconds, 2e-6, 1e-12);
  EXPECT_EQ(device.multiprocessors, 2);
  EXPECT_DOUBLE_EQ(device.memoryBytes, 8.0 * (1 << 30));
  EXPECT_NEAR(cluster->levels[0].bytesPerSecond, 4e9, 1e3);
  EXPECT_NEAR(cluster->levels[0].latencySeconds, 7e-6, 1e-9);
}

TEST(Calibrate, AFailedProbeIsOneLine) {
  CalibrationProbe probe = exactProbe();
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
  probe.exchange = nullptr;
  EXPECT_TRUE(calibrateDevice(probe));
}
