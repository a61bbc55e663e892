//===- PlanTargetTest.cpp - the software of --for -------------------------===//
#include "tools/driver/PlanTarget.h"

#include <gtest/gtest.h>

using namespace dpc;

namespace {

cost::Cluster gpus() {
  cost::Cluster cluster;
  cluster.groups = {{1, 8, *cost::loadDevice("h100-sxm-80gb")}};
  return cluster;
}

CompileOptions optionsFor(const std::string &target) {
  CompileOptions options;
  options.plansFor = target;
  options.precision = "bf16";
  options.cluster = "c.json";
  return options;
}

std::string lineFor(const std::string &target,
                    const std::string &software = "dpc") {
  cost::Cluster cluster = gpus();
  cluster.software = *cost::loadSoftware(software);
  std::vector<std::string> remarks;
  EXPECT_EQ(useTarget(optionsFor(target), cluster, remarks), "");
  return softwareLine(optionsFor(target), cluster);
}

TEST(PlanTarget, TheFirstLineNamesTheSoftware) {
  EXPECT_EQ(lineFor("dpc"), "times and memory are those of dpc's own runtime");
  EXPECT_EQ(lineFor("dpc", "dpc-cuda"), lineFor("dpc"));
  EXPECT_EQ(lineFor("megatron"),
            "times and memory are those of Megatron-LM (megatron-core-2024)");
  EXPECT_EQ(lineFor("dpc", "megatron-core-2024"), lineFor("megatron"));
  EXPECT_EQ(lineFor("dpc", "alpa-2022"),
            "times and memory are those of the software profile alpa-2022");
  EXPECT_EQ(lineFor("deepspeed"),
            "times and memory are those of DeepSpeed, by a similar profile "
            "(megatron-deepspeed-2022)");
}

TEST(PlanTarget, EveryTrainingTargetHasAProfile) {
  for (const exports::Target *target : exports::trainingTargets())
    EXPECT_TRUE(cost::loadSoftware(std::string(target->software)))
        << target->name;
  EXPECT_GE(exports::trainingTargets().size(), 6u);
}

TEST(PlanTarget, OtherDevicesAndTypesAreRefused) {
  std::vector<std::string> remarks;
  cost::Cluster cluster = gpus();
  CompileOptions options = optionsFor("megatron");
  options.precision = "fp32";
  EXPECT_NE(useTarget(options, cluster, remarks).find("--precision=bf16"),
            std::string::npos);
  cluster.groups[0].device.attentionForward = 0; // as on CPUs
  EXPECT_NE(
      useTarget(optionsFor("megatron"), cluster, remarks).find("h100-sxm-80gb"),
      std::string::npos);
  EXPECT_TRUE(remarks.empty());
}

TEST(PlanTarget, AReplacedProfileIsSaid) {
  std::vector<std::string> remarks;
  cost::Cluster cluster = gpus();
  cluster.software = *cost::loadSoftware("alpa-2022");
  EXPECT_EQ(useTarget(optionsFor("torchtitan"), cluster, remarks), "");
  EXPECT_EQ(remarks, std::vector<std::string>{
                         "--for=torchtitan: the profile pytorch-fsdp-2024 "
                         "replaces \"software\": \"alpa-2022\" of c.json"});
  EXPECT_EQ(cluster.software.name, "pytorch-fsdp-2024");
}

} // namespace
