#include "cost-model/calibrate/Calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

static double coreRate(const GemmShape &shape) {
  double slow = shape.transA ? 2 : shape.transB ? 1.25 : 1;
  return 25e9 * std::sqrt(double(shape.k) / 2048) / slow;
}

/// The rate of one GEMM on all cores, relative to four GEMMs that run at the
/// same time on one core each.
constexpr double kShared = 0.64;

/// A machine with known constants: four cores of 5 GFLOP/s, a memory bandwidth
/// of 10 GB/s (4 GB/s for one core), and an overhead of 2 us per kernel.
static CalibrationProbe exactProbe() {
  CalibrationProbe probe;
  probe.gemm = [](const GemmShape &shape) {
    return 2e-6 + shape.flops() / coreRate(shape);
  };
  probe.sharedGemm = [](const GemmShape &shape) {
    return 2e-6 + shape.flops() / (4 * kShared * coreRate(shape));
  };
  probe.stream = [](double bytes) { return 2e-6 + bytes / 10e9; };
  probe.coreStream = [](double bytes) { return 2e-6 + bytes / 4e9; };
  probe.scalars = [] { return 1e-3; };
  probe.scalarOperations = 5e6;
  probe.launch = [] { return 2e-6; };
  probe.allReduce = [](double bytes) { return 14e-6 + bytes / 4e9; };
  probe.machine = "a made-up machine";
  probe.memoryBytes = 16.0 * (1 << 30);
  probe.cores = 4;
  return probe;
}

static Expected<Cluster> localCluster(int64_t ranks, const std::string &text) {
  std::string path =
      testing::TempDir() + "dpc-calibrate-" + std::to_string(getpid());
  std::ofstream(path) << text;
  Expected<Cluster> cluster = makeLocalCluster(ranks, path);
  std::remove(path.c_str());
  return cluster;
}

TEST(Calibrate, FindsTheConstantsAndReadsBack) {
  CalibrationProbe probe = exactProbe();
  probe.sharedGemm = nullptr;
  Expected<std::string> text = calibrateDevice(probe);
  ASSERT_TRUE(text) << text.message();
  Expected<Cluster> cluster = localCluster(2, *text);
  ASSERT_TRUE(cluster) << cluster.message();
  const Device &device = cluster->groups[0].device;
  EXPECT_NEAR(device.peak(DType::F32), 50e9, 1e7);
  // k is at a point of the table, between two points, and outside the table.
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
  EXPECT_NEAR(device.memoryBytesPerSecond, 4e9, 1); // bandwidth of one core
  EXPECT_NEAR(device.scalarRate(), 5e9, 1);         // rate of one core
  EXPECT_NEAR(device.launchSeconds, 2e-6, 1e-12);
  EXPECT_EQ(device.multiprocessors, 2);
  EXPECT_DOUBLE_EQ(device.memoryBytes, 8.0 * (1 << 30));
  EXPECT_NEAR(cluster->levels[0].bytesPerSecond, 4e9, 1e3);
  EXPECT_NEAR(cluster->levels[0].latencySeconds, 7e-6, 1e-9);
}

TEST(Calibrate, ARankHasTheRatesOfItsThreads) {
  std::string text = *calibrateDevice(exactProbe());
  GemmShape shape{1, 512, 512, 512};
  struct Case {
    int64_t ranks, threads;
    double products; ///< Relative to one core.
    double memory, scalars;
  };
  for (Case c : {Case{1, 4, 4 * kShared, 4e9, 5e9},
                 // A GEMM's efficiency is a power of its number of threads.
                 Case{2, 2, 2 * std::sqrt(kShared), 4e9, 5e9},
                 Case{3, 1, 1, 10e9 / 3, 5e9}, Case{4, 1, 1, 2.5e9, 5e9},
                 Case{8, 1, 0.5, 1.25e9, 2.5e9}}) {
    SCOPED_TRACE(c.ranks);
    Expected<Cluster> cluster = localCluster(c.ranks, text);
    ASSERT_TRUE(cluster) << cluster.message();
    const Device &device = cluster->groups[0].device;
    EXPECT_EQ(device.multiprocessors, c.threads);
    EXPECT_NEAR(gemmSeconds(device, DType::F32, shape),
                2e-6 + shape.flops() / (c.products * coreRate(shape)),
                1e-3 * shape.flops() / (c.products * coreRate(shape)));
    EXPECT_NEAR(device.memoryBytesPerSecond, c.memory, 1);
    EXPECT_NEAR(streamSeconds(device, 8, 1e6), 2e-6 + 1e6 / c.scalars, 1e-9);
  }
}

