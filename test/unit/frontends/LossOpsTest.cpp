//===- LossOpsTest.cpp - Losses and the indices that they accept ----------===//
//
// The host interpreter of test/support runs each model; the expected numbers
// are calculated by hand.
//
//===----------------------------------------------------------------------===//
#include "test/unit/frontends/ModelBuilder.h"

#include <cmath>

using namespace dpc;
using namespace dpc::test;

namespace {

/// The cross entropy of scores (a, b) with the label 0.
double rowLoss(double a, double b) { return std::log1p(std::exp(b - a)); }

std::vector<HostArray> loss(const std::string &reduction, bool ignore,
                            bool weights) {
  ModelBuilder m;
  m.input("s", "f32[2,2,2]").input("l", "i64[2,2]").input("w", "f32[2]");
  Attrs attrs = {{"reduction", reduction}};
  if (ignore)
    attrs.push_back({"ignore_index", int64_t(-1)});
  m.node(std::string("SoftmaxCrossEntropyLoss s l ") + (weights ? "w" : "_") +
             " -> y",
         attrs);
  // The rows of the scores [N, C, d] are (0, 2), (1, 3), (4, 6), (5, 9).
  return evaluate(m.output("y"), {array({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 9}),
                                  array({2, 2}, {0, 1, ignore ? -1. : 1., 0}),
                                  array({2}, {1, 3})});
}

TEST(OnnxLosses, CrossEntropy) {
  double a = rowLoss(0, 2), b = rowLoss(3, 1), c = rowLoss(6, 4),
         d = rowLoss(5, 9);
  expectNear(loss("none", false, false)[0], array({2, 2}, {a, b, c, d}), 1e-5);
  expectNear(loss("sum", true, false)[0], array({}, {a + b + d}), 1e-5);
  expectNear(loss("mean", false, false)[0], array({}, {(a + b + c + d) / 4}),
             1e-5);
  expectNear(loss("mean", true, false)[0], array({}, {(a + b + d) / 3}), 1e-5);
  expectNear(loss("mean", true, true)[0], array({}, {(a + 3 * b + d) / 5}),
             1e-5);
}

TEST(OnnxLosses, NegativeLogLikelihood) {
  ModelBuilder m;
  m.input("s", "f32[3,2]").input("l", "i64[3]");
  m.node("NegativeLogLikelihoodLoss s l -> y", {{"ignore_index", int64_t(1)}});
  expectNear(evaluate(m.output("y"), {array({3, 2}, {-1, -2, -3, -4, -5, -6}),
                                      array({3}, {0, 1, 0})})[0],
             array({}, {3}));
}

TEST(OnnxLosses, OnlyIgnoreIndexMayBeNoClass) {
  for (const char *loss :
       {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"})
    for (bool ignores : {false, true}) {
      SCOPED_TRACE(std::string(loss) + (ignores ? " ignores" : ""));
      ModelBuilder m;
      m.input("s", "f32[3,2]").input("l", "i64[3]");
      m.node(std::string(loss) + " s l -> y",
             ignores ? Attrs{{"ignore_index", int64_t(-7)}} : Attrs{});
      Imported imported = import(m.output("y"));
      ASSERT_EQ(imported.error, "");
      int bounded = 0, ignored = 0;
      imported.function().walk([&](mlir::Operation *op) {
        bounded += op->hasAttr(attr::kBounded);
        auto label = op->getAttrOfType<mlir::IntegerAttr>(attr::kIgnored);
        ignored += label && label.getInt() == -7;
        if (auto rows = mlir::dyn_cast<CrossEntropyOp>(op))
          ignored += static_cast<int64_t>(rows.getIgnoreIndex()) == -7;
      });
      bool compares = loss == llvm::StringRef("NegativeLogLikelihoodLoss");
      EXPECT_EQ(bounded, compares || !ignores);
      EXPECT_EQ(ignored, ignores);
    }
}

TEST(OnnxLosses, IndicesThatCountFromTheEndAreNotBounded) {
  ModelBuilder m;
  m.input("x", "f32[2,3]").input("i", "i64[1,3]").scalar("depth", 3);
  m.floats("v", {2}, {0.0f, 1.0f});
  m.node("GatherElements x i -> y").node("OneHot i depth v -> z");
  Imported imported = import(m.output("y").output("z"));
  ASSERT_EQ(imported.error, "");
  imported.function().walk(
      [](mlir::Operation *op) { EXPECT_FALSE(op->hasAttr(attr::kBounded)); });
}

} // namespace
