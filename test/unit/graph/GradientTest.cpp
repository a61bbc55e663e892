//===- GradientTest.cpp - Gradients against finite differences ------------===//
//
// Every op's gradient: f is a function of f64 tensors; the scalar
// sum(f(x) * w), with random weights w, is differentiated by the VJPs and by
// central differences.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Autodiff.h"
#include "test/unit/graph/GraphTest.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

/// Half the distance of the two points of a central difference.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;

/// One function body; `arguments` are types. Argument i is differentiated
/// when it is of floats and not in `constant`.
struct Case {
  std::string name;
  std::vector<std::string> arguments;
  std::string result;
  std::string body; // defines %y
  double low = -1.0, high = 1.0;
  std::vector<unsigned> constant = {};
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for it.
void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

/// func @f(args.., w) -> (sum(y * w)) with the gradients of the arguments
/// appended to the results when `withGradients`.
OwningOpRef<ModuleOp> build(const Case &c, std::vector<unsigned> &wanted,
                            bool withGradients) {
  std::string text = "func.func @f(";
  for (auto [i, type] : llvm::enumerate(c.arguments))
    text += "%a" + std::to_string(i) + ": " + type + ", ";
  text += "%w: " + c.result + ") -> tensor<f64> {\n" + c.body + "\n" +
          "  %p = dpc.binary mul %y, %w : (" + c.result + ", " + c.result +
          ") -> " + c.result + "\n";
  int64_t rank = std::count(c.result.begin(), c.result.end(), 'x');
  text += "  %s = dpc.reduce sum %p dims = [";
  for (int64_t i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(i);
  text += "] : " + c.result + " -> tensor<f64>\n  return %s : tensor<f64>\n}";
  OwningOpRef<ModuleOp> module = parse(text);
  if (!module)
    return module;
  auto func = *module->getOps<func::FuncOp>().begin();
  SmallVector<Value> sources;
  for (unsigned i = 0; i < c.arguments.size(); ++i)
    if (isFloatTensor(func.getArgument(i).getType()) &&
        !llvm::is_contained(c.constant, i)) {
      wanted.push_back(i);
      sources.push_back(func.getArgument(i));
    }
  if (!withGradients)
    return module;
  Operation *ret = func.front().getTerminator();
  OpBuilder builder(ret);
  GraphBuilder g(builder, func.getLoc());
  Value root = ret->getOperand(0);
  auto grads =
      buildGradients(builder, root, g.constantLike(root, 1.0), sources);
  EXPECT_TRUE(succeeded(grads));
  if (failed(grads))
    return module;
  for (auto [source, grad] : llvm::zip(sources, *grads)) {
    EXPECT_TRUE(grad) << "no gradient reached an argument";
    Value value = grad ? grad : g.constantLike(source, 0.0);
    ret->insertOperands(ret->getNumOperands(), value);
  }
  func.setType(FunctionType::get(&context(), func.getArgumentTypes(),
                                 ret->getOperandTypes()));
  EXPECT_TRUE(succeeded(module->verify()));
  return module;
}

class Gradient : public testing::TestWithParam<Case> {};

TEST_P(Gradient, AgreesWithFiniteDifferences) {
  std::vector<unsigned> wanted, again;
  auto plain = build(GetParam(), wanted, false);
  auto derived = build(GetParam(), again, true);
  ASSERT_TRUE(plain && derived);
  ASSERT_FALSE(wanted.empty());
  auto f = *plain->getOps<func::FuncOp>().begin();
  auto df = *derived->getOps<func::FuncOp>().begin();
  auto inputs = randomInputs(f, 7, GetParam().low, GetParam().high);
  auto results = runGlobal(df, inputs);
  ASSERT_EQ(results.size(), wanted.size() + 1);
  for (auto [slot, argument] : llvm::enumerate(wanted)) {
    const HostArray &grad = results[slot + 1];
    ASSERT_EQ(grad.shape, inputs[argument].shape);
    for (int64_t i = 0; i < grad.size(); ++i) {
      double x = inputs[argument][i];
      inputs[argument][i] = x + kStep;
      double above = runGlobal(f, inputs)[0][0];
      inputs[argument][i] = x - kStep;
      double below = runGlobal(f, inputs)[0][0];
      inputs[argument][i] = x;
      double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(grad[i], expected, kTolerance * (1 + std::abs(expected)))
          << "argument " << argument << " element " << i;
    }
  }
}

std::string unaryBody(const std::string &kind) {
  return "  %y = dpc.unary " + kind +
         " %a0 : tensor<3x4xf64> -> tensor<3x4xf64>";
}
std::string binaryBody(const std::string &kind) {
  return "  %y = dpc.binary " + kind +
         " %a0, %a1 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>";
}

std::vector<Case> elementwiseCases() {
  std::vector<Case> cases;
  const std::string t = "tensor<3x4xf64>";
  for (std::string kind : {"neg", "exp", "abs", "tanh", "sigmoid", "relu",
                           "erf", "sin", "cos", "gelu", "gelu_tanh", "silu"})
    cases.push_back({"unary_" + kind, {t}, t, unaryBody(kind)});
  for (std::string kind : {"log", "sqrt", "rsqrt", "reciprocal"})
    cases.push_back({"unary_" + kind, {t}, t, unaryBody(kind), 0.5, 2.0});
  for (std::string kind : {"add", "sub", "mul", "maximum", "minimum"})
    cases.push_back({"binary_" + kind, {t, t}, t, binaryBody(kind)});
  for (std::string kind : {"div", "pow"})
    cases.push_back({"binary_" + kind, {t, t}, t, binaryBody(kind), 0.5, 2.0});
  cases.push_back({"binary_rem", {t, t}, t, binaryBody("rem"), 0.5, 2.0});
  cases.push_back({"square",
                   {t},
                   t,
                   "  %y = dpc.binary mul %a0, %a0 : (tensor<3x4xf64>, "
                   "tensor<3x4xf64>) -> tensor<3x4xf64>"});
  cases.push_back(
      {"select",
       {t, t},
       t,
       "  %c = dpc.compare lt %a0, %a1 : (tensor<3x4xf64>, tensor<3x4xf64>) -> "
       "tensor<3x4xi1>\n  %e = dpc.unary exp %a0 : tensor<3x4xf64> -> "
       "tensor<3x4xf64>\n  %y = dpc.select %c, %e, %a1 : (tensor<3x4xi1>, "
       "tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>"});
  return cases;
}

std::vector<Case> movementCases() {
  return {
      {"broadcast",
       {"tensor<3x1xf64>"},
       "tensor<2x3x4xf64>",
       "  %y = dpc.broadcast %a0 dims = [1, 2] : tensor<3x1xf64> -> "
       "tensor<2x3x4xf64>"},
      {"reshape",
       {"tensor<2x6xf64>"},
       "tensor<3x4xf64>",
       "  %y = dpc.reshape %a0 : tensor<2x6xf64> -> tensor<3x4xf64>"},
      {"transpose",
       {"tensor<2x3x4xf64>"},
       "tensor<3x4x2xf64>",
       "  %y = dpc.transpose %a0 perm = [1, 2, 0] : tensor<2x3x4xf64> -> "
       "tensor<3x4x2xf64>"},
      {"slice",
       {"tensor<5x6xf64>"},
       "tensor<2x3xf64>",
       "  %y = dpc.slice %a0 offsets = [1, 0] strides = [2, 2] : "
       "tensor<5x6xf64> -> tensor<2x3xf64>"},
      {"pad",
       {"tensor<2x3xf64>"},
       "tensor<5x6xf64>",
       "  %y = dpc.pad %a0 low = [1, 0] strides = [2, 2] : tensor<2x3xf64> -> "
       "tensor<5x6xf64>"},
      {"concat",
       {"tensor<2x3xf64>", "tensor<2x1xf64>"},
       "tensor<2x7xf64>",
       "  %y = dpc.concat %a0, %a1, %a0 dim = 1 : (tensor<2x3xf64>, "
       "tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x7xf64>"},
      {"reduce_sum",
       {"tensor<2x3x4xf64>"},
       "tensor<3xf64>",
       "  %y = dpc.reduce sum %a0 dims = [0, 2] : tensor<2x3x4xf64> -> "
       "tensor<3xf64>"},
      {"reduce_max",
       {"tensor<3x4xf64>"},
       "tensor<3xf64>",
       "  %y = dpc.reduce max %a0 dims = [1] : tensor<3x4xf64> -> "
       "tensor<3xf64>"},
      {"reduce_min",
       {"tensor<3x4xf64>"},
       "tensor<4xf64>",
       "  %y = dpc.reduce min %a0 dims = [0] : tensor<3x4xf64> -> "
       "tensor<4xf64>"},
      {"reduce_prod",
       {"tensor<3x4xf64>"},
       "tensor<3xf64>",
       "  %y = dpc.reduce prod %a0 dims = [1] : tensor<3x4xf64> -> "
       "tensor<3xf64>"},
      {"embedding",
       {"tensor<4x3xf64>", "tensor<2x5xi64>"},
       "tensor<2x5x3xf64>",
       "  %y = dpc.embedding %a0, %a1 : (tensor<4x3xf64>, tensor<2x5xi64>) -> "
       "tensor<2x5x3xf64>"},
  };
}

/// All combinations of ta and tb of a matmul [2x3] [3x4], batched and not.
std::vector<Case> matmulCases() {
  std::vector<Case> cases;
  for (std::string batch : {"", "5x", "2x2x"})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        std::string a = "tensor<" + batch + (ta ? "3x2xf64>" : "2x3xf64>");
        std::string b = "tensor<" + batch + (tb ? "4x3xf64>" : "3x4xf64>");
        std::string y = "tensor<" + batch + "2x4xf64>";
        cases.push_back({std::string("matmul_") +
                             (batch.empty()      ? ""
                              : batch.size() > 2 ? "bb"
                                                 : "b") +
                             (ta ? "ta" : "") + (tb ? "tb" : ""),
                         {a, b},
                         y,
                         "  %y = dpc.matmul %a0, %a1" +
                             std::string(ta ? " ta" : "") + (tb ? " tb" : "") +
                             " : (" + a + ", " + b + ") -> " + y});
      }
  for (bool tb : {false, true}) {
    std::string b = tb ? "tensor<4x3xf64>" : "tensor<3x4xf64>";
    cases.push_back(
        {std::string("matmul_shared") + (tb ? "_tb" : ""),
         {"tensor<5x2x3xf64>", b},
         "tensor<5x2x4xf64>",
         "  %y = dpc.matmul %a0, %a1" + std::string(tb ? " tb" : "") +
             " : (tensor<5x2x3xf64>, " + b + ") -> tensor<5x2x4xf64>"});
  }
  return cases;
}

std::string attention(const std::string &mask, const std::string &causal) {
  return "  %y, %l = dpc.attention %a0, %a1, %a2" +
         std::string(mask.empty() ? "" : " mask %a3") + " scale = 0.4" +
         causal +
         " : (tensor<2x4x3x5xf64>, tensor<2x2x4x5xf64>, tensor<2x2x4x6xf64>" +
         (mask.empty() ? "" : ", " + mask) +
         ") -> (tensor<2x4x3x6xf64>, tensor<2x4x3xf64>)";
}

std::vector<Case> attentionCases() {
  const std::string out = "tensor<2x4x3x6xf64>";
  std::vector<std::string> qkv = {"tensor<2x4x3x5xf64>", "tensor<2x2x4x5xf64>",
                                  "tensor<2x2x4x6xf64>"};
  std::vector<std::string> masked = qkv;
  masked.push_back("tensor<2x1x1x4xf64>");
  std::vector<std::string> whole = qkv;
  whole.push_back("tensor<2x4x3x4xf64>");
  // The second query sees no key: nothing, its mask included, has a gradient.
  std::vector<std::string> hidden = qkv;
  hidden.push_back("tensor<1x1x3x4xf64>");
  std::string row = "[0.0, 0.0, 0.0, 0.0]";
  std::string none = "[0xFFF0000000000000, 0xFFF0000000000000, "
                     "0xFFF0000000000000, 0xFFF0000000000000]";
  std::string hides = "  %h = dpc.constant dense<[[[" + row + ", " + none +
                      ", " + row + "]]]> : " + hidden[3] + " -> " + hidden[3] +
                      "\n  %m = dpc.binary add %a3, %h : (" + hidden[3] + ", " +
                      hidden[3] + ") -> " + hidden[3] + "\n";
  std::string unseen = attention(hidden[3], "");
  unseen.replace(unseen.find("mask %a3"), 8, "mask %m");
  return {
      {"attention", qkv, out, attention("", "")},
      {"attention_causal", qkv, out, attention("", " causal")},
      {"attention_mask", masked, out, attention(masked[3], "")},
      {"attention_mask_hidden", hidden, out, hides + unseen},
      {"attention_mask_causal", whole, out, attention(whole[3], " causal")},
  };
}

std::vector<Case> rowCases() {
  const std::string x = "tensor<2x3x4xf64>", w = "tensor<4xf64>",
                    m = "tensor<2x3xf64>";
  std::string results = " -> (" + x + ", " + m + ", " + m + ")";
  return {
      {"softmax", {x}, x, "  %y = dpc.softmax %a0 : " + x + " -> " + x},
      {"layer_norm",
       {x, w, w},
       x,
       "  %y, %m, %r = dpc.norm layer %a0 scale %a1 bias %a2 eps = 1.0e-5 : (" +
           x + ", " + w + ", " + w + ")" + results},
      {"layer_norm_plain",
       {x},
       x,
       "  %y, %m, %r = dpc.norm layer %a0 eps = 1.0e-5 : (" + x + ")" +
           results},
      {"layer_norm_bias",
       {x, w},
       x,
       "  %y, %m, %r = dpc.norm layer %a0 bias %a1 eps = 1.0e-5 : (" + x +
           ", " + w + ")" + results},
      {"rms_norm",
       {x, w},
       x,
       "  %y, %m, %r = dpc.norm rms %a0 scale %a1 eps = 1.0e-5 : (" + x + ", " +
           w + ")" + results},
      {"rope",
       {x, "tensor<3x4xf64>", "tensor<3x4xf64>"},
       x,
       "  %y = dpc.rope %a0, %a1, %a2 : (" + x +
           ", tensor<3x4xf64>, tensor<3x4xf64>) -> " + x},
      {"rope_inverse",
       {x, "tensor<3x4xf64>", "tensor<3x4xf64>"},
       x,
       "  %y = dpc.rope %a0, %a1, %a2 inverse : (" + x +
           ", tensor<3x4xf64>, tensor<3x4xf64>) -> " + x},
      {"cross_entropy",
       {"tensor<6x4xf64>", "tensor<6xi64>"},
       "tensor<6xf64>",
       "  %y, %l = dpc.cross_entropy %a0, %a1 ignore_index = 2 : "
       "(tensor<6x4xf64>, tensor<6xi64>) -> (tensor<6xf64>, tensor<6xf64>)"},
      {"used_twice",
       {"tensor<4x3xf64>", "tensor<5xi64>"},
       "tensor<5x4xf64>",
       "  %e = dpc.embedding %a0, %a1 : (tensor<4x3xf64>, tensor<5xi64>) -> "
       "tensor<5x3xf64>\n  %y = dpc.matmul %e, %a0 tb : (tensor<5x3xf64>, "
       "tensor<4x3xf64>) -> tensor<5x4xf64>"},
  };
}

/// A strided, padded, dilated conv over groups, and the ops of its gradient.
std::vector<Case> spatialCases() {
  std::string x = "tensor<2x4x5x4xf64>", w = "tensor<6x2x3x2xf64>",
              y = "tensor<2x6x3x4xf64>";
  std::string window = " strides = [2, 1] pads = [1, 0, 1, 2] dilations = "
                       "[1, 2] : (";
  std::string signal = "tensor<3x2x6xf64>", pooled = "tensor<3x2x3xf64>";
  return {
      {"conv",
       {x, w},
       y,
       "  %y = dpc.conv %a0, %a1" + window + x + ", " + w + ") -> " + y},
      {"conv_grad_input",
       {y, w},
       x,
       "  %y = dpc.conv_grad_input %a0, %a1" + window + y + ", " + w + ") -> " +
           x},
      {"conv_grad_filter",
       {y, x},
       w,
       "  %y = dpc.conv_grad_filter %a0, %a1" + window + y + ", " + x +
           ") -> " + w},
      {"conv_depthwise_1d",
       {signal, "tensor<2x1x3xf64>"},
       signal,
       "  %y = dpc.conv %a0, %a1 strides = [1] pads = [1, 1] dilations = [1] "
       ": (" +
           signal + ", tensor<2x1x3xf64>) -> " + signal},
      {"max_pool",
       {signal},
       pooled,
       "  %y, %i = dpc.max_pool %a0 kernel = [3] strides = [2] pads = [1, 0] "
       "dilations = [1] : " +
           signal + " -> (" + pooled + ", tensor<3x2x3xi32>)"},
      {"batch_norm",
       {signal, "tensor<2xf64>", "tensor<2xf64>"},
       signal,
       "  %y, %m, %v = dpc.batch_norm %a0, %a1, %a2 eps = 1.0e-1 : (" + signal +
           ", tensor<2xf64>, tensor<2xf64>) -> (" + signal +
           ", tensor<2xf64>, tensor<2xf64>)"},
  };
}

std::vector<Case> selectionCases() {
  const std::string x = "tensor<2x3x4xf64>";
  return {
      {"topk",
       {x},
       "tensor<2x3x2xf64>",
       "  %y, %i = dpc.topk %a0 : " + x +
           " -> tensor<2x3x2xf64>, tensor<2x3x2xi64>"},
      {"topk_smallest",
       {x},
       "tensor<2x3x3xf64>",
       "  %y, %i = dpc.topk %a0 smallest : " + x +
           " -> tensor<2x3x3xf64>, tensor<2x3x3xi64>"},
      {"cumsum", {x}, x, "  %y = dpc.cumsum %a0 : " + x + " -> " + x},
      {"cumsum_exclusive_reverse",
       {x},
       x,
       "  %y = dpc.cumsum %a0 exclusive reverse : " + x + " -> " + x},
  };
}

auto nameOf = [](const testing::TestParamInfo<Case> &info) {
  return info.param.name;
};
INSTANTIATE_TEST_SUITE_P(Elementwise, Gradient,
                         testing::ValuesIn(elementwiseCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Movement, Gradient, testing::ValuesIn(movementCases()),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Matmul, Gradient, testing::ValuesIn(matmulCases()),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Attention, Gradient,
                         testing::ValuesIn(attentionCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Selection, Gradient,
                         testing::ValuesIn(selectionCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Rows, Gradient, testing::ValuesIn(rowCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Spatial, Gradient, testing::ValuesIn(spatialCases()),
                         nameOf);

TEST(GradientOfMaximum, TiesShareEvenly) {
  Case c{"tie",
         {"tensor<2xf64>", "tensor<2xf64>"},
         "tensor<2xf64>",
         "  %y = dpc.binary maximum %a0, %a1 : (tensor<2xf64>, tensor<2xf64>) "
         "-> tensor<2xf64>"};
  std::vector<unsigned> wanted;
  auto module = build(c, wanted, true);
  HostArray a({2}), w({2}, 1.0);
  auto results = runGlobal(*module->getOps<func::FuncOp>().begin(), {a, a, w});
  EXPECT_EQ(results[1].data, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(results[2].data, (std::vector<double>{0.5, 0.5}));
}

TEST(GradientOfAStop, PassesTheOtherFactorOnly) {
  Case c{"stop",
         {"tensor<2xf64>"},
         "tensor<2xf64>",
         "  %t = dpc.convert %a0 {dpc.stop_gradient} : tensor<2xf64> -> "
         "tensor<2xf64>\n  %y = dpc.binary mul %a0, %t : (tensor<2xf64>, "
         "tensor<2xf64>) -> tensor<2xf64>"};
  std::vector<unsigned> wanted;
  auto module = build(c, wanted, true);
  HostArray a({2}, 3.0), w({2}, 1.0);
  auto results = runGlobal(*module->getOps<func::FuncOp>().begin(), {a, w});
  EXPECT_EQ(results[1].data, (std::vector<double>{3.0, 3.0}));
}

} // namespace
