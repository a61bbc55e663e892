//===- InputLimitsTest.cpp - bounds of ids and labels in a plan -----------===//
#include "passes/graph/Phases.h"
#include "test/unit/tools/CompilerFixture.h"

#include "mlir/Parser/Parser.h"

using namespace dpc;
using namespace mlir;

namespace {

/// The arguments are a table of 32 rows, scores of 8 classes, ids and labels.
class InputLimits : public CompilerFixture {
protected:
  /// Returns the input 'ids' of a plan for @forward with this body, before or
  /// after cross entropies are expanded.
  rt::Port idsOf(const std::string &body, bool expands) {
    std::string text =
        "func.func @forward(%w: tensor<32x4xf32>, %x: tensor<6x8xf32>, "
        "%ids: tensor<6xi64> {dpc.name = \"ids\", dpc.role = \"input\"}) -> "
        "tensor<6xf32> {\n" +
        body + "\n}";
    auto module = parseSourceString<ModuleOp>(text, context.get());
    EXPECT_TRUE(module) << text;
    rt::Plan plan;
    plan.inputs = {{"ids", 0, rt::DType::I64, {6}, {}}};
    if (!module)
      return plan.inputs[0];
    if (expands)
      EXPECT_TRUE(succeeded(runPasses(*module, [](OpPassManager &pm) {
        pm.nest<func::FuncOp>().addPass(createDpcExpandCrossEntropy());
      })));
    setInputUses(module->lookupSymbol<func::FuncOp>("forward"), plan);
    return plan.inputs[0];
  }
};

std::string loss(const std::string &result, const std::string &labels,
                 int ignored) {
  return "%" + result + ", %lse_" + result + " = dpc.cross_entropy %x, %" +
         labels + " ignore_index = " + std::to_string(ignored) +
         " : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, "
         "tensor<6xf32>)\n";
}

const std::string kLookUp =
    "%rows = dpc.embedding %w, %ids : (tensor<32x4xf32>, tensor<6xi64>) -> "
    "tensor<6x4xf32>\n"
    "%r = dpc.reduce sum %rows dims = [1] : tensor<6x4xf32> -> "
    "tensor<6xf32>\n";

TEST_F(InputLimits, IdsHaveNoIgnoredValue) {
  rt::Port port = idsOf(kLookUp + "return %r : tensor<6xf32>", false);
  EXPECT_EQ(port.limit, 32);
  EXPECT_FALSE(port.ignored);
}

TEST_F(InputLimits, LabelsKeepTheIgnoredValueWhenExpanded) {
  for (bool expands : {false, true})
    for (int ignored : {-100, -1, 0}) {
      rt::Port port = idsOf(
          loss("a", "ids", ignored) + "return %a : tensor<6xf32>", expands);
      EXPECT_EQ(port.limit, 8);
      EXPECT_EQ(port.ignored, ignored);
    }
}

/// A comparison of ids with the 8 positions of an iota, with these attributes.
std::string hits(const std::string &attributes) {
  return "%i = dpc.iota dim = 1 : tensor<6x8xi64>\n"
         "%b = dpc.broadcast %ids dims = [0] : tensor<6xi64> -> "
         "tensor<6x8xi64>\n"
         "%h = dpc.compare eq %i, %b " +
         attributes +
         " : (tensor<6x8xi64>, tensor<6x8xi64>) -> tensor<6x8xi1>\n"
         "%n = dpc.convert %h : tensor<6x8xi1> -> tensor<6x8xf32>\n"
         "%r = dpc.reduce sum %n dims = [1] : tensor<6x8xf32> -> "
         "tensor<6xf32>\n"
         "return %r : tensor<6xf32>";
}

TEST_F(InputLimits, ComparisonsBoundOnlyIfTheModelRefusesOtherValues) {
  rt::Port free = idsOf(hits(""), false);
  EXPECT_EQ(free.limit, 0);
  rt::Port bounded = idsOf(hits("{dpc.bounded}"), false);
  EXPECT_EQ(bounded.limit, 8);
  EXPECT_FALSE(bounded.ignored);
  rt::Port labels = idsOf(hits("{dpc.bounded, dpc.ignored = -7 : i64}"), false);
  EXPECT_EQ(labels.limit, 8);
  EXPECT_EQ(labels.ignored, -7);
}

TEST_F(InputLimits, BoundsSurviveTheGraphPasses) {
  std::string text =
      "func.func @forward(%ids: tensor<6xi64> {dpc.name = \"ids\", dpc.role = "
      "\"input\"}) -> tensor<6xf32> {\n" +
      hits("{dpc.bounded, dpc.ignored = -7 : i64}") + "\n}";
  auto module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  ASSERT_TRUE(succeeded(runPasses(*module, graphPasses(options, false))));
  rt::Plan plan;
  plan.inputs = {{"ids", 0, rt::DType::I64, {6}, {}}};
  setInputUses(module->lookupSymbol<func::FuncOp>("forward"), plan);
  EXPECT_EQ(plan.inputs[0].limit, 8);
  EXPECT_EQ(plan.inputs[0].ignored, -7);
}

TEST_F(InputLimits, ABoundedCrossEntropyIgnoresNoLabel) {
  std::string body =
      "%a, %l = dpc.cross_entropy %x, %ids ignore_index = -100 {dpc.bounded} : "
      "(tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)\n"
      "return %a : tensor<6xf32>";
  for (bool expands : {false, true}) {
    rt::Port port = idsOf(body, expands);
    EXPECT_EQ(port.limit, 8);
    EXPECT_FALSE(port.ignored);
  }
}

TEST_F(InputLimits, EveryUseMustIgnoreTheValue) {
  for (bool expands : {false, true}) {
    std::string sum = "%s = dpc.binary add %a, %r : (tensor<6xf32>, "
                      "tensor<6xf32>) -> tensor<6xf32>\n"
                      "return %s : tensor<6xf32>";
    for (const std::string &body : {kLookUp + loss("a", "ids", -100) + sum,
                                    loss("a", "ids", -100) + kLookUp + sum}) {
      rt::Port port = idsOf(body, expands);
      EXPECT_EQ(port.limit, 8);
      EXPECT_FALSE(port.ignored);
    }
    std::string two = "%s = dpc.binary add %a, %b : (tensor<6xf32>, "
                      "tensor<6xf32>) -> tensor<6xf32>\n"
                      "return %s : tensor<6xf32>";
    EXPECT_FALSE(
        idsOf(loss("a", "ids", -100) + loss("b", "ids", -1) + two, expands)
            .ignored);
    EXPECT_EQ(idsOf(loss("a", "ids", -1) + loss("b", "ids", -1) + two, expands)
                  .ignored,
              -1);
  }
}

TEST_F(InputLimits, ShiftedLabelsBoundTheInput) {
  std::string shifted =
      "%next = dpc.slice %ids offsets = [1] strides = [1] : tensor<6xi64> -> "
      "tensor<5xi64>\n"
      "%few = dpc.slice %x offsets = [0, 0] strides = [1, 1] : "
      "tensor<6x8xf32> -> tensor<5x8xf32>\n"
      "%a, %lse = dpc.cross_entropy %few, %next ignore_index = -100 : "
      "(tensor<5x8xf32>, tensor<5xi64>) -> (tensor<5xf32>, tensor<5xf32>)\n";
  for (bool expands : {false, true}) {
    rt::Port labels = idsOf(shifted + "%z = dpc.constant dense<0.0> : "
                                      "tensor<6xf32> -> tensor<6xf32>\n"
                                      "return %z : tensor<6xf32>",
                            expands);
    EXPECT_EQ(labels.limit, 8);
    EXPECT_EQ(labels.ignored, -100);
    rt::Port both =
        idsOf(shifted + kLookUp + "return %r : tensor<6xf32>", expands);
    EXPECT_EQ(both.limit, 8);
    EXPECT_FALSE(both.ignored);
  }
}

/// Ids plus or minus a constant, which select rows of the table.
std::string lookUpAt(const std::string &kind, const std::string &constant) {
  return "%k = dpc.constant dense<" + constant +
         "> : tensor<6xi64> -> tensor<6xi64>\n%at = dpc.binary " + kind +
         " : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>\n"
         "%rows = dpc.embedding %w, %at : (tensor<32x4xf32>, tensor<6xi64>) "
         "-> tensor<6x4xf32>\n"
         "%r = dpc.reduce sum %rows dims = [1] : tensor<6x4xf32> -> "
         "tensor<6xf32>\nreturn %r : tensor<6xf32>";
}

TEST_F(InputLimits, AConstantMovesTheBounds) {
  struct Case {
    std::string kind, constant;
    int64_t first, limit;
  };
  for (const Case &c : {Case{"add %ids, %k", "2", -2, 30},
                        {"add %k, %ids", "-5", 5, 37},
                        {"sub %ids, %k", "40", 40, 72},
                        {"sub %k, %ids", "2", 0, 0},
                        {"mul %ids, %k", "2", 0, 0},
                        {"add %ids, %k", "[0, 1, 2, 3, 4, 5]", 0, 0}}) {
    rt::Port port = idsOf(lookUpAt(c.kind, c.constant), false);
    EXPECT_EQ(port.first, c.first) << c.kind;
    EXPECT_EQ(port.limit, c.limit) << c.kind;
  }
}

TEST_F(InputLimits, UsesShareTheirBounds) {
  // Rows -2 to 29 and classes 0 to 7.
  rt::Port port =
      idsOf(loss("a", "ids", -100) + lookUpAt("add %ids, %k", "2"), true);
  EXPECT_EQ(port.first, 0);
  EXPECT_EQ(port.limit, 8);
  EXPECT_EQ(port.use, rt::InputUse::IdsAndLabels);
}

TEST_F(InputLimits, TheUseSaysWhatTheProgramReads) {
  const std::string zero = "%z = dpc.constant dense<0.0> : tensor<6xf32> -> "
                           "tensor<6xf32>\nreturn %z : tensor<6xf32>";
  for (bool expands : {false, true}) {
    EXPECT_EQ(idsOf(zero, expands).use, rt::InputUse::Unread);
    EXPECT_EQ(idsOf(kLookUp + "return %r : tensor<6xf32>", expands).use,
              rt::InputUse::Ids);
    EXPECT_EQ(
        idsOf(loss("a", "ids", -100) + "return %a : tensor<6xf32>", expands)
            .use,
        rt::InputUse::Labels);
  }
  EXPECT_EQ(idsOf(hits("{dpc.bounded, dpc.ignored = -7 : i64}"), false).use,
            rt::InputUse::Labels);
  EXPECT_EQ(idsOf(hits("{dpc.bounded}"), false).use, rt::InputUse::Data);
}

/// Labels [2, 4] of a loss that leaves out `labels` positions of them and
/// `scores` positions of its scores, all at the front.
rt::InputUse useOfLabels(MLIRContext *context, int labels, int scores) {
  std::string text =
      "func.func @forward(%s: tensor<2x4x8xf32>, %ids: tensor<2x4xi64> "
      "{dpc.name = \"ids\", dpc.role = \"input\"}) -> tensor<4xf32> {\n"
      "%few = dpc.slice %s offsets = [0, " +
      std::to_string(scores) +
      ", 0] strides = [1, 1, 1] : tensor<2x4x8xf32> -> tensor<2x2x8xf32>\n"
      "%x = dpc.reshape %few : tensor<2x2x8xf32> -> tensor<4x8xf32>\n"
      "%next = dpc.slice %ids offsets = [0, " +
      std::to_string(labels) +
      "] strides = [1, 1] : tensor<2x4xi64> -> tensor<2x2xi64>\n"
      "%flat = dpc.reshape %next : tensor<2x2xi64> -> tensor<4xi64>\n"
      "%a, %lse = dpc.cross_entropy %x, %flat ignore_index = -100 : "
      "(tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)\n"
      "return %a : tensor<4xf32>\n}";
  auto module = parseSourceString<ModuleOp>(text, context);
  EXPECT_TRUE(module) << text;
  rt::Plan plan;
  plan.inputs = {{"ids", 0, rt::DType::I64, {2, 4}, {}}};
  if (module)
    setInputUses(module->lookupSymbol<func::FuncOp>("forward"), plan);
  return plan.inputs[0].use;
}

TEST_F(InputLimits, LabelsAheadOfTheirScoresAreShifted) {
  auto use = [&](int labels, int scores) {
    return useOfLabels(context.get(), labels, scores);
  };
  EXPECT_EQ(use(0, 0), rt::InputUse::Labels);
  EXPECT_EQ(use(1, 0), rt::InputUse::ShiftedLabels);
  EXPECT_EQ(use(2, 1), rt::InputUse::ShiftedLabels);
  EXPECT_EQ(use(1, 1), rt::InputUse::Labels) << "the first is left out";
  EXPECT_EQ(use(2, 0), rt::InputUse::Data) << "neither";
  EXPECT_EQ(use(0, 1), rt::InputUse::Data) << "neither";
}

/// The use of labels that become f32 and are multiplied with scores.
TEST_F(InputLimits, TargetsOfABinaryCrossEntropyAreProbabilities) {
  for (bool isTarget : {false, true}) {
    std::string text =
        "func.func @forward(%x: tensor<6xf32>, %ids: tensor<6xi64> {dpc.name "
        "= \"ids\", dpc.role = \"input\"}) -> tensor<6xf32> {\n"
        "%y = dpc.convert %ids : tensor<6xi64> -> tensor<6xf32>\n"
        "%r = dpc.binary mul %x, %y " +
        std::string(isTarget ? "{dpc.targets = 1} " : "") +
        ": (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>\n"
        "return %r : tensor<6xf32>\n}";
    auto module = parseSourceString<ModuleOp>(text, context.get());
    ASSERT_TRUE(module) << text;
    rt::Plan plan;
    plan.inputs = {{"ids", 0, rt::DType::I64, {6}, {}}};
    setInputUses(module->lookupSymbol<func::FuncOp>("forward"), plan);
    EXPECT_EQ(plan.inputs[0].use,
              isTarget ? rt::InputUse::Probabilities : rt::InputUse::Data);
    EXPECT_EQ(plan.inputs[0].limit, 0);
  }
}

TEST_F(InputLimits, UnreadInputsAreNamedAndAreNoWeights) {
  std::string text =
      "func.func @forward(%w: tensor<4xf32> {dpc.name = \"w\", dpc.role = "
      "\"parameter\"}, %ids: tensor<6xi64> {dpc.name = \"ids\", dpc.role = "
      "\"input\"}, %x: tensor<6xf32> {dpc.name = \"x\", dpc.role = "
      "\"input\"}, %step: tensor<f32> {dpc.name = \"step\", dpc.role = "
      "\"scalar\"}) -> tensor<6xf32> {\nreturn %x : tensor<6xf32>\n}";
  auto module = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(module) << text;
  EXPECT_EQ(unreadInputs(module->lookupSymbol<func::FuncOp>("forward")),
            std::vector<std::string>{"input 'ids' is not read by the model"});
  rt::Plan plan;
  setUnreadWeights(*module, plan);
  EXPECT_EQ(plan.unreadWeights, std::vector<std::string>{"w"});
}

TEST_F(InputLimits, ComputedLabelsDoNotBoundTheInput) {
  rt::Port port = idsOf(
      "%c = dpc.constant dense<0> : tensor<6xi64> -> tensor<6xi64>\n"
      "%safe = dpc.binary maximum %ids, %c : (tensor<6xi64>, tensor<6xi64>) "
      "-> tensor<6xi64>\n" +
          loss("a", "safe", -100) + "return %a : tensor<6xf32>",
      true);
  EXPECT_EQ(port.limit, 0);
  EXPECT_FALSE(port.ignored);
}

} // namespace
