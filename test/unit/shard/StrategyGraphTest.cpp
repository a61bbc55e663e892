#include "passes/shard/StrategyGraph.h"
#include "passes/shard/Assign.h"
#include "test/unit/shard/ParseProgram.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dpc {
namespace {

const char *kTied = R"(
  func.func @forward(
      %table: tensor<512x64xf32> {dpc.name = "table", dpc.role = "parameter"},
      %ids: tensor<8x32xi64> {dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64})
      -> (tensor<8x32x512xf32> {dpc.name = "logits"}) {
    %x = dpc.embedding %table, %ids : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
    %y = dpc.matmul %x, %table tb : (tensor<8x32x64xf32>, tensor<512x64xf32>) -> tensor<8x32x512xf32>
    return %y : tensor<8x32x512xf32>
  })";

cost::Cluster localCluster(int64_t ranks) {
  return *cost::makeLocalCluster(ranks);
}

LoweringSpec specOf(const char *strategy) {
  LoweringSpec spec;
  static_cast<cost::Strategy &>(spec) = *cost::parseCompleteStrategy(strategy);
  return spec;
}

TEST(StrategyGraph, TiedEmbeddingIsSplitOverTheVocabulary) {
  ParsedProgram program(kTied);
  ASSERT_TRUE(program.module);
  ProgramFacts facts(program.func);
  EXPECT_EQ(facts.globalBatch, 8);
  EXPECT_EQ(facts.sequenceClasses.size(), 1u);
  Value table = program.func.getArgument(0);
  EXPECT_TRUE(facts.weights.contains(table));
  auto choices = chooseShards(facts, localCluster(4), specOf("dp=1,tp=4"));
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->arguments.lookup(table), AxisStates{axis::firstSplit});
  ASSERT_TRUE(succeeded(assignShardings(facts, *choices, specOf("dp=1,tp=4"))));
  EXPECT_TRUE(succeeded(verify(*program.module)));
}

// Each block reads its input twice, so the number of paths doubles with every
// block. A traversal of all paths would never end.
TEST(StrategyGraph, DeepProgramsAreTraversedOnce) {
  constexpr int kBlocks = 200;
  std::string text = R"(
  func.func @forward(%x0: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
      -> (tensor<8x4xf32> {dpc.name = "y"}) {)";
  for (int i = 0; i < kBlocks; ++i) {
    std::string x = "%x" + std::to_string(i);
    text += "\n%x" + std::to_string(i + 1) + " = dpc.binary add " + x + ", " +
            x + " : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>";
  }
  text += "\nreturn %x" + std::to_string(kBlocks) + " : tensor<8x4xf32> }";
  ParsedProgram program(text);
  ASSERT_TRUE(program.module);
  ProgramFacts facts(program.func);
  EXPECT_TRUE(facts.isForward(program.op("binary", kBlocks - 1)));
}

TEST(StrategyGraph, OneRankKeepsEverything) {
  ParsedProgram program(kTied);
  ProgramFacts facts(program.func);
  auto choices = chooseShards(facts, localCluster(1), {});
  ASSERT_TRUE(choices);
  EXPECT_TRUE(choices->ops.empty());
  ASSERT_TRUE(succeeded(assignShardings(facts, *choices, {})));
  EXPECT_TRUE(succeeded(verify(*program.module)));
  EXPECT_EQ(program.op("reshard"), nullptr);
}

/// Each op is split in every way that its rule allows. All programs verify.
TEST(StrategyGraph, AnyChoiceCanBeAssigned) {
  ParsedProgram original(kTied);
  ProgramFacts facts(original.func);
  LoweringSpec spec = specOf("dp=2,tp=3");
  auto base = chooseShards(facts, localCluster(6), spec);
  ASSERT_TRUE(base);
  for (StringRef name : {"embedding", "matmul"}) {
    size_t count = choicesOf(facts.factors, original.op(name), false).size();
    EXPECT_GT(count, 2u);
    for (size_t i = 0; i < count; ++i) {
      ParsedProgram program(kTied);
      ProgramFacts again(program.func);
      auto choices = chooseShards(again, localCluster(6), spec);
      ASSERT_TRUE(choices);
      choices->ops[program.op(name)] = {
          choicesOf(again.factors, program.op(name), false)[i]};
      EXPECT_TRUE(succeeded(assignShardings(again, *choices, spec)))
          << name.str() << " choice " << i;
      EXPECT_TRUE(succeeded(verify(*program.module)));
    }
  }
}

} // namespace
} // namespace dpc
