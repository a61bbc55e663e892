//===- TrainStepTest.cpp - dpc-differentiate as a whole -------------------===//
#include "test/unit/graph/GraphTest.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

/// loss = sum((w x - t)^2) / 4 for vectors w, x and t, so
/// d loss / d w_i = (w_i x_i - t_i) x_i / 2.
const char *kModel = R"(
func.func @forward(%x: tensor<4xf64> {dpc.name = "x", dpc.role = "input"},
                   %w: tensor<4xf64> {dpc.name = "w", dpc.role = "parameter"},
                   %t: tensor<4xf64> {dpc.name = "t", dpc.role = "input"})
    -> (tensor<f64> {dpc.loss}) {
  %0 = dpc.binary mul %w, %x : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  %1 = dpc.binary sub %0, %t : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  %2 = dpc.binary mul %1, %1 : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  %3 = dpc.reduce sum %2 dims = [0] : tensor<4xf64> -> tensor<f64>
  %c = dpc.constant dense<2.5e-1> : tensor<f64> -> tensor<f64>
  %4 = dpc.binary mul %3, %c : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %4 : tensor<f64>
})";

const std::vector<double> kX = {1, 2, -1, 0.5}, kW = {0.3, -0.2, 0.8, 1.5},
                          kT = {1, 0, -1, 2};

HostArray vec(const std::vector<double> &values) {
  HostArray array({static_cast<int64_t>(values.size())});
  array.data = values;
  return array;
}

HostArray scalar(double value) { return HostArray({}, value); }

std::vector<double> expectedGradient() {
  std::vector<double> grad;
  for (int i = 0; i < 4; ++i)
    grad.push_back((kW[i] * kX[i] - kT[i]) * kX[i] / 2);
  return grad;
}

double norm(const std::vector<double> &v) {
  double sum = 0;
  for (double x : v)
    sum += x * x;
  return std::sqrt(sum);
}

/// kW - lr * `gradient`.
HostArray updated(double lr, const std::vector<double> &gradient) {
  HostArray result = vec(kW);
  for (int i = 0; i < 4; ++i)
    result[i] -= lr * gradient[i];
  return result;
}

func::FuncOp trainStep(ModuleOp module, const std::string &options) {
  EXPECT_TRUE(runPasses(module, "dpc-differentiate{" + options + "}"));
  EXPECT_FALSE(module.lookupSymbol("forward"));
  return module.lookupSymbol<func::FuncOp>("train_step");
}

/// Returns (w, loss, grad_norm) after one step of SGD without momentum.
std::vector<HostArray> sgdStep(const std::string &options) {
  auto module = parse(kModel);
  auto step = trainStep(*module, "optimizer=sgd " + options);
  EXPECT_EQ(step.getNumArguments(), 5u) << "no state without momentum";
  return runGlobal(step, {vec(kW), vec(kX), vec(kT), scalar(0.5), scalar(1)});
}

TEST(TrainStep, AdamWMatchesPyTorchOverTwoSteps) {
  auto module = parse(kModel);
  auto step = trainStep(
      *module, "optimizer=adamw beta1=0.8 beta2=0.9 eps=1e-6 weight-decay=0.1");
  ASSERT_TRUE(step);
  // (w, w.exp_avg, w.exp_avg_sq, x, t, lr, step)
  //   -> (w, exp_avg, exp_avg_sq, loss, grad_norm)
  ASSERT_EQ(step.getNumArguments(), 7u);
  ASSERT_EQ(step.getNumResults(), 5u);
  double lr = 0.01;
  std::vector<double> p = kW, m(4, 0), v(4, 0);
  std::vector<HostArray> state = {vec(kW), HostArray({4}), HostArray({4})};
  for (int t = 1; t <= 2; ++t) {
    auto results = runGlobal(step, {state[0], state[1], state[2], vec(kX),
                                    vec(kT), scalar(lr), scalar(t)});
    std::vector<double> grad;
    double loss = 0;
    for (int i = 0; i < 4; ++i) {
      double residual = p[i] * kX[i] - kT[i];
      loss += residual * residual / 4;
      grad.push_back(residual * kX[i] / 2);
    }
    for (int i = 0; i < 4; ++i) {
      p[i] *= 1 - lr * 0.1;
      m[i] = 0.8 * m[i] + 0.2 * grad[i];
      v[i] = 0.9 * v[i] + 0.1 * grad[i] * grad[i];
      double mHat = m[i] / (1 - std::pow(0.8, t));
      double vHat = v[i] / (1 - std::pow(0.9, t));
      p[i] -= lr * mHat / (std::sqrt(vHat) + 1e-6);
    }
    EXPECT_NEAR(results[3][0], loss, 1e-12);
    EXPECT_NEAR(results[4][0], norm(grad), 1e-7);
    EXPECT_LT(distance(results[0], vec(p)), 1e-7);
    EXPECT_LT(distance(results[1], vec(m)), 1e-7);
    EXPECT_LT(distance(results[2], vec(v)), 1e-7);
    state = {results[0], results[1], results[2]};
  }
}

