//===- ShrunkVerifyTest.cpp - shrunk models show mistakes -----------------===//
//
// Verification in shrunk form must detect a missing collective, as a wrong
// sharding rule would cause.
//
//===----------------------------------------------------------------------===//
#include "tools/driver/ShrunkVerify.h"

#include "ir/Dialect.h"
#include "passes/shard/Passes.h"
#include "test/unit/tools/CompilerFixture.h"

#include "llvm/Support/raw_ostream.h"

namespace fs = std::filesystem;
using namespace dpc;
using namespace mlir;

namespace {

class ShrunkVerify : public CompilerFixture {
protected:
  cost::Cluster cluster;
  bool keepsLayouts = false;

  /// A fused model.
  OwningOpRef<ModuleOp> fused(const std::string &model, int64_t batch) {
    return importAndRun(model, batch, addFusionPhase);
  }

  ShrunkProgram shrink(const std::string &model, const std::string &text,
                       int64_t ranks, int64_t batch) {
    cluster = *cost::makeLocalCluster(ranks);
    cost::Strategy strategy = strategyOf(text, ranks, batch);
    auto shrunk =
        shrinkForStrategy(*fused(model, batch), options, strategy, batch);
    EXPECT_TRUE(succeeded(shrunk));
    return std::move(*shrunk);
  }

  Verdict verify(const ShrunkProgram &shrunk,
                 PhaseObserver observer = nullptr) {
    return verifyShrunk(shrunk, PlanSettings{options, init}, cluster, root,
                        keepsLayouts, observer);
  }

  static bool leaveOutSum(ModuleOp module, int number) {
    AllReduceOp found;
    for (func::FuncOp step : findSteps(module))
      step.walk([&](AllReduceOp op) {
        if (op.getKind() == ReduceKind::sum && number-- == 0)
          found = op;
      });
    if (!found)
      return false;
    found->replaceAllUsesWith(found.getInputs());
    found->erase();
    return true;
  }
};

} // namespace

TEST_F(ShrunkVerify, AcceptsWhatIsRight) {
  ShrunkProgram shrunk = shrink("gpt2-tiny", "dp=2,tp=2", 4, 8);
  ASSERT_EQ(shrunk.summary.repeats.size(), 1u);
  EXPECT_EQ(shrunk.summary.repeats[0].before, 4);
  EXPECT_EQ(shrunk.summary.repeats[0].after, 2);
  EXPECT_EQ(shrunk.summary.sizes[512], std::set<int64_t>({8})); // vocabulary
  Verdict verdict = verify(shrunk);
  EXPECT_EQ(verdict.why, "");
  // Loss and norm: 2 from a run of one step, 4 from a run of two steps.
  EXPECT_EQ(verdict.outputs, 6);
  EXPECT_GT(verdict.tensors, 50);
  EXPECT_LT(verdict.toleranceShare, 0.5);
  EXPECT_TRUE(keepsLayouts);
}

// Verification catches each missing reduction; the test tries every third one.
TEST_F(ShrunkVerify, CatchesAMissingSum) {
  ShrunkProgram shrunk = shrink("gpt2-tiny", "tp=2", 2, 8);
  int caught = 0;
  bool found = true;
  for (int number = 0;; number += 3) {
    Verdict verdict = verify(shrunk, [&](StringRef phase, ModuleOp module) {
      if (phase == "local")
        found = leaveOutSum(module, number);
    });
    if (!found) {
      EXPECT_EQ(verdict.why, "");
      break;
    }
    EXPECT_NE(verdict.why.find("differs from one device"), std::string::npos)
        << "sum " << number << ": " << verdict.why;
    EXPECT_FALSE(verdict.cannotBeChecked);
    ++caught;
  }
  EXPECT_GE(caught, 3);
}

TEST_F(ShrunkVerify, SaysWhatWasVerified) {
  auto module = fused("gpt2-tiny", 64);
  cost::Strategy strategy;
  strategy.dp = 32;
  strategy.tp = 8;
  cluster = *cost::makeLocalCluster(256);
  std::string mismatch;
  cost::Verification verification =
      verifyInShrunkForm(*module, PlanSettings{options, init}, cluster,
                         strategy, 0, 64, root, mismatch);
  EXPECT_EQ(mismatch, "");
  EXPECT_EQ(verification.scope, cost::Verification::Scope::shrunk);
  EXPECT_EQ(verification.ranks, 16);
  std::string text = cost::verificationText(verification);
  EXPECT_EQ(text.find("verified in shrunk form (repeats of layers 4 -> 2, "),
            0u)
      << text;
  EXPECT_NE(text.find("16 ranks under dp=4,tp=4 "), std::string::npos) << text;
  EXPECT_TRUE(fs::is_empty(root));
}

TEST_F(ShrunkVerify, SaysWhyNothingWasVerified) {
  auto module = fused("gpt2-tiny", 8);
  cost::Strategy strategy;
  strategy.pp = 2;
  strategy.ep = 3; // no experts
  strategy.dp = 3;
  cluster = *cost::makeLocalCluster(6);
  std::string mismatch;
  cost::Verification verification =
      verifyInShrunkForm(*module, PlanSettings{options, init}, cluster,
                         strategy, 0, 8, root, mismatch);
  EXPECT_EQ(mismatch, "");
  EXPECT_EQ(verification.scope, cost::Verification::Scope::none);
  EXPECT_NE(verification.why, "");
  EXPECT_EQ(verification.why.find('\n'), std::string::npos);
}

static std::map<std::string, int> collectivesOf(ModuleOp module) {
  std::map<std::string, int> counts;
  for (func::FuncOp step : findSteps(module))
    step.walk([&](Operation *op) {
      if (isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(op))
        ++counts[op->getName().getStringRef().str()];
    });
  return counts;
}

// The shrunk model uses the layouts of the large model, although others are
// cheaper for small sizes.
TEST_F(ShrunkVerify, KeepsTheLayoutsOfTheLargeModel) {
  ShrunkProgram shrunk = shrink("bert-tiny", "tp=2x2", 4, 8);
  LoweringSpec spec = specOf(shrunk.choice.strategy, shrunk.choice.globalBatch,
                             commonSpec(options));
  LayoutModel layouts{*shrunk.wide, cluster, shrunk.wideSpec};
  auto like =
      lowerForStrategy(*shrunk.program, cluster, spec, nullptr, &layouts);
  auto wide = lowerForStrategy(*shrunk.wide, cluster, shrunk.wideSpec);
  ASSERT_TRUE(succeeded(like) && succeeded(wide));
  EXPECT_TRUE(layouts.isUsed);
  EXPECT_EQ(collectivesOf(**like), collectivesOf(**wide));
  // A mesh with other axes cannot use the layouts.
  LoweringSpec other;
  other.tp = 4;
  layouts.isUsed = false;
  ASSERT_TRUE(succeeded(
      lowerForStrategy(*shrunk.program, cluster, other, nullptr, &layouts)));
  EXPECT_FALSE(layouts.isUsed);
}
