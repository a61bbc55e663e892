//===- RemarksTest.cpp - keys of --strategy without effect ----------------===//
#include "tools/driver/Remarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dpc;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

cost::Strategy dataParallel(int64_t dp, int64_t microBatch) {
  cost::Strategy strategy;
  strategy.dp = dp;
  strategy.microBatch = microBatch;
  return strategy;
}

TEST(Remarks, NothingOnWhatHasAnEffect) {
  EXPECT_THAT(remarksOn("dp=4,zero=1,micro_batch=2", dataParallel(4, 2), 8, {}),
              IsEmpty());
  EXPECT_THAT(remarksOn("auto", dataParallel(4, 2), 8, {}), IsEmpty());
  EXPECT_THAT(
      remarksOn("dp=4,sp=false,schedule=1f1b", dataParallel(4, 2), 8, {}),
      IsEmpty());
}

TEST(Remarks, KeysWithoutTheirDegree) {
  EXPECT_THAT(remarksOn("dp=1,sp=true,schedule=zb-h1,cp_kind=ulysses,"
                        "offload_to=disk,zero=3",
                        dataParallel(1, 8), 8, {}),
              ElementsAre("cp_kind=ulysses has no effect: cp=1",
                          "sp=true has no effect: tp=1",
                          "zero=3 has no effect: dp=1, so no ranks share "
                          "states",
                          "schedule=zb-h1 has no effect: pp=1",
                          "offload_to=disk has no effect: offload=none"));
}

TEST(Remarks, KeysThatTheSoftwareDoesNotProvide) {
  cost::Strategy strategy;
  strategy.tp = 2;
  strategy.tpOverlap = cost::TpOverlap::Chunked;
  strategy.microBatch = 8;
  cost::Software software;
  EXPECT_THAT(remarksOn("tp=2,tp_overlap=chunked", strategy, 8, software),
              ElementsAre("tp_overlap=chunked has no effect: the software "
                          "profile dpc does not provide it"));
  software.tensorChunks = 4;
  EXPECT_THAT(remarksOn("tp=2,tp_overlap=chunked", strategy, 8, software),
              IsEmpty());
}

TEST(Remarks, MicroBatchesLargerThanAShare) {
  EXPECT_THAT(remarksOn("dp=4,micro_batch=4", dataParallel(4, 2), 8, {}),
              ElementsAre("micro_batch=4 exceeds the 2 samples of a rank: "
                          "2 is used"));
}

TEST(Remarks, RanksWithoutSamples) {
  EXPECT_THAT(remarksOn("dp=4", dataParallel(4, 1), 3, {}),
              ElementsAre("1 of 4 data-parallel ranks get no sample of a batch "
                          "of 3"));
}

CompileOptions precisionOn(const std::string &precision,
                           const std::string &cluster) {
  CompileOptions options;
  options.precision = precision;
  options.cluster = cluster;
  return options;
}

TEST(Remarks, NarrowTypesOnProcessorsWithoutInstructions) {
  CompileOptions bf16 = precisionOn("bf16", "local:4");
  EXPECT_EQ(remarkOnNarrowCpu(bf16, /*hasBf16=*/true), "");
  EXPECT_EQ(remarkOnNarrowCpu(bf16, /*hasBf16=*/false),
            "--precision=bf16 is slower than fp32 on this processor, which has "
            "no bf16 instructions: GEMMs convert their operands to fp32; "
            "--precision=fp32 is faster, and takes more memory");
  for (const char *precision : {"fp16", "fp8"})
    for (bool hasBf16 : {true, false})
      EXPECT_THAT(remarkOnNarrowCpu(precisionOn(precision, "local:4"), hasBf16),
                  testing::HasSubstr("--precision=fp32 is faster"));
  EXPECT_EQ(remarkOnNarrowCpu(precisionOn("fp32", "local:4"), false), "");
  EXPECT_EQ(remarkOnNarrowCpu(precisionOn("bf16", "dgx.json"), false), "");
  bf16.targetGpu = "sm_90";
  EXPECT_EQ(remarkOnNarrowCpu(bf16, false), "");
}

// Gradients of these types have the range of fp32.
TEST(Remarks, ALossScaleOfATypeThatNeedsNone) {
  CompileOptions options = precisionOn("bf16", "local:4");
  EXPECT_EQ(remarkOnLossScale(options), "");
  options.lossScaleInterval = 0; // a fixed scale
  options.lossScale = 128;
  EXPECT_EQ(remarkOnLossScale(options),
            "--loss-scale=128: gradients of --precision=bf16 do not underflow, "
            "so that the scale changes nothing; 1 skips steps whose gradients "
            "are not finite as well");
  options.lossScale = 1;
  EXPECT_EQ(remarkOnLossScale(options), "");
  options.precision = "fp16";
  options.lossScale = 128;
  EXPECT_EQ(remarkOnLossScale(options), "");
}

TEST(Remarks, BetasThatAreSwapped) {
  CompileOptions options;
  EXPECT_EQ(remarkOnBetas(options), "");
  options.beta1 = 0.999;
  EXPECT_EQ(remarkOnBetas(options), ""); // equal
  options.beta2 = 0.9;
  EXPECT_EQ(remarkOnBetas(options),
            "--beta1=0.999 is greater than --beta2=0.9: gradients are averaged "
            "over more steps than their squares; are the two swapped?");
  options.train = "sgd";
  EXPECT_EQ(remarkOnBetas(options), "");
}

TEST(Remarks, ThoseOfSeveralNodesAreGrouped) {
  size_t notices = 3;
  EXPECT_THAT(
      groupedRemarks({"node 'a' reads node 'b'", "input 'x' is odd",
                      "node 'c' reads node 'd'", "node 'e' reads node 'f'",
                      "the labels of node 'g' are computed", "input 'y' is odd",
                      "the labels of node 'h' are computed",
                      "the labels of node 'i' are computed", "node 'open"},
                     notices),
      ElementsAre("node 'a' reads node 'b' (and 1 more like it)",
                  "input 'x' is odd", "node 'e' reads node 'f'",
                  "the labels of node 'g' are computed (and 2 more like it)",
                  "input 'y' is odd", "node 'open"));
  EXPECT_EQ(notices, 2U);
}

} // namespace