TEST(TrainStep, ClippingScalesTheUpdateAndNotTheReportedNorm) {
  auto results = sgdStep("clip-grad-norm=0.25");
  std::vector<double> grad = expectedGradient();
  double size = norm(grad);
  ASSERT_GT(size, 0.25);
  EXPECT_LT(distance(results[0], updated(0.5 * 0.25 / (size + 1e-6), grad)),
            1e-7);
  EXPECT_NEAR(results[2][0], size, 1e-7);
}

/// The loss scale does not affect updates. If a gradient overflows, only the
/// scale and the counters change.
TEST(TrainStep, OverflowSkipsTheStepAndHalvesTheScale) {
  auto module = parse(kModel);
  auto step = trainStep(*module, "optimizer=sgd clip-grad-norm=0.25 "
                                 "loss-scale=64 loss-scale-interval=2");
  ASSERT_TRUE(step);
  // (w, scale, streak, skipped, x, t, lr, step)
  //   -> (w, scale, streak, skipped, loss, grad_norm, loss_scale, skipped)
  ASSERT_EQ(step.getNumArguments(), 8u);
  ASSERT_EQ(step.getNumResults(), 8u);
  struct Row {
    bool overflows;
    double scale, streak, skipped; // after the step
  };
  std::vector<double> grad = expectedGradient();
  HostArray next = updated(0.5 * 0.25 / (norm(grad) + 1e-6), grad);
  double scale = 64, streak = 0, skipped = 0;
  for (const Row &row : {Row{false, 64, 1, 0}, Row{true, 32, 0, 1},
                         Row{false, 32, 1, 1}, Row{false, 64, 0, 1}}) {
    std::vector<double> x = kX;
    if (row.overflows)
      x[1] = std::numeric_limits<double>::infinity();
    auto results = runGlobal(step, {vec(kW), scalar(scale), scalar(streak),
                                    scalar(skipped), vec(x), vec(kT),
                                    scalar(0.5), scalar(1)});
    EXPECT_LT(distance(results[0], row.overflows ? vec(kW) : next), 1e-7);
    EXPECT_EQ(results[6][0], scale) << "the scale of this step";
    EXPECT_EQ(results[7][0], row.overflows);
    scale = results[1][0];
    streak = results[2][0];
    skipped = results[3][0];
    EXPECT_EQ(scale, row.scale);
    EXPECT_EQ(streak, row.streak);
    EXPECT_EQ(skipped, row.skipped);
    if (!row.overflows)
      EXPECT_NEAR(results[5][0], norm(grad), 1e-7);
  }
}

TEST(TrainStep, SmallGradientsAreNotClipped) {
  auto results = sgdStep("clip-grad-norm=100");
  EXPECT_LT(distance(results[0], updated(0.5, expectedGradient())), 1e-7);
}

TEST(TrainStep, SgdMomentumAndWeightDecay) {
  auto module = parse(kModel);
  auto step =
      trainStep(*module, "optimizer=sgd momentum=0.9 weight-decay=0.01");
  ASSERT_TRUE(step);
  std::vector<double> buffer = {0.1, -0.2, 0.3, 0.4}, p, b;
  auto results = runGlobal(
      step, {vec(kW), vec(buffer), vec(kX), vec(kT), scalar(0.5), scalar(3)});
  for (int i = 0; i < 4; ++i) {
    b.push_back(0.9 * buffer[i] + expectedGradient()[i] + 0.01 * kW[i]);
    p.push_back(kW[i] - 0.5 * b[i]);
  }
  EXPECT_LT(distance(results[0], vec(p)), 1e-7);
  EXPECT_LT(distance(results[1], vec(b)), 1e-7);
}

