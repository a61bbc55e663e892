//===- CalibrateGpuTest.cpp - Device files of measured GPUs ---------------===//
#include "cost-model/calibrate/CalibrateGpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

namespace {

/// Returns measurements of GEMMs of many sizes that follow the formula for
/// `device`, with relative errors of up to `noise`.
GpuMeasurements measurementsOf(const Device &device, const std::string &name,
                               double noise = 0) {
  std::vector<MeasuredBytes> copies = {{1e8, 1e8 / 5e10}};
  GpuMeasurements measured{
      .name = name,
      .libraries = "cuBLASLt 130000",
      .memoryBytes = device.memoryBytes,
      .reservedBytes = 0.7e9,
      .multiprocessors = device.multiprocessors,
      .launchSeconds = device.launchSeconds,
      .streams = {{1e8, 1}, {1e9, 1e9 / achievableBandwidth(device)}},
      .toDevice = copies,
      .fromDevice = copies};
  int i = 0;
  for (int64_t m : {256, 1000, 4096, 8192})
    for (int64_t n : {256, 768, 3000, 8192})
      for (int64_t k : {64, 768, 4096}) {
        GemmShape shape{1, m, n, k};
        double off = 1 + noise * (i++ % 3 - 1);
        measured.gemms.push_back(
            {DType::BF16, shape,
             off * gemmSeconds(device, DType::BF16, shape)});
      }
  GemmShape square{1, 4096, 4096, 4096};
  measured.gemms.push_back(
      {DType::F32, square, gemmSeconds(device, DType::F32, square)});
  return measured;
}

Device someH200() {
  Device device = *loadDevice("h200-sxm-141gb");
  device.gemm.peakFraction = 0.62;
  device.gemm.operandCost = 25;
  device.gemm.rampSeconds = 3e-6;
  device.gemm.halfK = 220;
  device.gemm.misalignedFraction = 0.55;
  device.launchSeconds = 1.3e-6;
  device.memoryFraction = 0.91;
  return device;
}

Device deviceOf(const GpuCalibration &calibration) {
  auto json = nlohmann::json::parse(calibration.device);
  Expected<Device> device = parseDevice(json, "calibration");
  EXPECT_TRUE(device) << device.message();
  return *device;
}

double meanError(const Device &device, const std::vector<MeasuredGemm> &gemms) {
  double sum = 0;
  int count = 0;
  for (const MeasuredGemm &gemm : gemms)
    if (gemm.type == DType::BF16) {
      sum += std::abs(
          gemmSeconds(device, DType::BF16, gemm.shape) / gemm.seconds - 1);
      ++count;
    }
  return sum / count;
}

} // namespace

TEST(CalibrateGpu, RecoversTheConstants) {
  Device truth = someH200();
  GpuMeasurements measured = measurementsOf(truth, "NVIDIA H200");
  Expected<GpuCalibration> calibration = calibrateGpu(measured);
  ASSERT_TRUE(calibration) << calibration.message();
  Device found = deviceOf(*calibration);
  EXPECT_LT(meanError(found, measured.gemms), 0.01);
  EXPECT_NEAR(found.gemm.peakFraction, truth.gemm.peakFraction, 0.02);
  EXPECT_NEAR(found.gemm.misalignedFraction, truth.gemm.misalignedFraction,
              0.02);
  EXPECT_NEAR(found.launchSeconds, truth.launchSeconds, 1e-11);
  EXPECT_NEAR(found.memoryFraction, truth.memoryFraction, 1e-3);
  EXPECT_NEAR(found.memoryReservedBytes, 0.7e9, 1e4);
  // Constants without a measurement come from the device file.
  EXPECT_EQ(found.name, "h200-sxm-141gb");
  EXPECT_EQ(found.peakFlops, truth.peakFlops);
  EXPECT_EQ(found.attentionForward, truth.attentionForward);
  EXPECT_EQ(found.gemm.tileM, truth.gemm.tileM);
}

TEST(CalibrateGpu, NoiseDoesNotMatter) {
  GpuMeasurements measured = measurementsOf(someH200(), "NVIDIA H200", 0.05);
  Expected<GpuCalibration> calibration = calibrateGpu(measured);
  ASSERT_TRUE(calibration) << calibration.message();
  EXPECT_LT(meanError(deviceOf(*calibration), measured.gemms), 0.05);
  Device guessed = *loadDevice("h200-sxm-141gb");
  EXPECT_GT(meanError(guessed, measured.gemms), 0.1);
  EXPECT_THAT(calibration->table, HasSubstr("48 GEMMs"));
  EXPECT_THAT(calibration->table, HasSubstr("from the host"));
}

