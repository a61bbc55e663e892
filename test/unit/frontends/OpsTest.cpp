//===- OpsTest.cpp - Values of imported operators -------------------------===//
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

/// Runs one node, written with inputs x0, x1, .. and output y.
HostArray run(const std::string &text, const std::vector<HostArray> &inputs,
              Attrs attrs = {}, int64_t opset = 17) {
  ModelBuilder m(opset);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string type = "f32[";
    for (size_t d = 0; d < inputs[i].shape.size(); ++d)
      type += (d ? "," : "") + std::to_string(inputs[i].shape[d]);
    m.input("x" + std::to_string(i), type + "]");
  }
  m.node(text, std::move(attrs)).output("y");
  return evaluate(m, inputs)[0];
}

HostArray vec(std::vector<double> data) {
  auto n = static_cast<int64_t>(data.size());
  return array({n}, std::move(data));
}

TEST(OnnxOps, Broadcasting) {
  HostArray a = array({2, 1}, {1, 2}), b = vec({10, 20, 30});
  expectNear(run("Add x0 x1 -> y", {a, b}),
             array({2, 3}, {11, 21, 31, 12, 22, 32}));
  expectNear(run("Sub x1 x0 -> y", {a, b}),
             array({2, 3}, {9, 19, 29, 8, 18, 28}));
  expectNear(run("Max x0 x1 x0 -> y", {vec({1, 5}), vec({3, 4})}), vec({3, 5}));
  expectNear(run("Mean x0 x1 -> y", {vec({1, 5}), vec({3, 4})}), vec({2, 4.5}));
}

