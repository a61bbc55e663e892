//===- GpuEstimateTest.cpp - Plans for GPUs match their estimates ---------===//
//
// The estimate and the plan have the same epilogues. So the estimated memory is
// the size of the plan's arena, and the estimated time is the time of its
// instructions.
//
//===----------------------------------------------------------------------===//
#include "ir/GemmEpilogues.h"
#include "passes/cost/OpTime.h"
#include "passes/price/Evaluator.h"
#include "passes/price/StepEstimate.h"
#include "passes/price/StepRecord.h"
#include "test/unit/tools/CompilerFixture.h"
#include "tools/driver/BuildPlan.h"

using namespace dpc;
using namespace mlir;

namespace {

constexpr int64_t kBatch = 8;

class GpuEstimate : public CompilerFixture {
protected:
  void SetUp() override {
    CompilerFixture::SetUp();
    options.targetGpu = "sm_90";
    options.precision = "bf16";
  }

  /// A training step in bf16.
  OwningOpRef<ModuleOp> load(const std::string &model) {
    return importAndRun(model, kBatch, [&](OpPassManager &pm) {
      addFusionPhase(pm);
      stepPasses(options, /*trains=*/true)(pm);
    });
  }

  static cost::Strategy strategyOf(const std::string &text, int64_t ranks) {
    return CompilerFixture::strategyOf(text, ranks, kBatch);
  }
};

} // namespace

TEST_F(GpuEstimate, MemoryIsThePlansArena) {
  constexpr double kTolerance = 0.01;
  for (const char *model : {"bert-tiny", "gpt2-tiny"}) {
    OwningOpRef<ModuleOp> program = load(model);
    for (auto [text, ranks] : {std::pair("tp=2", 2),
                               {"dp=1,micro_batch=2", 1},
                               {"tp=2,micro_batch=2", 2},
                               {"pp=2,micro_batch=2", 2}}) {
      SCOPED_TRACE(std::string(model) + " " + text);
      cost::Cluster cluster = *cost::makeLocalCluster(ranks);
      cost::Strategy strategy = strategyOf(text, ranks);
      ProgramEvaluator evaluator(*program, cluster, commonSpec(options));
      cost::Evaluation evaluation = evaluator.evaluateWhole(strategy);
      ASSERT_EQ(evaluation.rejected, "");
      auto plan = buildForRanks(
          PlanSettings{options, init}, *program, cluster,
          specOf(strategy, evaluation.decisions, kBatch, commonSpec(options)),
          root);
      ASSERT_TRUE(plan);
      for (auto [stage, arena] : llvm::enumerate(plan->arenaBytes)) {
        double bytes = evaluation.stages.empty()
                           ? evaluation.memory.total()
                           : evaluation.stages[stage].memoryBytes;
        EXPECT_NEAR(bytes / static_cast<double>(arena), 1, kTolerance);
      }
    }
  }
}

/// Without transfers, the queue of a rank is never empty, so the step takes the
/// sum of its instructions' times. Epilogues take no additional time.
TEST_F(GpuEstimate, TimeIsThatOfWhatRuns) {
  OwningOpRef<ModuleOp> program = load("bert-tiny");
  cost::Cluster cluster = *cost::makeLocalCluster(1);
  const cost::Device &device = cluster.groups.front().device;
  auto lower = [&](bool fusesEpilogues) {
    LoweringSpec common = commonSpec(options);
    EXPECT_TRUE(common.fusesEpilogues);
    common.fusesEpilogues = fusesEpilogues;
    auto lowered = lowerForStrategy(
        *program, cluster, specOf(strategyOf("dp=1", 1), kBatch, common));
    EXPECT_TRUE(succeeded(lowered));
    return std::move(*lowered);
  };
  OwningOpRef<ModuleOp> fused = lower(true), apart = lower(false);
  func::FuncOp step = findStep(*fused);
  StepRecord record;
  Expected<StepTime> time = estimateTime({step}, cluster, &record);
  ASSERT_TRUE(time);
  double sum = 0, kernels = 0, matmuls = 0;
  for (Operation &op : step.getBody().front().without_terminator()) {
    double seconds = isBufferView(&op) ? 0 : opSeconds(&op, device);
    sum += seconds;
    matmuls += !epilogueOf(&op).empty();
    kernels += seconds > 0;
  }
  EXPECT_NEAR(time->computeSeconds, sum, 1e-9);
  EXPECT_GT(matmuls, 8);
  // The plan has as many epilogues as the estimated program.
  codegen::CodegenOptions target = codegenOptions(options, true);
  auto draft = codegen::buildPlan({step}, target);
  ASSERT_TRUE(succeeded(draft));
  double found = 0;
  for (const auto &[phase, instructions] : draft->plan.phases)
    for (const rt::Instruction &instruction : instructions)
      if (const auto *product = std::get_if<rt::MatmulOp>(&instruction.op))
        found += product->epilogue != rt::Epilogue::None;
  EXPECT_EQ(found, matmuls);
  // Without epilogues, there is at least one more launch per matmul.
  Expected<StepTime> before = estimateTime({findStep(*apart)}, cluster);
  double others = 0;
  for (Operation &op : findStep(*apart).getBody().front().without_terminator())
    others += !isBufferView(&op) && opSeconds(&op, device) > 0;
  EXPECT_GE(others - kernels, matmuls);
  EXPECT_GT(before->computeSeconds - time->computeSeconds,
            (others - kernels) * device.launchSeconds);
}

// Epilogues are estimated only for plans on GPUs; other software has its own
// kernels.
TEST_F(GpuEstimate, OnlyOfPlansForGpus) {
  auto fuses = [&](const std::string &software, const std::string &gpu) {
    options.targetGpu = gpu;
    return pricedSpec(commonSpec(options), *cost::loadSoftware(software),
                      cost::DType::BF16)
        .fusesEpilogues;
  };
  EXPECT_FALSE(fuses("dpc", ""));
  EXPECT_TRUE(fuses("dpc", "sm_90"));
  EXPECT_TRUE(fuses("dpc-cuda", ""));
  for (const std::string &name : cost::knownSoftware())
    if (!name.starts_with("dpc"))
      EXPECT_FALSE(fuses(name, "sm_90")) << name;
}
