#include "cost-model/machine/Cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

using namespace dpc;
using namespace dpc::cost;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

static json example() {
  return json::parse(R"({ "version": 1, "name": "128 x DGX H100",
    "groups": [ { "nodes": 128, "devices_per_node": 8,
                  "device": "h100-sxm-80gb" } ],
    "levels": [
      { "name": "nvlink", "span": "node", "gigabytes_per_second": 450,
        "latency_microseconds": 3, "kind": "switch",
        "in_network_reduction": true },
      { "name": "infiniband", "span": "cluster", "gigabytes_per_second": 50,
        "latency_microseconds": 8, "kind": "fat-tree",
        "oversubscription": 1.0 } ],
    "host": { "memory_gibibytes": 2048, "pcie_gigabytes_per_second": 55,
              "nvme_gigabytes_per_second": 12 } })");
}

static std::string errorOf(const json &root) {
  Expected<Cluster> cluster = parseCluster(root.dump(), "cluster.json");
  return cluster ? "no error" : cluster.message();
}

TEST(Cluster, ReadsAnExample) {
  Expected<Cluster> cluster = parseCluster(example().dump(), "cluster.json");
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_EQ(cluster->name, "128 x DGX H100");
  EXPECT_EQ(cluster->numDevices(), 1024);
  EXPECT_EQ(cluster->devicesPerNode(), 8);
  ASSERT_EQ(cluster->levels.size(), 2u);
  EXPECT_EQ(cluster->levels[0].span, 8);
  EXPECT_EQ(cluster->levels[1].span, 1024);
  EXPECT_DOUBLE_EQ(cluster->levels[0].bytesPerSecond, 450e9);
  EXPECT_DOUBLE_EQ(cluster->levels[1].latencySeconds, 8e-6);
  EXPECT_TRUE(cluster->levels[0].inNetworkReduction);
  EXPECT_FALSE(cluster->levels[1].inNetworkReduction);
  EXPECT_EQ(cluster->levels[1].kind, LinkKind::FatTree);
  EXPECT_DOUBLE_EQ(cluster->groups[0].device.peak(DType::BF16), 989e12);
  EXPECT_DOUBLE_EQ(cluster->host.pcieBytesPerSecond, 55e9);
}

TEST(Cluster, SyntaxErrorsHaveACause) {
  Expected<Cluster> cluster =
      parseCluster("{\n  \"version\": 1,\n}", "cluster.json");
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.message(), "cluster.json:3:1: not valid JSON: unexpected "
                               "'}'; expected string literal");
}

TEST(Cluster, UnknownFieldsAreAnsweredWithEachFieldOnce) {
  json root = example();
  root["host"]["gigabits_per_second"] = 1;
  EXPECT_EQ(errorOf(root),
            "cluster.json: host.gigabits_per_second: unknown field; expected "
            "one of memory_gibibytes pcie_gigabytes_per_second "
            "nvme_gigabytes_per_second");
}

TEST(Cluster, EveryRequiredFieldIsNamed) {
  struct Case {
    const char *pointer;
    const char *where;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"/version", "cluster.json: version"},
           {"/groups", "cluster.json: groups"},
           {"/levels", "cluster.json: levels"},
           {"/groups/0/nodes", "groups[0].nodes"},
           {"/groups/0/devices_per_node", "groups[0].devices_per_node"},
           {"/groups/0/device", "groups[0].device"},
           {"/levels/0/name", "levels[0].name"},
           {"/levels/1/span", "levels[1].span"},
           {"/levels/1/gigabytes_per_second", "levels[1].gigabytes_per_second"},
           {"/levels/0/latency_microseconds", "levels[0].latency_microseconds"},
           {"/levels/0/kind", "levels[0].kind"}}) {
    json root = example();
    json::json_pointer pointer(c.pointer);
    json &parent = root[pointer.parent_pointer()];
    parent.erase(pointer.back());
    std::string error = errorOf(root);
    EXPECT_THAT(error, StartsWith("cluster.json: "));
    EXPECT_THAT(error,
                HasSubstr(std::string(c.where) + ": missing; expected "));
  }
}

TEST(Cluster, FieldsOfTheHostAreOptional) {
  json root = example();
  root["host"] = {{"memory_gibibytes", 512}};
  Expected<Cluster> cluster = parseCluster(root.dump(), "cluster.json");
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_EQ(cluster->host.memoryBytes, 512.0 * (int64_t(1) << 30));
  EXPECT_EQ(cluster->host.pcieBytesPerSecond, 0);
}