TEST(Calibrate, RatesOfOneRankAreOptional) {
  CalibrationProbe probe = exactProbe();
  probe.sharedGemm = nullptr;
  probe.coreStream = nullptr;
  probe.scalars = nullptr;
  Expected<Cluster> cluster = localCluster(1, *calibrateDevice(probe));
  ASSERT_TRUE(cluster) << cluster.message();
  const Device &device = cluster->groups[0].device;
  GemmShape shape{1, 512, 512, 512};
  EXPECT_NEAR(gemmSeconds(device, DType::F32, shape),
              2e-6 + shape.flops() / (4 * coreRate(shape)), 1e-7);
  EXPECT_NEAR(device.memoryBytesPerSecond, 10e9, 1);
  EXPECT_EQ(device.scalarRate(), device.peak(DType::F32));
}

TEST(Calibrate, TablesOfOtherSizesAreRefused) {
  nlohmann::json json = nlohmann::json::parse(*calibrateDevice(exactProbe()));
  json["gemm"]["shared_gigaflops"]["sizes"] =
      nlohmann::json::parse("[1,2,3,4]");
  Expected<Device> device = parseDevice(json, "device");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.message(),
            "device: gemm.shared_gigaflops: [1,2,3,4] as sizes; expected the "
            "sizes of measured_gigaflops");
}

TEST(Calibrate, TheTableHasAllRates) {
  Expected<std::string> table =
      describeCalibration(*calibrateDevice(exactProbe()));
  ASSERT_TRUE(table) << table.message();
  for (const char *line :
       {"calibrated, all 4 cores together:\n",
        "\n  GEMM of 2048 x 2048 x 2048          100 GFLOP/s\n",
        "\n  GEMM of 512 x 512 x 512              50 GFLOP/s\n",
        "\n  one GEMM of 2048 x 2048 x 2048       64 GFLOP/s\n",
        "\n  memory                               10 GB/s\n",
        "\n  memory of one core                    4 GB/s\n",
        "\n  elementwise kernels                  20 GFLOP/s\n",
        "\n  kernel call                        2000 ns\n",
        "\n  exchange of two ranks                 4 GB/s\n",
        "\n                                        7 us at least\n"})
    EXPECT_THAT(*table, HasSubstr(line)) << line << *table;
  EXPECT_FALSE(describeCalibration("no device"));
}

TEST(Calibrate, OtherWorkInSomePassesDoesNotCount) {
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

TEST(Calibrate, AFailedProbeIsAnError) {
  auto messageOf = [](auto change) {
    CalibrationProbe probe = exactProbe();
    change(probe);
    Expected<std::string> text = calibrateDevice(probe);
    return text ? "no error" : text.message();
  };
  auto failing = [](auto...) { return -1.0; };
  auto constant = [](double) { return 1.0; };
  EXPECT_THAT(messageOf([](CalibrationProbe &probe) {
                probe.gemm = [](const GemmShape &shape) {
                  return shape.k == 512 ? -1 : 1;
                };
              }),
              HasSubstr("32 x 32 x 512"));
  EXPECT_THAT(messageOf([&](auto &probe) { probe.launch = failing; }),
              HasSubstr("an empty kernel"));
  EXPECT_THAT(messageOf([&](auto &probe) { probe.stream = constant; }),
              HasSubstr("streaming took"));
  EXPECT_THAT(messageOf([&](auto &probe) { probe.scalars = failing; }),
              HasSubstr("an elementwise kernel"));
  EXPECT_THAT(messageOf([&](auto &probe) { probe.coreStream = constant; }),
              HasSubstr("streaming by one core"));
  EXPECT_THAT(messageOf([](auto &probe) { probe.memoryBytes = 0; }),
              HasSubstr("a machine of 0"));
  EXPECT_EQ(messageOf([](auto &probe) { probe.allReduce = nullptr; }),
            "no error");
}