/// A model with one layer. The embedding table is also the weight of the
/// logits.
const char *kLanguageModel = R"(
func.func @forward(%w: tensor<5x4xf64> {dpc.name = "w", dpc.role = "parameter"},
                   %ids: tensor<2x3xi64> {dpc.name = "ids", dpc.role = "input"})
    -> (tensor<2x3x5xf64> {dpc.name = "logits"}) {
  %0 = dpc.embedding %w, %ids : (tensor<5x4xf64>, tensor<2x3xi64>) -> tensor<2x3x4xf64>
  %1 = dpc.unary gelu %0 : tensor<2x3x4xf64> -> tensor<2x3x4xf64>
  %2 = dpc.matmul %1, %w tb : (tensor<2x3x4xf64>, tensor<5x4xf64>) -> tensor<2x3x5xf64>
  return %2 : tensor<2x3x5xf64>
})";

TEST(TrainStep, TiedWeightsAndIgnoredLabelsAgreeWithFiniteDifferences) {
  auto forwardModule = parse(kLanguageModel);
  ASSERT_TRUE(runPasses(*forwardModule, "dpc-append-loss"));
  auto forward = forwardModule->lookupSymbol<func::FuncOp>("forward");
  auto inputs = randomInputs(forward, 3, -1, 1, 5);
  inputs[2][1] = -100; // an ignored label

  auto module = parse(kLanguageModel);
  ASSERT_TRUE(runPasses(*module, "dpc-append-loss,dpc-differentiate{"
                                 "optimizer=sgd},func.func(dpc-expand-cross-"
                                 "entropy,dpc-simplify)"));
  EXPECT_EQ(countOps(*module, "dpc.cross_entropy"), 0);
  auto step = module->lookupSymbol<func::FuncOp>("train_step");
  auto results = runGlobal(
      step, {inputs[0], inputs[1], inputs[2], scalar(1.0), scalar(1)});
  EXPECT_NEAR(results[1][0], runGlobal(forward, inputs)[1][0], 1e-12);
  double squares = 0;
  for (int64_t i = 0; i < inputs[0].size(); ++i) {
    auto moved = inputs;
    moved[0][i] += 1e-5;
    double above = runGlobal(forward, moved)[1][0];
    moved[0][i] -= 2e-5;
    double below = runGlobal(forward, moved)[1][0];
    double expected = (above - below) / 2e-5;
    squares += expected * expected;
    EXPECT_NEAR(inputs[0][i] - results[0][i], expected, 1e-7);
  }
  EXPECT_NEAR(results[2][0], std::sqrt(squares), 1e-7);
}

TEST(TrainStep, ExpandedCrossEntropyIsTheSame) {
  const char *text = R"(
func.func @f(%x: tensor<6x5xf64>, %l: tensor<6xi64>) -> (tensor<6xf64>, tensor<6xf64>) {
  %0, %1 = dpc.cross_entropy %x, %l ignore_index = 2 : (tensor<6x5xf64>, tensor<6xi64>) -> (tensor<6xf64>, tensor<6xf64>)
  return %0, %1 : tensor<6xf64>, tensor<6xf64>
})";
  auto before = parse(text), after = parse(text);
  ASSERT_TRUE(runPasses(*after, "func.func(dpc-expand-cross-entropy)"));
  auto f = before->lookupSymbol<func::FuncOp>("f");
  auto inputs = randomInputs(f, 5, -30, 30, 5);
  inputs[1][0] = 2;
  auto expected = runGlobal(f, inputs);
  auto actual = runGlobal(after->lookupSymbol<func::FuncOp>("f"), inputs);
  EXPECT_EQ(actual[0][0], 0.0);
  EXPECT_LT(distance(actual[0], expected[0]), 1e-12);
  EXPECT_LT(distance(actual[1], expected[1]), 1e-12);
}

} // namespace
