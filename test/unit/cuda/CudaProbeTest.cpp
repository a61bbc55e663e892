//===- CudaProbeTest.cpp - simulated times of a device --------------------===//
#include "runtime/cuda/CudaProbe.h"

#include "runtime/exec/MeasureDevice.h"
#include "test/unit/cuda/DeviceRuns.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/cuda/FakeCuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using testing::HasSubstr;

namespace dpc::rt::test {

namespace {

constexpr int64_t kRoom = 1 << 16;

std::unique_ptr<DeviceProbe> probeOf(int64_t room = kRoom) {
  setFakeRoutines({9, 4, 6});
  auto probe = makeCudaProbe(fakeApis(), 0, room);
  EXPECT_TRUE(probe.ok()) << probe.status().message();
  return std::move(*probe);
}

} // namespace

TEST(CudaProbe, MeasuresTheClockOfTheDevice) {
  size_t before = fakeAllocations();
  {
    auto probe = probeOf();
    EXPECT_EQ(probe->facts().name, "a fake");
    EXPECT_EQ(probe->facts().multiprocessors, 3);
    EXPECT_EQ(probe->facts().memoryBytes, int64_t(4) << 30);
    for (DType type : {DType::BF16, DType::F16, DType::F32})
      for (bool transA : {false, true}) {
        auto seconds = probe->gemm({8, 16, 24, transA, !transA, type});
        ASSERT_TRUE(seconds.ok()) << seconds.status().message();
        EXPECT_NEAR(*seconds, 4e-6, 1e-9);
      }
    EXPECT_NEAR(*probe->launch(), kFakeMicroseconds * 1e-6, 1e-9);
    EXPECT_NEAR(*probe->stream(4096), kFakeMicroseconds * 1e-6, 1e-9);
    for (bool toDevice : {true, false})
      for (int64_t bytes : {512, 4096}) // 4096 needs a larger buffer
        EXPECT_NEAR(*probe->hostCopy(bytes, toDevice), kFakeMicroseconds * 1e-6,
                    1e-9);
  }
  EXPECT_EQ(fakeAllocations(), before);
}

TEST(CudaProbe, TooLargeGemmsAreRefused) {
  auto seconds = probeOf()->gemm({512, 512, 512});
  ASSERT_FALSE(seconds.ok());
  EXPECT_EQ(seconds.status().code(), StatusCode::Unsupported);
}

TEST(CudaProbe, MissingDevicesAreNamed) {
  setFakeDevices(2);
  auto probe = makeCudaDevice(fakeApis())->probe(99);
  setFakeDevices(1);
  ASSERT_FALSE(probe.ok());
  EXPECT_THAT(probe.status().message(), HasSubstr("GPU 99 of this machine"));
}

TEST(MeasureDevice, WritesTheMedianOfThePasses) {
  struct Probe : DeviceProbe {
    DeviceFacts known{"a \"gpu\"", "library 1", 1000, 10, 7};
    int calls = 0;
    const DeviceFacts &facts() const override { return known; }
    Expected<double> gemm(const GemmShape &shape) override {
      if (shape.type == DType::F16)
        return Status::unsupported("no f16");
      const double seconds[] = {5, 1, 2};
      return seconds[calls++ % 3];
    }
    Expected<double> stream(int64_t bytes) override { return bytes * 1e-3; }
    Expected<double> hostCopy(int64_t, bool toDevice) override {
      return toDevice ? 3.0 : 4.0;
    }
    Expected<double> launch() override { return launchTime; }
    double launchTime = 0.25;
  } probe;
  DeviceSchedule schedule;
  schedule.gemms = {{2, 3, 4, true, false, DType::BF16},
                    {2, 2, 2, false, false, DType::F16}};
  schedule.streamBytes = {1000};
  schedule.copyBytes = {64};
  int passes = 0;
  auto text =
      measureDevice(probe, schedule, [&](const std::string &) { ++passes; });
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(passes, 3);
  auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["name"], "a \"gpu\"");
  EXPECT_EQ(json["launch_seconds"], 0.25);
  ASSERT_EQ(json["products"].size(), 1U); // f16 is skipped
  EXPECT_EQ(json["products"][0]["seconds"], 2);
  EXPECT_EQ(json["products"][0]["trans_a"], true);
  EXPECT_EQ(json["streams"][0]["seconds"], 1);
  EXPECT_EQ(json["host_copies"].size(), 2U);
  probe.launchTime = 0;
  EXPECT_THAT(measureDevice(probe, schedule).status().message(),
              HasSubstr("measuring launches: it took 0"));
}

} // namespace dpc::rt::test