TEST(Cluster, ErrorsNameTheFieldTheValueAndTheAcceptedValues) {
  struct Case {
    const char *pointer;
    json value;
    const char *message;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"/levels/0/gigabytes_per_second", -3,
            "cluster.json: levels[0].gigabytes_per_second: value -3; expected "
            "a number > 0"},
           {"/levels/1/latency_microseconds", -1,
            "cluster.json: levels[1].latency_microseconds: value -1; expected "
            "a number >= 0"},
           {"/groups/0/nodes", 0,
            "cluster.json: groups[0].nodes: value 0; expected a whole number "
            "from 1 to 1048576"},
           {"/groups/0/nodes", 1.5,
            "cluster.json: groups[0].nodes: value 1.5; expected a whole number "
            "from 1 to 1048576"},
           {"/groups/0/nodes", "8",
            "cluster.json: groups[0].nodes: value \"8\"; expected a whole "
            "number from 1 to 1048576"},
           {"/levels/0/kind", "mesh",
            "cluster.json: levels[0].kind: value \"mesh\"; expected one of "
            "switch full-mesh ring fat-tree shared-memory"},
           {"/levels/0/span", "rack",
            "cluster.json: levels[0].span: value \"rack\"; expected \"node\", "
            "\"cluster\" or a number of devices >= 1"},
           {"/levels/0/in_network_reduction", 1,
            "cluster.json: levels[0].in_network_reduction: value 1; expected "
            "true or false"},
           {"/levels/1/oversubscription", 0.5,
            "cluster.json: levels[1].oversubscription: value 0.5; expected a "
            "number >= 1"},
           {"/levels/1/span", "node",
            "cluster.json: levels[1].span: the last level joins 8 devices; "
            "expected \"cluster\" (all 1024)"},
           {"/groups", json::array(),
            "cluster.json: groups: value []; expected an array of node "
            "groups"},
           {"/version", 2,
            "cluster.json: version: value 2; expected a whole number from 1 to "
            "1"},
           {"/host", 7, "cluster.json: host: value 7; expected an object"},
           {"/host/nvme_gigabytes_per_second", nullptr,
            "cluster.json: host.nvme_gigabytes_per_second: value null; "
            "expected a number >= 0"}}) {
    json root = example();
    root[json::json_pointer(c.pointer)] = c.value;
    EXPECT_EQ(errorOf(root), c.message);
  }
}

TEST(Cluster, UnknownFieldsAndDevicesAreRefused) {
  json root = example();
  root["levels"][0]["bandwith"] = 3;
  EXPECT_THAT(errorOf(root),
              HasSubstr("levels[0].bandwith: unknown field; expected "
                        "one of name span"));
  root = example();
  root["groups"][0]["device"] = "h1000";
  EXPECT_THAT(errorOf(root),
              HasSubstr("unknown device 'h1000'; expected one of "
                        "a100-sxm-40gb"));
  root["groups"][0]["device"] = "../devices/h100-sxm-80gb";
  EXPECT_THAT(errorOf(root), HasSubstr("unknown device"));
}

TEST(Cluster, BrokenTextIsOneLine) {
  for (const char *text : {"", "{", "[1]", "{\"version\": 1e999}", "nul"}) {
    Expected<Cluster> cluster = parseCluster(text, "x.json");
    ASSERT_FALSE(cluster) << text;
    EXPECT_THAT(cluster.message(), StartsWith("x.json:"));
    EXPECT_THAT(cluster.message(), Not(HasSubstr("\n")));
  }
}

TEST(Cluster, OptionalPartsMayBeAbsent) {
  json root = example();
  root.erase("host");
  root.erase("name");
  Expected<Cluster> cluster = parseCluster(root.dump(), "dir/my.json");
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_EQ(cluster->name, "my");
  EXPECT_EQ(cluster->host.memoryBytes, 0);
}

TEST(Cluster, MixedGroupsAreBoundByTheWeakest) {
  json root = example();
  root["groups"].push_back(
      {{"nodes", 2}, {"devices_per_node", 4}, {"device", "a100-sxm-40gb"}});
  root["levels"][0]["span"] = 4;
  Expected<Cluster> cluster = parseCluster(root.dump(), "cluster.json");
  ASSERT_TRUE(cluster) << cluster.message();
  EXPECT_EQ(cluster->numDevices(), 1032);
  EXPECT_EQ(cluster->devicesPerNode(), 4);
  EXPECT_EQ(cluster->slowestDevice(DType::BF16).name, "a100-sxm-40gb");
  EXPECT_DOUBLE_EQ(cluster->groups[1].device.usableBytes(), 38.5 * (1 << 30));
}

