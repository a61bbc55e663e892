//===- EvaluationModeTest.cpp - dropout and batch norm of a file ----------===//
#include "ir/Attributes.h"
#include "test/unit/frontends/ModelBuilder.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::test;

namespace {

/// Returns what the module says of ops in evaluation mode, or "".
std::string evaluationModeOf(const ModelBuilder &m) {
  Imported imported = import(m);
  EXPECT_TRUE(imported.module) << imported.error;
  if (!imported.module)
    return "";
  auto text = (*imported.module)
                  ->getAttrOfType<mlir::StringAttr>(attr::kEvaluationMode);
  return text ? text.getValue().str() : "";
}

TEST(OnnxOps, EvaluationModeIsNoted) {
  auto model = [](int dropouts, int norms, bool trains) {
    ModelBuilder m(15);
    m.input("x0", "f32[2,1]").floats("ratio", {}, {.5f});
    m.scalar("one", 1).scalar("none", 0);
    m.node("Cast one -> on", {{"to", int64_t(9)}});
    m.node("Cast none -> off", {{"to", int64_t(9)}});
    m.floats("bn.scale", {1}, {3}).floats("bn.bias", {1}, {1});
    m.floats("bn.mean", {1}, {10}).floats("bn.var", {1}, {4});
    std::string x = "x0";
    int count = 0;
    auto next = [&](const std::string &op, const std::string &others) {
      std::string y = "x" + std::to_string(++count);
      m.node(op + " " + x + " " + others + " -> " + y);
      x = y;
    };
    for (int i = 0; i < dropouts; ++i)
      next("Dropout", "ratio off");
    for (int i = 0; i < norms; ++i)
      next("BatchNormalization", "bn.scale bn.bias bn.mean bn.var");
    if (trains)
      next("Dropout", "ratio on");
    m.node("Neg " + x + " -> y").output("y");
    return evaluationModeOf(m);
  };
  EXPECT_EQ(model(0, 0, false), "");
  EXPECT_EQ(model(2, 0, false), "dropout is off (2 ops)");
  EXPECT_EQ(model(0, 1, false),
            "batch normalization uses running statistics (1 op)");
  EXPECT_EQ(model(1, 2, false), "dropout is off (1 op), batch normalization "
                                "uses running statistics (2 ops)");
  EXPECT_EQ(model(1, 2, true), "") << "frozen parts of a model that trains";
}

/// Before operator set 12, a Dropout is always in evaluation mode.
TEST(OnnxOps, OldDropoutsAreOff) {
  for (double ratio : {0.5, 0.0}) {
    ModelBuilder m(11);
    m.input("x", "f32[2]");
    m.node("Dropout x -> y", {{"ratio", ratio}}).output("y");
    EXPECT_EQ(evaluationModeOf(m), ratio > 0 ? "dropout is off (1 op)" : "");
  }
}

TEST(OnnxOps, MixedModesAreSaid) {
  auto remarks = [](const std::vector<std::string> &modes, bool evaluates) {
    ModelBuilder m(15);
    m.input("x0", "f32[2,1]").floats("ratio", {}, {.5f});
    m.scalar("one", 1).scalar("none", 0);
    m.node("Cast one -> on", {{"to", int64_t(9)}});
    m.node("Cast none -> off", {{"to", int64_t(9)}});
    for (const auto &[i, mode] : llvm::enumerate(modes))
      m.node("Dropout x" + std::to_string(i) + " ratio " + mode + " -> x" +
             std::to_string(i + 1));
    m.node("Neg x" + std::to_string(modes.size()) + " -> y").output("y");
    ImportOptions options;
    options.evaluates = evaluates;
    Imported imported = import(m, options);
    EXPECT_TRUE(imported.module) << imported.error;
    return imported.remarks;
  };
  using Remarks = std::vector<std::string>;
  EXPECT_EQ(remarks({"off", "off"}, false), Remarks());
  EXPECT_EQ(remarks({"on", "on"}, false), Remarks());
  EXPECT_EQ(remarks({"off", "on", "on"}, false),
            Remarks{"1 of 3 dropouts is off, as after .eval(), and the others "
                    "are in training mode"});
  EXPECT_EQ(remarks({"off", "on", "on"}, true), Remarks());
}

} // namespace