TEST(CalibrateGpu, EveryConstantNamesItsSource) {
  auto json = nlohmann::json::parse(
      calibrateGpu(measurementsOf(someH200(), "NVIDIA H200"))->device);
  EXPECT_EQ(json["gemm"]["half_k"]["source"],
            "measured on NVIDIA H200 with cuBLASLt 130000: fitted to 48 "
            "GEMMs in bf16");
  EXPECT_THAT(json["peak_teraflops"]["bf16"]["source"].get<std::string>(),
              HasSubstr("datasheet"));
}

TEST(CalibrateGpu, AnUnknownGpuHasMeasuredConstants) {
  Device truth = someH200();
  GpuMeasurements measured = measurementsOf(truth, "NVIDIA X100 NVL");
  Expected<GpuCalibration> calibration = calibrateGpu(measured);
  ASSERT_TRUE(calibration) << calibration.message();
  Device found = deviceOf(*calibration);
  EXPECT_EQ(found.name, "nvidia-x100-nvl");
  EXPECT_LT(meanError(found, measured.gemms), 0.03);
  double fastest = 0;
  for (const MeasuredGemm &gemm : measured.gemms)
    fastest = std::max(fastest, gemm.shape.flops() / gemm.seconds);
  EXPECT_NEAR(found.peak(DType::BF16) / fastest, 1, 1e-5);
  EXPECT_EQ(found.memoryFraction, 1);
  EXPECT_FALSE(found.hasFusedAttention());
}

TEST(CalibrateGpu, GpusAreRecognizedByNameMemoryAndSize) {
  auto nameOf = [](const char *reported, double gibi, int64_t multiprocessors) {
    return knownGpu({.name = reported,
                     .memoryBytes = gibi * 1024 * 1024 * 1024,
                     .multiprocessors = multiprocessors});
  };
  EXPECT_EQ(nameOf("NVIDIA H200", 139.8, 132), "h200-sxm-141gb");
  EXPECT_EQ(nameOf("NVIDIA H100 80GB HBM3", 79.1, 132), "h100-sxm-80gb");
  EXPECT_EQ(nameOf("NVIDIA H100 PCIe", 79.1, 114),
            ""); // Fewer multiprocessors.
  EXPECT_EQ(nameOf("NVIDIA A100-SXM4-40GB", 39.4, 108), "a100-sxm-40gb");
  EXPECT_EQ(nameOf("NVIDIA A100-SXM4-80GB", 79.2, 108), "a100-sxm-80gb");
  EXPECT_EQ(nameOf("Tesla V100-SXM2-32GB", 31.7, 80), "v100-sxm2-32gb");
  EXPECT_EQ(nameOf("NVIDIA GeForce RTX 4090", 23.6, 128), "");
}

TEST(CalibrateGpu, ReadsMeasurements) {
  const std::string text = R"({"device_measurements": 1, "name": "NVIDIA H200",
    "libraries": "cuBLASLt 130000", "memory_bytes": 150000000000,
    "reserved_bytes": 700000000, "multiprocessors": 132,
    "launch_seconds": 1.5e-6,
    "products": [{"type": "bf16", "m": 1024, "n": 512, "k": 256,
                  "trans_a": true, "trans_b": false, "seconds": 2e-5}],
    "streams": [{"bytes": 1000000, "seconds": 1e-6}],
    "host_copies": [{"bytes": 1000, "to_device": true, "seconds": 1e-3},
                    {"bytes": 2000, "to_device": false, "seconds": 2e-3}]})";
  Expected<GpuMeasurements> measured = parseGpuMeasurements(text, "m.json");
  ASSERT_TRUE(measured) << measured.message();
  EXPECT_EQ(measured->gemms[0].shape.n, 512);
  EXPECT_TRUE(measured->gemms[0].shape.transA);
  EXPECT_EQ(measured->toDevice[0].bytes, 1000);
  EXPECT_EQ(measured->fromDevice[0].bytes, 2000);
  auto errorOf = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    Expected<GpuMeasurements> result = parseGpuMeasurements(changed, "m.json");
    return result ? "no error" : result.message();
  };
  EXPECT_THAT(errorOf("\"bf16\"", "\"b16\""),
              HasSubstr("m.json: products[0].type"));
  EXPECT_THAT(errorOf("2e-5", "0"), HasSubstr("products[0].seconds"));
  EXPECT_THAT(
      errorOf("\"device_measurements\": 1", "\"device_measurements\": 2"),
      HasSubstr("device_measurements"));
  EXPECT_THAT(errorOf("700000000", "150000000000"), HasSubstr("less than"));
}
