#include "cost-model/machine/Cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::cost;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

static json example() {
  return json::parse(R"({"version": 1, "name": "toy",
    "attention": {"value": "unfused", "source": "s"},
    "attention_dropout": {"value": true, "source": "s"},
    "traffic": {"value": 1.5, "source": "s"},
    "narrow_activations": {"value": true, "source": "s"},
    "host_kernel_microseconds": {"value": 50, "source": "s"},
    "host_step_milliseconds": {"value": 4, "source": "s"},
    "overlap": {"value": false, "source": "s"}})");
}

static std::string errorOf(const json &root) {
  Expected<Software> software = parseSoftware(root, "toy.json");
  return software ? "no error" : software.message();
}

TEST(Software, ReadsSiUnitsAndKeepsDefaults) {
  Expected<Software> software = parseSoftware(example(), "toy.json");
  ASSERT_TRUE(software) << software.message();
  EXPECT_EQ(software->name, "toy");
  EXPECT_EQ(software->attention, AttentionKernels::Unfused);
  EXPECT_TRUE(software->attentionDropout);
  EXPECT_DOUBLE_EQ(software->traffic, 1.5);
  EXPECT_TRUE(software->narrowActivations);
  EXPECT_DOUBLE_EQ(software->hostKernelSeconds, 50e-6);
  EXPECT_DOUBLE_EQ(software->hostStepSeconds, 4e-3);
  EXPECT_FALSE(software->overlap);
  EXPECT_EQ(software->overlapSlowdown, 0);
  EXPECT_FALSE(software->scatteredMessages);
}

TEST(Software, KeepsMemoryIfItHasReservedBytes) {
  json root = example();
  EXPECT_FALSE(parseSoftware(root, "toy.json")->keepsMemory);
  root["checkpoints"] = {{"value", "whole-layers"}, {"source", "s"}};
  root["reserved_gibibytes"] = {{"value", 2}, {"source", "s"}};
  root["logit_bytes"] = {{"value", 8}, {"source", "s"}};
  Expected<Software> software = parseSoftware(root, "toy.json");
  ASSERT_TRUE(software) << software.message();
  EXPECT_TRUE(software->keepsMemory);
  EXPECT_EQ(software->checkpoints, Checkpoints::WholeLayers);
  EXPECT_EQ(software->reservedBytes, 2.0 * (1 << 30));
  EXPECT_EQ(software->logitBytes, 8);
}

TEST(Software, ErrorsNameThePlace) {
  json root = example();
  root["attention"]["value"] = "flash";
  EXPECT_EQ(errorOf(root),
            "toy.json: attention.value: value \"flash\"; "
            "expected one of planned unfused fused cudnn fused-cudnn");
  root = example();
  root["checkpoints"] = {{"value", "all"}, {"source", "s"}};
  EXPECT_EQ(errorOf(root), "toy.json: checkpoints.value: value \"all\"; "
                           "expected one of planned layers whole-layers");
  root = example();
  root["traffic"]["value"] = 0.5;
  EXPECT_EQ(errorOf(root), "toy.json: traffic.value: value 0.5; expected a "
                           "number >= 1");
  root = example();
  root["overlap"].erase("source");
  EXPECT_EQ(errorOf(root),
            "toy.json: overlap.source: missing; expected a string");
  root = example();
  root["overlap"].erase("value");
  EXPECT_NE(errorOf(root), "no error");
  root = example();
  root["speed"] = 1;
  EXPECT_THAT(errorOf(root), HasSubstr("speed"));
}

TEST(Software, EveryFileReads) {
  std::vector<std::string> names = knownSoftware();
  ASSERT_GT(names.size(), 1u);
  for (const std::string &name : names) {
    Expected<Software> software = loadSoftware(name);
    ASSERT_TRUE(software) << software.message();
    EXPECT_EQ(software->name, name);
  }
  Expected<Software> unknown = loadSoftware("../devices/cpu-local");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(
      unknown.message(),
      StartsWith("unknown software '../devices/cpu-local'; expected one of "));
}

TEST(Software, AClusterNamesOrContainsAProfile) {
  json cluster = json::parse(R"({"version": 1,
    "groups": [{"nodes": 1, "devices_per_node": 8, "device": "a100-sxm-80gb"}],
    "levels": [{"name": "nvlink", "span": "node", "gigabytes_per_second": 300,
                "latency_microseconds": 3, "kind": "switch"}]})");
  auto read = [&] { return parseCluster(cluster.dump(), "c.json"); };
  ASSERT_TRUE(read()) << read().message();
  // The device has rates of fused attention.
  EXPECT_EQ(read()->software.name, "dpc-cuda");
  EXPECT_EQ(read()->software.attention, AttentionKernels::Cudnn);
  cluster["software"] = example();
  ASSERT_TRUE(read()) << read().message();
  EXPECT_EQ(read()->software.name, "toy");
  cluster["software"] = "megatron-2022";
  ASSERT_TRUE(read()) << read().message();
  EXPECT_EQ(read()->software.name, "megatron-2022");
  cluster["software"] = "megatron-1999";
  EXPECT_THAT(read().message(), StartsWith("c.json: software: unknown software "
                                           "'megatron-1999'; expected one of"));
  cluster["software"] = 3;
  EXPECT_EQ(read().message(), "c.json: software: value 3; expected a software "
                              "profile's name or the profile");
}
