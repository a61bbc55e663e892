//===- GradientTest.cpp - Gradients against finite differences ------------===//
//
// For each op, f is a function of f64 tensors. The VJPs and central differences
// both differentiate the scalar sum(f(x) * w), where w are random weights.
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

/// A function whose arguments have the types `arguments`. All float arguments
/// are differentiated.
struct Case {
  std::string name;
  std::vector<std::string> arguments;
  std::string result;
  std::string body; // defines %y
  double low = -1.0, high = 1.0;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for it.
void PrintTo(const Case &c, std::ostream *os) { *os << c.name; }

/// Builds func @f(args.., w) -> sum(y * w). With `withGradients`, @f also
/// returns the gradients of the arguments `wanted`.
OwningOpRef<ModuleOp> build(const Case &c, std::vector<unsigned> &wanted,
                            bool withGradients) {
  std::string text = "func.func @f(";
  for (auto [i, type] : llvm::enumerate(c.arguments))
    text += "%a" + std::to_string(i) + ": " + type + ", ";
  text += "%w: " + c.result + ") -> tensor<f64> {\n" + c.body + "\n" +
          "  %p = dpc.binary mul %y, %w : (" + c.result + ", " + c.result +
          ") -> " + c.result + "\n";
  auto dims = llvm::seq<int64_t>(0, llvm::count(c.result, 'x'));
  text += "  %s = dpc.reduce sum %p dims = [";
  llvm::interleave(
      dims, [&](int64_t dim) { text += std::to_string(dim); },
      [&] { text += ", "; });
  text += "] : " + c.result + " -> tensor<f64>\n  return %s : tensor<f64>\n}";
  OwningOpRef<ModuleOp> module = parse(text);
  if (!module)
    return module;
  auto func = *module->getOps<func::FuncOp>().begin();
  SmallVector<Value> sources;
  for (unsigned i = 0; i < c.arguments.size(); ++i)
    if (isFloatTensor(func.getArgument(i).getType())) {
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

/// Returns a case with one op. `others` are results after the first.
Case one(const std::string &name, const std::string &op,
         const std::vector<std::string> &arguments, const std::string &result,
         const std::vector<std::string> &others = {}, double low = -1.0,
         double high = 1.0) {
  std::string values = "%y", from = llvm::join(arguments, ", "), to = result;
  for (auto [i, type] : llvm::enumerate(others)) {
    values += ", %r" + std::to_string(i);
    to += ", " + type;
  }
  if (arguments.size() > 1 || !others.empty())
    from = "(" + from + ")";
  if (!others.empty())
    to = "(" + to + ")";
  return {name,   arguments,
          result, "  " + values + " = " + op + " : " + from + " -> " + to,
          low,    high};
}

std::vector<Case> elementwiseCases() {
  std::vector<Case> cases;
  const std::string t = "tensor<3x4xf64>";
  auto add = [&](const char *op, const std::string &kind, double low,
                 double high) {
    bool isUnary = StringRef(op) == "unary";
    cases.push_back(one(std::string(op) + "_" + kind,
                        std::string("dpc.") + op + " " + kind +
                            (isUnary ? " %a0" : " %a0, %a1"),
                        std::vector(isUnary ? 1 : 2, t), t, {}, low, high));
  };
  for (const char *kind : {"neg", "exp", "abs", "tanh", "sigmoid", "relu",
                           "erf", "sin", "cos", "gelu", "gelu_tanh", "silu"})
    add("unary", kind, -1, 1);
  for (const char *kind : {"log", "sqrt", "rsqrt", "reciprocal"})
    add("unary", kind, 0.5, 2);
  for (const char *kind : {"add", "sub", "mul", "maximum", "minimum"})
    add("binary", kind, -1, 1);
  for (const char *kind : {"div", "pow", "rem"})
    add("binary", kind, 0.5, 2);
  std::string two = " : (" + t + ", " + t + ") -> ";
  cases.push_back(
      {"square", {t}, t, "  %y = dpc.binary mul %a0, %a0" + two + t});
  cases.push_back({"select",
                   {t, t},
                   t,
                   "  %c = dpc.compare lt %a0, %a1" + two +
                       "tensor<3x4xi1>\n  %e = dpc.unary exp %a0 : " + t +
                       " -> " + t +
                       "\n  %y = dpc.select %c, %e, %a1 : (tensor<3x4xi1>, " +
                       t + ", " + t + ") -> " + t});
  return cases;
}

std::vector<Case> movementCases() {
  const std::string x = "tensor<2x3x4xf64>", m = "tensor<3x4xf64>",
                    small = "tensor<2x3xf64>", large = "tensor<5x6xf64>";
  Case concat{"concat",
              {small, "tensor<2x1xf64>"},
              "tensor<2x7xf64>",
              "  %y = dpc.concat %a0, %a1, %a0 dim = 1 : (tensor<2x3xf64>, "
              "tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x7xf64>"};
  return {
      one("broadcast", "dpc.broadcast %a0 dims = [1, 2]", {"tensor<3x1xf64>"},
          x),
      one("reshape", "dpc.reshape %a0", {"tensor<2x6xf64>"}, m),
      one("transpose", "dpc.transpose %a0 perm = [1, 2, 0]", {x},
          "tensor<3x4x2xf64>"),
      one("slice", "dpc.slice %a0 offsets = [1, 0] strides = [2, 2]", {large},
          small),
      one("pad", "dpc.pad %a0 low = [1, 0] strides = [2, 2]", {small}, large),
      concat,
      one("reduce_sum", "dpc.reduce sum %a0 dims = [0, 2]", {x},
          "tensor<3xf64>"),
      one("reduce_max", "dpc.reduce max %a0 dims = [1]", {m}, "tensor<3xf64>"),
      one("reduce_min", "dpc.reduce min %a0 dims = [0]", {m}, "tensor<4xf64>"),
      one("reduce_prod", "dpc.reduce prod %a0 dims = [1]", {m},
          "tensor<3xf64>"),
      one("embedding", "dpc.embedding %a0, %a1",
          {"tensor<4x3xf64>", "tensor<2x5xi64>"}, "tensor<2x5x3xf64>"),
      one("embedding_grad", "dpc.embedding_grad %a0, %a1",
          {"tensor<2x5xi64>", "tensor<2x5x3xf64>"}, "tensor<4x3xf64>"),
      one("expert_matmul", "dpc.expert_matmul %a0, %a1, %a2",
          {"tensor<5x3xf64>", "tensor<5xi64>", "tensor<4x3x2xf64>"},
          "tensor<5x2xf64>"),
      one("expert_matmul_choices", "dpc.expert_matmul %a0, %a1, %a2 tb",
          {"tensor<5x3xf64>", "tensor<5x2xi64>", "tensor<4x2x3xf64>"},
          "tensor<5x2x2xf64>"),
  };
}

std::vector<Case> matmulCases() {
  std::vector<Case> cases;
  auto add = [&](const std::string &name, const std::string &batchA,
                 const std::string &batchB, bool ta, bool tb) {
    cases.push_back(one("matmul_" + name,
                        std::string("dpc.matmul %a0, %a1") + (ta ? " ta" : "") +
                            (tb ? " tb" : ""),
                        {"tensor<" + batchA + (ta ? "3x2xf64>" : "2x3xf64>"),
                         "tensor<" + batchB + (tb ? "4x3xf64>" : "3x4xf64>")},
                        "tensor<" + batchA + "2x4xf64>"));
  };
  for (auto [name, batch] :
       {std::pair("", ""), std::pair("b", "5x"), std::pair("bb", "2x2x")})
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        add(std::string(name) + (ta ? "ta" : "") + (tb ? "tb" : ""), batch,
            batch, ta, tb);
  add("shared", "5x", "", false, false);
  add("shared_tb", "5x", "", false, true);
  return cases;
}

std::vector<Case> attentionCases() {
  auto attention = [](const std::string &name, const std::string &maskType,
                      const std::string &options) {
    std::vector<std::string> arguments = {
        "tensor<2x4x3x5xf64>", "tensor<2x2x4x5xf64>", "tensor<2x2x4x6xf64>"};
    if (!maskType.empty())
      arguments.push_back(maskType);
    return one(name, "dpc.attention %a0, %a1, %a2" + options, arguments,
               "tensor<2x4x3x6xf64>", {"tensor<2x4x3xf64>"});
  };
  // The mask hides all keys from the second query, so the query gives no
  // gradients.
  std::string type = "tensor<1x1x3x4xf64>", row = "[0.0, 0.0, 0.0, 0.0]";
  std::string none = "[0xFFF0000000000000, 0xFFF0000000000000, "
                     "0xFFF0000000000000, 0xFFF0000000000000]";
  Case hidden =
      attention("attention_mask_hidden", type, " mask %m scale = 0.4");
  hidden.body = "  %h = dpc.constant dense<[[[" + row + ", " + none + ", " +
                row + "]]]> : " + type + " -> " + type +
                "\n  %m = dpc.binary add %a3, %h : (" + type + ", " + type +
                ") -> " + type + "\n" + hidden.body;
  return {
      attention("attention", "", " scale = 0.4"),
      attention("attention_causal", "", " scale = 0.4 causal"),
      attention("attention_mask", "tensor<2x1x1x4xf64>",
                " mask %a3 scale = 0.4"),
      hidden,
      attention("attention_mask_causal", "tensor<2x4x3x4xf64>",
                " mask %a3 scale = 0.4 causal"),
      attention("attention_sinks", "tensor<4xf64>",
                " sinks %a3 scale = 0.4 causal"),
      attention("attention_window", "", " scale = 0.4 causal window = 2"),
      attention("attention_mask_window", "tensor<2x4x3x4xf64>",
                " mask %a3 scale = 0.4 window = 2"),
  };
}

std::vector<Case> rowCases() {
  const std::string x = "tensor<2x3x4xf64>", w = "tensor<4xf64>",
                    m = "tensor<2x3xf64>", table = "tensor<3x4xf64>";
  const std::string ids = "tensor<5xi64>", weight = "tensor<4x3xf64>",
                    eps = " eps = 1.0e-5";
  return {
      one("softmax", "dpc.softmax %a0", {x}, x),
      one("layer_norm", "dpc.norm layer %a0 scale %a1 bias %a2" + eps,
          {x, w, w}, x, {m, m}),
      one("layer_norm_plain", "dpc.norm layer %a0" + eps, {x}, x, {m, m}),
      one("layer_norm_bias", "dpc.norm layer %a0 bias %a1" + eps, {x, w}, x,
          {m, m}),
      one("rms_norm", "dpc.norm rms %a0 scale %a1" + eps, {x, w}, x, {m, m}),
      one("rope", "dpc.rope %a0, %a1, %a2", {x, table, table}, x),
      one("rope_inverse", "dpc.rope %a0, %a1, %a2 inverse", {x, table, table},
          x),
      one("cross_entropy", "dpc.cross_entropy %a0, %a1 ignore_index = 2",
          {"tensor<6x4xf64>", "tensor<6xi64>"}, "tensor<6xf64>",
          {"tensor<6xf64>"}),
      {"used_twice",
       {weight, ids},
       "tensor<5x4xf64>",
       "  %e = dpc.embedding %a0, %a1 : (" + weight + ", " + ids +
           ") -> tensor<5x3xf64>\n  %y = dpc.matmul %e, %a0 tb : "
           "(tensor<5x3xf64>, " +
           weight + ") -> tensor<5x4xf64>"},
  };
}

std::vector<Case> spatialCases() {
  std::string x = "tensor<2x4x5x4xf64>", w = "tensor<6x2x3x2xf64>",
              y = "tensor<2x6x3x4xf64>", channels = "tensor<2xf64>";
  std::string window =
      " strides = [2, 1] pads = [1, 0, 1, 2] dilations = [1, 2]";
  std::string signal = "tensor<3x2x6xf64>", pooled = "tensor<3x2x3xf64>";
  return {
      one("conv", "dpc.conv %a0, %a1" + window, {x, w}, y),
      one("conv_grad_input", "dpc.conv_grad_input %a0, %a1" + window, {y, w},
          x),
      one("conv_grad_filter", "dpc.conv_grad_filter %a0, %a1" + window, {y, x},
          w),
      one("conv_depthwise_1d",
          "dpc.conv %a0, %a1 strides = [1] pads = [1, 1] dilations = [1]",
          {signal, "tensor<2x1x3xf64>"}, signal),
      {"max_pool",
       {signal},
       pooled,
       "  %y, %i = dpc.max_pool %a0 kernel = [3] strides = [2] pads = [1, 0] "
       "dilations = [1] : " +
           signal + " -> (" + pooled + ", tensor<3x2x3xi32>)"},
      one("batch_norm", "dpc.batch_norm %a0, %a1, %a2 eps = 1.0e-1",
          {signal, channels, channels}, signal, {channels, channels}),
  };
}

std::vector<Case> selectionCases() {
  const std::string x = "tensor<2x3x4xf64>";
  auto topk = [&](const std::string &name, const std::string &option,
                  const std::string &size) {
    std::string type = "tensor<2x3x" + size + "x";
    return Case{name,
                {x},
                type + "f64>",
                "  %y, %i = dpc.topk %a0" + option + " : " + x + " -> " + type +
                    "f64>, " + type + "i64>"};
  };
  return {
      topk("topk", "", "2"),
      topk("topk_smallest", " smallest", "3"),
      one("cumsum", "dpc.cumsum %a0", {x}, x),
      one("cumsum_exclusive_reverse", "dpc.cumsum %a0 exclusive reverse", {x},
          x),
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

/// Returns the gradients of sum(y) where all elements of all arguments are
/// `value`.
std::vector<HostArray> gradientsAt(const Case &c, double value) {
  std::vector<unsigned> wanted;
  auto module = build(c, wanted, true);
  std::vector<HostArray> inputs(c.arguments.size(), HostArray({2}, value));
  inputs.push_back(HostArray({2}, 1.0));
  auto results = runGlobal(*module->getOps<func::FuncOp>().begin(), inputs);
  results.erase(results.begin());
  return results;
}

TEST(GradientOfMaximum, TiesShareEvenly) {
  const std::string t = "tensor<2xf64>";
  auto grads =
      gradientsAt(one("tie", "dpc.binary maximum %a0, %a1", {t, t}, t), 0.0);
  EXPECT_EQ(grads[0].data, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(grads[1].data, (std::vector<double>{0.5, 0.5}));
}

TEST(GradientOfAStop, PassesTheOtherFactorOnly) {
  Case c{"stop",
         {"tensor<2xf64>"},
         "tensor<2xf64>",
         "  %t = dpc.convert %a0 {dpc.stop_gradient} : tensor<2xf64> -> "
         "tensor<2xf64>\n  %y = dpc.binary mul %a0, %t : (tensor<2xf64>, "
         "tensor<2xf64>) -> tensor<2xf64>"};
  EXPECT_EQ(gradientsAt(c, 3.0)[0].data, (std::vector<double>{3.0, 3.0}));
}

} // namespace
