//===- PlausibleTest.cpp - Numbers with the wrong unit --------------------===//
#include "cost-model/machine/Plausible.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::cost;

/// A node of eight GPUs, and a network between nodes.
static Cluster gpus() {
  Cluster cluster;
  Device device;
  device.peakFlops[static_cast<int>(DType::BF16)] = 312e12;
  device.memoryBytes = 80 * 0x1p30;
  device.memoryBytesPerSecond = 2039e9;
  device.launchSeconds = 3e-6;
  cluster.groups = {NodeGroup{4, 8, device}};
  cluster.levels = {{.name = "nvlink",
                     .span = 8,
                     .bytesPerSecond = 300e9,
                     .latencySeconds = 3e-6},
                    {.name = "infiniband",
                     .span = 32,
                     .bytesPerSecond = 25e9,
                     .latencySeconds = 8e-6,
                     .kind = LinkKind::FatTree}};
  cluster.host = {2048 * 0x1p30, false, 25e9, 12e9};
  return cluster;
}

TEST(Plausible, EveryKeyIsComparedWithKnownHardware) {
  struct Case {
    void (*change)(Cluster &);
    const char *line;
  };
  const Case cases[] = {
      {[](Cluster &c) { c.levels[1].bytesPerSecond = 400e9; },
       "levels[1].gigabytes_per_second=400 is 4 times the most that is known, "
       "100 GB/s (NVIDIA ConnectX-8: an adapter of 800 Gb/s for each device): "
       "did you mean 400 gigabits (50 GB/s)?"},
      {[](Cluster &c) { c.levels[0].bytesPerSecond = 300e12; },
       "levels[0].gigabytes_per_second=300000 is 167 times the most that is "
       "known, 1800 GB/s (one direction of NVLink 6, NVIDIA Rubin): did you "
       "mean 300000 megabytes (300 GB/s)?"},
      {[](Cluster &c) { c.levels[1].latencySeconds = 8e-3; },
       "levels[1].latency_microseconds=8000 is 8 times the most that is known, "
       "1000 us (TCP between data centers of a region): did you mean 8000 "
       "nanoseconds (8 us)?"},
      {[](Cluster &c) { c.levels[1].latencySeconds = 8e-9; },
       "levels[1].latency_microseconds=0.008 is 1/6.25 of the least that is "
       "usual, 0.05 us: did you mean 0.008 milliseconds (8 us)?"},
      {[](Cluster &c) { c.groups[0].device.memoryBytes = 80000 * 0x1p30; },
       "groups[0].device.memory_gibibytes=80000 is 78.1 times the most that is "
       "known, 1024 GiB (NVIDIA Rubin Ultra: 1 TB of HBM4E): did you mean "
       "80000 "
       "mebibytes (78.1 GiB)?"},
      {[](Cluster &c) { c.groups[0].device.memoryBytesPerSecond = 2e9; },
       "groups[0].device.memory_gigabytes_per_second=2 is 1/50 of the least "
       "that is usual, 100 GB/s: did you mean 2 terabytes (2000 GB/s)?"},
      {[](Cluster &c) { c.groups[0].device.peakFlops.fill(312e15); },
       "groups[0].device.peak_teraflops=312000 is 15.6 times the most that is "
       "known, 20000 TFLOP/s (dense 16-bit types of announced GPUs): did you "
       "mean 312000 gigaflops (312 TFLOP/s)?"},
      {[](Cluster &c) { c.groups[0].device.launchSeconds = 3e-3; },
       "groups[0].device.launch_microseconds=3000 is 30 times the most that is "
       "known, 100 us (kernel launches on loaded hosts): did you mean 3000 "
       "nanoseconds (3 us)?"},
      {[](Cluster &c) { c.host.memoryBytes = 2e6 * 0x1p30; },
       "host.memory_gibibytes=2000000 is 30.5 times the most that is known, "
       "65536 GiB (servers with eight sockets): did you mean 2000000 mebibytes "
       "(1953 GiB)?"},
      {[](Cluster &c) { c.host.pcieBytesPerSecond = 4e12; },
       "host.pcie_gigabytes_per_second=4000 is 4.44 times the most that is "
       "known, 900 GB/s (NVLink-C2C of NVIDIA Grace and Vera): did you mean "
       "4000 gigabits (500 GB/s)?"},
      {[](Cluster &c) { c.host.nvmeBytesPerSecond = 1e12; },
       "host.nvme_gigabytes_per_second=1000 is 2 times the most that is known, "
       "500 GB/s (32 disks of PCIe 6.0 x4 in a node): did you mean 1000 "
       "gigabits (125 GB/s)?"}};
  for (const Case &each : cases) {
    Cluster cluster = gpus();
    each.change(cluster);
    EXPECT_EQ(implausibleNumbers(cluster), std::vector<std::string>{each.line});
  }
  EXPECT_EQ(implausibleNumbers(gpus()), std::vector<std::string>{});
}

/// NVLink may join the devices of several nodes.
TEST(Plausible, NvlinkBetweenNodesIsFasterThanAdapters) {
  Cluster cluster = gpus();
  cluster.levels.insert(cluster.levels.begin() + 1,
                        Level{.name = "rack",
                              .span = 16,
                              .bytesPerSecond = 900e9,
                              .latencySeconds = 3e-6});
  EXPECT_EQ(implausibleNumbers(cluster), std::vector<std::string>{});
}

TEST(Plausible, DomainsThatAreNotFull) {
  Cluster cluster = gpus();
  cluster.groups[0].devicesPerNode = 4;
  cluster.groups[0].nodes = 128;
  cluster.levels = {Level{.name = "nvlink", .span = 72},
                    Level{.name = "infiniband", .span = 512}};
  EXPECT_EQ(partialDomains(cluster),
            std::vector<std::string>{
                "levels[0].span=72: 512 devices fill 7 such domains and 8 "
                "devices of another, so groups of ranks cross domains; if the "
                "job gets 64 devices in each of 8 domains, write span=64"});
  for (int64_t span : {64, 4, 512}) {
    cluster.levels[0].span = span;
    EXPECT_EQ(partialDomains(cluster), std::vector<std::string>{});
  }
}

TEST(Plausible, UnknownNumbersAndProcessorsAreLeftOut) {
  Cluster cluster = gpus();
  cluster.host = {};
  cluster.levels[0].latencySeconds = 0;
  cluster.groups[0].device.peakFlops.fill(0);
  cluster.groups[0].device.memoryBytesPerSecond = 5e9;
  EXPECT_EQ(implausibleNumbers(cluster), std::vector<std::string>{});
}

TEST(Plausible, TheDevicesOfDpcArePlausible) {
  for (const std::string &name : knownDevices()) {
    Expected<Device> device = loadDevice(name);
    ASSERT_TRUE(device) << device.message();
    Cluster cluster = gpus();
    cluster.groups[0].device = *device;
    EXPECT_EQ(implausibleNumbers(cluster), std::vector<std::string>{}) << name;
  }
}