TEST(OnnxOps, Activations) {
  HostArray x = vec({-2, -0.5, 0, 3});
  auto expect = [&](const std::string &op, double (*f)(double),
                    Attrs attrs = {}) {
    HostArray want = x;
    for (double &v : want.data)
      v = f(v);
    SCOPED_TRACE(op);
    expectNear(run(op + " x0 -> y", {x}, std::move(attrs), 20), want, 1e-5);
  };
  expect("Relu", [](double v) { return std::max(v, 0.0); });
  expect("LeakyRelu", [](double v) { return v < 0 ? 0.01 * v : v; });
  expect("Elu", [](double v) { return v < 0 ? std::expm1(v) : v; });
  expect("Softplus", [](double v) { return std::log1p(std::exp(v)); });
  expect("Mish",
         [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  expect("HardSwish",
         [](double v) { return v * std::clamp(v / 6 + 0.5, 0.0, 1.0); });
  expect("Softsign", [](double v) { return v / (1 + std::fabs(v)); });
  expect("Gelu",
         [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  expect("Gelu",
         [](double v) {
           double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
           return 0.5 * v * (1 + std::tanh(u));
         },
         {{"approximate", std::string("tanh")}});
  expect("Swish", [](double v) { return v / (1 + std::exp(-2 * v)); },
         {{"alpha", 2.0}});
}

TEST(OnnxOps, Clip) {
  expectNear(
      run("Clip x0 -> y", {vec({-3, 1, 9})}, {{"min", -1.0}, {"max", 2.0}}, 9),
      vec({-1, 1, 2}));
  ModelBuilder m;
  m.input("x", "f32[3]").floats("high", {}, {2.0f});
  m.node("Clip x _ high -> y").output("y");
  expectNear(evaluate(m, {vec({-3, 1, 9})})[0], vec({-3, 1, 2}));
}

TEST(OnnxOps, IntegerMod) {
  ModelBuilder m;
  m.input("a", "i64[4]").input("b", "i64[4]").node("Mod a b -> y");
  expectNear(
      evaluate(m.output("y"), {vec({5, -5, 5, -6}), vec({3, 3, -3, 3})})[0],
      vec({2, 1, -1, 0}));
}

TEST(OnnxOps, WhereBroadcastsAll) {
  ModelBuilder m;
  m.input("c", "i1[2,1]").input("a", "f32[3]").input("b", "f32[]");
  m.node("Where c a b -> y").output("y");
  expectNear(
      evaluate(m, {array({2, 1}, {1, 0}), vec({1, 2, 3}), array({}, {9})})[0],
      array({2, 3}, {1, 2, 3, 9, 9, 9}));
}

TEST(OnnxOps, MatMulRanks) {
  HostArray matrix = array({2, 3}, {1, 2, 3, 4, 5, 6});
  expectNear(run("MatMul x0 x1 -> y", {matrix, vec({1, 0, -1})}),
             vec({-2, -2}));
  expectNear(run("MatMul x0 x1 -> y", {vec({1, -1}), matrix}),
             vec({-3, -3, -3}));
  expectNear(run("MatMul x0 x1 -> y", {vec({1, 2}), vec({3, 4})}),
             array({}, {11}));
  // Batch dimensions of both operands are broadcast.
  HostArray a = array({2, 1, 1, 2}, {1, 2, 3, 4});
  HostArray b = array({2, 2, 1}, {1, 1, 1, -1});
  expectNear(run("MatMul x0 x1 -> y", {a, b}),
             array({2, 2, 1, 1}, {3, -1, 7, -1}));
  // One matrix multiplies every matrix of a batch.
  expectNear(run("MatMul x0 x1 -> y", {array({1, 2}, {1, 2}), b}),
             array({2, 1, 1}, {3, -1}));
}

TEST(OnnxOps, Gemm) {
  HostArray a = array({2, 1}, {1, 2}), b = array({3, 2}, {1, 2, 3, 4, 5, 6});
  expectNear(run("Gemm x0 x1 x2 -> y", {a, b, array({1, 1}, {10})},
                 {{"transA", int64_t(1)},
                  {"transB", int64_t(1)},
                  {"alpha", 2.0},
                  {"beta", 0.5}}),
             array({1, 3}, {15, 27, 39}));
}

TEST(OnnxOps, Einsum) {
  auto einsum = [](const std::string &equation, std::vector<HostArray> in) {
    std::string text = "Einsum";
    for (size_t i = 0; i < in.size(); ++i)
      text += " x" + std::to_string(i);
    return run(text + " -> y", in, {{"equation", equation}});
  };
  HostArray a = array({2, 3}, {1, 2, 3, 4, 5, 6}), v = vec({1, 10});
  expectNear(einsum("i,ij->ji", {v, a}), array({3, 2}, {1, 40, 2, 50, 3, 60}));
  expectNear(einsum("ij,kj->ik", {a, a}), array({2, 2}, {14, 32, 32, 77}));
  expectNear(einsum("i,j->ij", {v, v}), array({2, 2}, {1, 10, 10, 100}));
  expectNear(einsum("ij->j", {a}), vec({5, 7, 9}));
  expectNear(einsum("ij,ij", {a, a}), array({}, {91}));
  expectNear(einsum("bi,bj,j->bi", {a, a, vec({1, 0, 0})}),
             array({2, 3}, {1, 2, 3, 16, 20, 24}));
  // Contracts with a batch dimension and permutes the result.
  expectNear(einsum("bij,bj->ib", {array({2, 1, 2}, {1, 2, 3, 4}),
                                   array({2, 2}, {1, 1, 1, -1})}),
             array({1, 2}, {3, -1}));
}

// A mixture of experts multiplies tokens by the weights of each expert, then by
// other weights and by gates. The cheapest contraction comes first.
TEST(OnnxOps, EinsumOverExperts) {
  HostArray x = array({2, 2}, {1, 2, 3, 4});
  HostArray w = array({2, 2, 1}, {1, 0, 0, 1}), gate = vec({1, 10, 2, 0});
  gate.shape = {2, 2};
  expectNear(run("Einsum x0 x1 -> y", {x, w},
                 {{"equation", std::string("td,edf->etf")}}),
             array({2, 2, 1}, {1, 3, 2, 4}));
  expectNear(run("Einsum x0 x1 -> y", {w, x},
                 {{"equation", std::string("edf,td->fte")}}),
             array({1, 2, 2}, {1, 2, 3, 4}));
  HostArray h = array({2, 2, 1}, {1, 3, 2, 4});
  HostArray back = array({2, 1, 2}, {1, 1, 1, -1});
  expectNear(run("Einsum x0 x1 x2 -> y", {h, back, gate},
                 {{"equation", std::string("etf,efd,te->td")}}),
             array({2, 2}, {21, -19, 6, 6}));
  ModelBuilder m;
  m.input("x", "f32[8,4]").input("w", "f32[3,4,5]");
  m.node("Einsum x w -> y", {{"equation", std::string("td,edf->etf")}});
  std::string text = import(m.output("y")).text;
  EXPECT_EQ(text.find("dpc.transpose"), std::string::npos) << text;
}

TEST(OnnxOps, TopKOfAnyDimension) {
  ModelBuilder m;
  m.input("x", "f32[3,2]").ints("k", {2});
  m.node("TopK x k -> v i", {{"axis", int64_t(0)}}).output("v").output("i");
  auto top = evaluate(m, {array({3, 2}, {1, 9, 5, 9, 3, 2})});
  expectNear(top[0], array({2, 2}, {5, 9, 3, 9}));
  expectNear(top[1], array({2, 2}, {1, 0, 2, 1}));
  expectNear(run("TopK x0 -> y _", {vec({4, 1, 2})}, {{"k", int64_t(1)}}, 9),
             vec({4}));
  ModelBuilder least;
  least.input("x", "f32[4]").ints("k", {2});
  least.node("TopK x k -> v i", {{"largest", int64_t(0)}}).output("i");
  expectNear(evaluate(least, {vec({4, 1, 2, 1})})[0], vec({1, 3}));
}

TEST(OnnxOps, CumSumDirections) {
  auto cumsum = [](int64_t axis, int64_t exclusive, int64_t reverse) {
    ModelBuilder m;
    m.input("x", "f32[2,3]").scalar("axis", axis);
    m.node("CumSum x axis -> y",
           {{"exclusive", exclusive}, {"reverse", reverse}});
    return evaluate(m.output("y"), {array({2, 3}, {1, 2, 3, 4, 5, 6})})[0];
  };
  expectNear(cumsum(1, 0, 0), array({2, 3}, {1, 3, 6, 4, 9, 15}));
  expectNear(cumsum(-2, 1, 0), array({2, 3}, {0, 0, 0, 1, 2, 3}));
  expectNear(cumsum(1, 0, 1), array({2, 3}, {6, 5, 3, 15, 11, 6}));
}

TEST(OnnxOps, GatherElements) {
  ModelBuilder m;
  m.input("x", "f32[2,3]").input("i", "i64[1,3]").input("j", "i64[2,2]");
  m.node("GatherElements x i -> y", {{"axis", int64_t(0)}});
  m.node("GatherElements x j -> z", {{"axis", int64_t(1)}});
  auto got = evaluate(m.output("y").output("z"),
                      {array({2, 3}, {1, 2, 3, 4, 5, 6}),
                       array({1, 3}, {1, 0, -1}), array({2, 2}, {2, 2, 0, 1})});
  expectNear(got[0], array({1, 3}, {4, 2, 6}));
  expectNear(got[1], array({2, 2}, {3, 3, 4, 5}));
}

TEST(OnnxOps, ScatterElements) {
  auto scatter = [](const std::string &reduction, std::vector<double> indices) {
    ModelBuilder m(18);
    m.input("x", "f32[2,4]").input("i", "i64[1,2]").input("u", "f32[1,2]");
    m.node("ScatterElements x i u -> y",
           {{"axis", int64_t(1)}, {"reduction", reduction}});
    return evaluate(m.output("y"), {array({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                    array({1, 2}, std::move(indices)),
                                    array({1, 2}, {10, -20})})[0];
  };
  expectNear(scatter("none", {2, 0}),
             array({2, 4}, {-20, 2, 10, 4, 5, 6, 7, 8}));
  expectNear(scatter("add", {1, 1}), array({2, 4}, {1, -8, 3, 4, 5, 6, 7, 8}));
  expectNear(scatter("mul", {-1, 0}),
             array({2, 4}, {-20, 2, 3, 40, 5, 6, 7, 8}));
  expectNear(scatter("max", {3, 3}), array({2, 4}, {1, 2, 3, 10, 5, 6, 7, 8}));
  expectNear(scatter("min", {3, 3}), array({2, 4}, {1, 2, 3, -20, 5, 6, 7, 8}));
}

TEST(OnnxOps, SoftmaxAxes) {
  HostArray x = array({2, 2}, {0, 0, std::log(3.0), 0});
  expectNear(run("Softmax x0 -> y", {x}), array({2, 2}, {.5, .5, .75, .25}),
             1e-6);
  expectNear(run("Softmax x0 -> y", {x}, {{"axis", int64_t(0)}}),
             array({2, 2}, {.25, .5, .75, .5}), 1e-6);
  expectNear(
      run("LogSoftmax x0 -> y", {x}),
      array({2, 2}, {std::log(.5), std::log(.5), std::log(.75), std::log(.25)}),
      1e-6);
  // Before operator set 13, axis 0 makes the whole tensor one row.
  expectNear(run("Softmax x0 -> y", {x}, {{"axis", int64_t(0)}}, 11),
             array({2, 2}, {1 / 6., 1 / 6., .5, 1 / 6.}), 1e-6);
}

TEST(OnnxOps, LayerNormOverTwoDimensions) {
  HostArray x = array({1, 2, 2}, {1, 2, 3, 4});
  HostArray scale = array({2, 2}, {1, 1, 2, 2}),
            bias = array({2, 2}, {0, 0, 0, 1});
  double s = std::sqrt(1.25);
  expectNear(run("LayerNormalization x0 x1 x2 -> y", {x, scale, bias},
                 {{"axis", int64_t(1)}, {"epsilon", 0.0}}),
             array({1, 2, 2}, {-1.5 / s, -.5 / s, 1 / s, 3 / s + 1}), 1e-5);
  expectNear(run("RMSNormalization x0 x1 -> y", {vec({3, 4}), vec({1, 2})},
                 {{"epsilon", 0.0}}, 23),
             vec({3 / std::sqrt(12.5), 8 / std::sqrt(12.5)}), 1e-5);
}

TEST(OnnxOps, Convolutions) {
  HostArray x = array({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostArray w = array({2, 2, 2}, {1, 1, 0, 0, 0, 0, 1, -1});
  expectNear(run("Conv x0 x1 x2 -> y", {x, w, vec({0, 10})}),
             array({1, 2, 3}, {3, 5, 7, 9, 9, 9}));
  using Ints = std::vector<int64_t>;
  expectNear(run("Conv x0 x1 -> y", {x, w},
                 {{"strides", Ints{2}}, {"pads", Ints{1, 1}}}),
             array({1, 2, 3}, {1, 5, 4, -5, -1, 8}));
  // SAME keeps the length: one zero is added after the end or before the start.
  expectNear(
      run("Conv x0 x1 -> y", {x, w}, {{"auto_pad", std::string("SAME_UPPER")}}),
      array({1, 2, 4}, {3, 5, 7, 4, -1, -1, -1, 8}));
  expectNear(
      run("Conv x0 x1 -> y", {x, w}, {{"auto_pad", std::string("SAME_LOWER")}}),
      array({1, 2, 4}, {1, 3, 5, 7, -5, -1, -1, -1}));
  expectNear(run("Conv x0 x1 -> y", {x, array({2, 1, 2}, {1, 0, 0, 1})},
                 {{"group", int64_t(2)}, {"dilations", Ints{3}}}),
             array({1, 2, 1}, {1, 8}));
  expectNear(run("ConvTranspose x0 x1 -> y",
                 {array({1, 1, 2}, {1, 2}), array({1, 1, 3}, {1, 10, 100})},
                 {{"strides", Ints{2}}, {"output_padding", Ints{1}}}),
             array({1, 1, 6}, {1, 10, 102, 20, 200, 0}));
}

TEST(OnnxOps, Pools) {
  using Ints = std::vector<int64_t>;
  HostArray x = array({1, 1, 2, 5}, {1, 2, 3, 4, 5, 9, 8, 7, 6, 5});
  Attrs window = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{1, 2}}};
  expectNear(run("MaxPool x0 -> y", {x}, window), array({1, 1, 1, 2}, {9, 7}));
  Attrs ceil = window;
  ceil.push_back({"ceil_mode", int64_t(1)});
  expectNear(run("MaxPool x0 -> y", {x}, ceil), array({1, 1, 1, 3}, {9, 7, 5}));
  expectNear(run("AveragePool x0 -> y", {x}, window),
             array({1, 1, 1, 2}, {5, 5}));
  // An average does not count positions that ceil_mode adds. It counts padding
  // only if count_include_pad is set.
  expectNear(run("AveragePool x0 -> y", {x}, ceil, 19),
             array({1, 1, 1, 3}, {5, 5, 5}));
  Attrs padded = {{"kernel_shape", Ints{1, 2}},
                  {"strides", Ints{1, 3}},
                  {"pads", Ints{0, 1, 0, 0}}};
  expectNear(run("AveragePool x0 -> y", {x}, padded),
             array({1, 1, 2, 2}, {1, 3.5, 9, 6.5}));
  padded.push_back({"count_include_pad", int64_t(1)});
  expectNear(run("AveragePool x0 -> y", {x}, padded),
             array({1, 1, 2, 2}, {.5, 3.5, 4.5, 6.5}));
  expectNear(run("GlobalAveragePool x0 -> y", {x}), array({1, 1, 1, 1}, {5}));
  expectNear(run("GlobalMaxPool x0 -> y", {x}), array({1, 1, 1, 1}, {9}));
}

TEST(OnnxOps, BatchNormByRunningStatistics) {
  expectNear(run("BatchNormalization x0 x1 x2 x3 x4 -> y",
                 {array({1, 2, 2}, {1, 2, 3, 5}), vec({1, 2}), vec({0, 1}),
                  vec({1, 3}), vec({4, 1})},
                 {{"epsilon", 0.0}}),
             array({1, 2, 2}, {0, .5, 1, 5}));
}

// As after .eval(): the running statistics normalize, and do not change.
TEST(OnnxOps, InferenceNormalizesByRunningStatistics) {
  ModelBuilder m(15);
  m.input("x", "f32[2,1]");
  m.floats("bn.scale", {1}, {3}).floats("bn.bias", {1}, {1});
  m.floats("bn.mean", {1}, {10}).floats("bn.var", {1}, {4});
  m.node("BatchNormalization x bn.scale bn.bias bn.mean bn.var -> y m v",
         {{"training_mode", int64_t(1)}, {"epsilon", 0.0}});
  m.output("y");
  ImportOptions options;
  options.evaluates = true;
  Imported imported = import(m, options);
  ASSERT_TRUE(imported.module) << imported.error;
  mlir::func::FuncOp f = imported.function();
  ASSERT_EQ(f.getNumResults(), 1u);
  auto results =
      runGlobal(f, {array({1}, {3}), array({1}, {1}), array({1}, {10}),
                    array({1}, {4}), array({2, 1}, {12, 8})});
  expectNear(results[0], array({2, 1}, {4, -2}));
  auto text =
      (*imported.module)->getAttrOfType<mlir::StringAttr>(attr::kEvaluation);
  ASSERT_TRUE(text);
  EXPECT_EQ(text.getValue(), "batch norm by running statistics");
}

// As after .eval(): nothing is dropped, and the mask keeps all elements.
TEST(OnnxOps, InferenceDropsNothing) {
  ModelBuilder m;
  m.input("x", "f32[2]").floats("ratio", {}, {.5f}).scalar("on", 1);
  m.node("Cast on -> t", {{"to", int64_t(9)}});
  m.node("Dropout x ratio t -> y mask");
  m.node("Where mask y x -> z").output("y").output("z");
  ImportOptions options;
  options.evaluates = true;
  Imported imported = import(m, options);
  ASSERT_TRUE(imported.module) << imported.error;
  mlir::func::FuncOp f = imported.function();
  ASSERT_EQ(f.getNumArguments(), 1u); // no step number
  auto results = runGlobal(f, {vec({3, 4})});
  expectNear(results[0], vec({3, 4}));
  expectNear(results[1], vec({3, 4}));
  auto text =
      (*imported.module)->getAttrOfType<mlir::StringAttr>(attr::kEvaluation);
  ASSERT_TRUE(text);
  EXPECT_EQ(text.getValue(), "dropout off");
}

// The batch has mean 2 and variance 1. The function also returns the new
// running statistics, which are tied to the buffers.
TEST(OnnxOps, BatchNormMovesItsRunningStatistics) {
  ModelBuilder m(15);
  m.input("x", "f32[2,1]");
  m.floats("bn.scale", {1}, {3}).floats("bn.bias", {1}, {1});
  m.floats("bn.mean", {1}, {10}).floats("bn.var", {1}, {20});
  m.node("BatchNormalization x bn.scale bn.bias bn.mean bn.var -> y m v",
         {{"training_mode", int64_t(1)}, {"momentum", .5}, {"epsilon", 0.0}});
  m.output("y");
  Imported imported = import(m);
  ASSERT_TRUE(imported.module) << imported.error;
  mlir::func::FuncOp f = imported.function();
  ASSERT_EQ(f.getNumResults(), 3u);
  auto results =
      runGlobal(f, {array({1}, {3}), array({1}, {1}), array({1}, {10}),
                    array({1}, {20}), array({2, 1}, {1, 3})});
  expectNear(results[0], array({2, 1}, {-2, 4}));
  expectNear(results[1], vec({6}));    // (10 + 2) / 2
  expectNear(results[2], vec({10.5})); // (20 + 1) / 2
  for (unsigned i : {1u, 2u}) {
    auto tie = f.getResultAttrOfType<mlir::IntegerAttr>(i, attr::kTies);
    ASSERT_TRUE(tie);
    EXPECT_EQ(f.getArgAttrOfType<mlir::StringAttr>(tie.getInt(), attr::kName),
              i == 1 ? "bn.mean" : "bn.var");
    EXPECT_EQ(f.getArgAttrOfType<mlir::StringAttr>(tie.getInt(), attr::kRole),
              role::kBuffer);
  }
}

TEST(OnnxOps, Reductions) {
  HostArray x = array({2, 3}, {1, 2, 3, 4, 5, 6});
  auto reduce = [&](const std::string &op, std::vector<int64_t> axes) {
    return run(op + " x0 -> y", {x}, {{"axes", axes}, {"keepdims", int64_t(0)}},
               11);
  };
  expectNear(reduce("ReduceSum", {-1}), vec({6, 15}));
  expectNear(reduce("ReduceMean", {0}), vec({2.5, 3.5, 4.5}));
  expectNear(reduce("ReduceMax", {0, 1}), array({}, {6}));
  expectNear(reduce("ReduceMin", {1}), vec({1, 4}));
  expectNear(reduce("ReduceL2", {1}), vec({std::sqrt(14.), std::sqrt(77.)}),
             1e-5);
  expectNear(reduce("ReduceLogSumExp", {1}),
             vec({3 + std::log(1 + std::exp(-1.) + std::exp(-2.)),
                  6 + std::log(1 + std::exp(-1.) + std::exp(-2.))}),
             1e-5);
  expectNear(run("ReduceSum x0 -> y", {x}), array({1, 1}, {21}));
  expectNear(
      run("ReduceSum x0 -> y", {x}, {{"noop_with_empty_axes", int64_t(1)}}, 18),
      x);
}

TEST(OnnxOps, GatherByData) {
  ModelBuilder m;
  m.input("table", "f32[2,3,2]").input("ids", "i64[2]");
  m.node("Gather table ids -> y", {{"axis", int64_t(1)}}).output("y");
  HostArray table({2, 3, 2});
  for (int64_t n = 0; n < table.size(); ++n)
    table[n] = static_cast<double>(n);
  expectNear(evaluate(m, {table, vec({2, 0})})[0],
             array({2, 2, 2}, {4, 5, 0, 1, 10, 11, 6, 7}));
}

/// A weight is the first argument.
TEST(OnnxOps, GatherOfAWeightByComputedIndices) {
  auto gather = [](const std::string &node, std::vector<double> ids) {
    ModelBuilder m;
    m.input("ids", "i64[3]").scalar("two", 2);
    m.floats("w", {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    m.node(node).node("Gather w rows -> y").output("y");
    Imported imported = import(m);
    EXPECT_EQ(imported.error, "");
    return runGlobal(
        imported.function(),
        {array({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), vec(std::move(ids))})[0];
  };
  expectNear(gather("Mul ids two -> rows", {1, -1, -2}),
             array({3, 2}, {4, 5, 4, 5, 0, 1}));
  expectNear(gather("Sub ids two -> rows", {0, 1, 5}),
             array({3, 2}, {4, 5, 6, 7, 6, 7}));
}

TEST(OnnxOps, GatherByConstants) {
  auto gather = [](std::vector<int64_t> ids) {
    ModelBuilder m;
    m.input("x", "f32[5]").ints("ids", ids);
    m.node("Gather x ids -> y").output("y");
    return evaluate(m, {vec({0, 1, 2, 3, 4})})[0];
  };
  expectNear(gather({1, 2, 3}), vec({1, 2, 3}));
  expectNear(gather({0, 2, 4}), vec({0, 2, 4}));
  expectNear(gather({4, -5, 1}), vec({4, 0, 1}));
}

TEST(OnnxOps, OneHot) {
  ModelBuilder m;
  m.input("ids", "i64[3]").scalar("depth", 3).floats("v", {2}, {0.0f, 5.0f});
  m.node("OneHot ids depth v -> y", {{"axis", int64_t(0)}}).output("y");
  Imported imported = import(m);
  ASSERT_EQ(imported.error, "");
  // The values of OneHot are an initializer, hence a parameter, which is the
  // first argument.
  expectNear(runGlobal(imported.function(), {vec({0, 5}), vec({1, -1, 0})})[0],
             array({3, 3}, {0, 0, 5, 5, 0, 0, 0, 5, 0}));
}

TEST(OnnxOps, Slices) {
  auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> ends,
                  std::vector<int64_t> axes, std::vector<int64_t> steps) {
    ModelBuilder m;
    m.input("x", "f32[2,4]").ints("s", starts).ints("e", ends);
    m.ints("a", axes).ints("t", steps);
    m.node("Slice x s e a t -> y").output("y");
    return evaluate(m, {array({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})})[0];
  };
  expectNear(slice({1}, {INT64_MAX}, {-1}, {2}), array({2, 2}, {1, 3, 5, 7}));
  expectNear(slice({-1, -3}, {9, -1}, {0, 1}, {1, 1}), array({1, 2}, {5, 6}));
}

TEST(OnnxOps, SplitUneven) {
  ModelBuilder m(18);
  m.input("x", "f32[5]");
  m.node("Split x -> a b", {{"num_outputs", int64_t(2)}});
  auto parts = evaluate(m.output("a").output("b"), {vec({1, 2, 3, 4, 5})});
  expectNear(parts[0], vec({1, 2, 3}));
  expectNear(parts[1], vec({4, 5}));
}

TEST(OnnxOps, Sequences) {
  // PyTorch's exporter writes x.split(2)[-1] like this.
  ModelBuilder m;
  m.input("x", "f32[5]").scalar("two", 2).scalar("last", -1);
  m.node("SplitToSequence x two -> s").node("SequenceAt s last -> a");
  m.node("ConcatFromSequence s -> b", {{"axis", int64_t(0)}});
  m.node("SequenceLength s -> n").output("a").output("b").output("n");
  HostArray x = vec({1, 2, 3, 4, 5});
  auto y = evaluate(m, {x});
  expectNear(y[0], vec({5}));
  expectNear(y[1], x);
  expectNear(y[2], array({}, {3}));
}

TEST(OnnxOps, TileExpandPad) {
  ModelBuilder m;
  m.input("x", "f32[1,2]")
      .ints("r", {2, 2})
      .ints("s", {2, 1})
      .ints("p", {0, 1, 1, 0});
  m.node("Tile x r -> a").node("Expand x s -> b").node("Pad x p -> c");
  auto y =
      evaluate(m.output("a").output("b").output("c"), {array({1, 2}, {1, 2})});
  expectNear(y[0], array({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}));
  expectNear(y[1], array({2, 2}, {1, 2, 1, 2}));
  expectNear(y[2], array({2, 3}, {0, 1, 2, 0, 0, 0}));
}

TEST(OnnxOps, TriluOfData) {
  HostArray x = array({2, 3}, {1, 2, 3, 4, 5, 6});
  expectNear(run("Trilu x0 -> y", {x}), array({2, 3}, {1, 2, 3, 0, 5, 6}));
  expectNear(run("Trilu x0 -> y", {x}, {{"upper", int64_t(0)}}),
             array({2, 3}, {1, 0, 0, 4, 5, 0}));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

TEST(OnnxOps, CausalAttentionWithMoreKeys) {
  // All scores are 0, so each query averages the keys that it sees. ONNX aligns
  // the first query with the first key.
  ModelBuilder m(23);
  m.input("q", "f32[1,1,2,1]").input("k", "f32[1,1,3,1]");
  m.input("v", "f32[1,1,3,1]");
  m.node("Attention q k v -> y", {{"is_causal", int64_t(1)}}).output("y");
  expectNear(
      evaluate(m, {array({1, 1, 2, 1}, {0, 0}), array({1, 1, 3, 1}, {0, 0, 0}),
                   array({1, 1, 3, 1}, {2, 4, 90})})[0],
      array({1, 1, 2, 1}, {2, 3}));
}

TEST(OnnxOps, RotaryEmbedding) {
  for (bool interleaved : {false, true}) {
    ModelBuilder m(23);
    m.input("x", "f32[1,1,1,4]").input("c", "f32[1,1,2]");
    m.input("s", "f32[1,1,2]");
    m.node("RotaryEmbedding x c s -> y",
           {{"interleaved", int64_t(interleaved)}});
    HostArray y = evaluate(m.output("y"), {array({1, 1, 1, 4}, {1, 2, 3, 4}),
                                           array({1, 1, 2}, {0, 1}),
                                           array({1, 1, 2}, {1, 0})})[0];
    expectNear(y, interleaved ? array({1, 1, 1, 4}, {-2, 1, 3, 4})
                              : array({1, 1, 1, 4}, {-3, 2, 1, 4}));
  }
}

TEST(OnnxOps, BooleanMaskOfAttention) {
  ModelBuilder m(23);
  m.input("q", "f32[1,1,1,1]").input("k", "f32[1,1,2,1]");
  m.input("v", "f32[1,1,2,1]").input("mask", "i1[1,2]");
  m.node("Attention q k v mask -> y").output("y");
  expectNear(
      evaluate(m, {array({1, 1, 1, 1}, {1}), array({1, 1, 2, 1}, {5, 6}),
                   array({1, 1, 2, 1}, {7, 8}), array({1, 2}, {1, 0})})[0],
      array({1, 1, 1, 1}, {7}));
}

} // namespace