TEST(Device, AllFilesLoadAndHaveSources) {
  std::vector<std::string> names = knownDevices();
  EXPECT_EQ(names, (std::vector<std::string>{
                       "a100-sxm-40gb", "a100-sxm-80gb", "a800-sxm-80gb",
                       "b200-sxm-180gb", "b300-sxm-288gb", "cpu-local",
                       "gb200-nvl72-186gb", "gb300-nvl72-288gb",
                       "h100-sxm-80gb", "h100-sxm-96gb", "h200-sxm-141gb",
                       "v100-sxm2-16gb", "v100-sxm2-32gb"}));
  for (const std::string &name : names) {
    Expected<Device> device = loadDevice(name);
    ASSERT_TRUE(device) << device.message();
    EXPECT_EQ(device->name, name);
    EXPECT_GT(device->peak(DType::F32), 0);
    EXPECT_GT(device->usableBytes(), 0);
    EXPECT_EQ(device->computeCapability >= 70, device->hasFusedAttention())
        << name;
  }
}

TEST(Device, TheEnvironmentReplacesTheFolder) {
  setenv("DPC_DEVICE_DIR", "/nonexistent", 1);
  Expected<Device> device = loadDevice("cpu-local");
  unsetenv("DPC_DEVICE_DIR");
  ASSERT_FALSE(device);
  EXPECT_THAT(device.message(),
              HasSubstr("/nonexistent, which is empty; set DPC_DEVICE_DIR"));
}

TEST(Device, InlineObjectsAreChecked) {
  json device = json::parse(R"({"version": 1, "name": "d",
    "peak_teraflops": {"f32": {"value": 1, "source": "s"}},
    "memory_gibibytes": {"value": 1, "source": "s"},
    "memory_gigabytes_per_second": {"value": 10, "source": "s"},
    "memory_fraction": {"value": 0.5, "source": "s"},
    "memory_reserved_gibibytes": {"value": 0, "source": "s"},
    "multiprocessors": {"value": 2, "source": "s"},
    "launch_microseconds": {"value": 1, "source": "s"},
    "gemm": {"peak_fraction": {"value": 0.5, "source": "s"},
             "tile_m": {"value": 4, "source": "s"},
             "tile_n": {"value": 4, "source": "s"},
             "half_k": {"value": 0, "source": "s"},
             "align_bytes": {"value": 1, "source": "s"},
             "misaligned_fraction": {"value": 1, "source": "s"}}})");
  json root = example();
  root["groups"][0]["device"] = device;
  EXPECT_EQ(errorOf(root), "no error");
  // Fused attention rates have no default, so they are required.
  root["software"] = "megatron-core-2024";
  EXPECT_EQ(errorOf(root),
            "cluster.json: groups[0].device: 'd' has no rates for the fused "
            "attention of software 'megatron-core-2024'; expected "
            "attention_forward_fraction and attention_backward_fraction");
  root["software"] = "megatron-2022";
  EXPECT_EQ(errorOf(root), "no error");
  root.erase("software");
  root["groups"][0]["device"]["gemm"]["peak_fraction"]["value"] = 1.5;
  EXPECT_EQ(errorOf(root),
            "cluster.json: groups[0].device.gemm.peak_fraction.value: value "
            "1.5; expected a number > 0 and <= 1");
  root["groups"][0]["device"] = device;
  root["groups"][0]["device"]["launch_microseconds"].erase("source");
  EXPECT_EQ(errorOf(root), "cluster.json: groups[0].device.launch_microseconds."
                           "source: missing; expected a string");
  root["groups"][0]["device"] = device;
  root["groups"][0]["device"]["memory_reserved_gibibytes"]["value"] = 1;
  EXPECT_THAT(errorOf(root), HasSubstr("nothing is left of the memory"));
}

TEST(LocalCluster, DividesTheMachine) {
  Expected<Cluster> one = loadCluster("local:1"), four = loadCluster("local:4");
  ASSERT_TRUE(one) << one.message();
  ASSERT_TRUE(four) << four.message();
  EXPECT_EQ(four->numDevices(), 4);
  EXPECT_EQ(four->name, "local:4");
  EXPECT_EQ(four->levels[0].kind, LinkKind::SharedMemory);
  // If the ranks do not divide the cores evenly, some cores are idle.
  EXPECT_LE(four->groups[0].device.peak(DType::F32) * 4,
            one->groups[0].device.peak(DType::F32));
  EXPECT_DOUBLE_EQ(four->mostUsableBytes() * 4, one->mostUsableBytes());
  EXPECT_TRUE(four->host.holdsDevices);
}

TEST(LocalCluster, BadOptionsAreOneLine) {
  for (const char *option : {"local:", "local:0", "local:-2", "local:4x",
                             "local:99999999999999999999", "/nonexistent"}) {
    Expected<Cluster> cluster = loadCluster(option);
    ASSERT_FALSE(cluster) << option;
    EXPECT_THAT(cluster.message(), HasSubstr("expected"));
  }
}
