//===- FoldingTest.cpp - Evaluation at import time ------------------------===//
#include "test/unit/frontends/ModelBuilder.h"

using namespace dpc;
using namespace dpc::test;

namespace {

/// Returns the printed ops of the function.
std::string bodyOf(const ModelBuilder &m, const ImportOptions &options = {}) {
  Imported imported = import(m, options);
  EXPECT_EQ(imported.error, "");
  size_t begin = imported.text.find("attributes {", 0);
  begin = imported.text.find('\n', imported.text.find("@forward"));
  size_t end = imported.text.find("return");
  return imported.module ? imported.text.substr(begin, end - begin) : "";
}

TEST(OnnxFolding, ShapeArithmetic) {
  // Exporters compute the shape of x [batch, 6] -> [batch, 2, 3] like this.
  ModelBuilder m;
  m.input("x", "f32[batch,6]").scalar("zero", 0).scalar("one", 1);
  m.ints("axis", {0}).ints("two", {2}).scalar("half", 2);
  m.node("Shape x -> s").node("Gather s zero -> b").node("Gather s one -> c");
  m.node("Div c half -> d").node("Unsqueeze b axis -> bu");
  m.node("Unsqueeze d axis -> du").node("Cast du -> dc", {{"to", int64_t(7)}});
  m.node("Concat bu two dc -> shape", {{"axis", int64_t(0)}});
  m.node("Reshape x shape -> y").output("y");
  ImportOptions options;
  options.globalBatch = 5;
  std::string body = bodyOf(m, options);
  EXPECT_TRUE(inOrder(body, {"dpc.reshape", "tensor<5x6xf32> -> "
                                            "tensor<5x2x3xf32>"}));
  EXPECT_EQ(std::count(body.begin(), body.end(), '='), 1) << body;
}

TEST(OnnxFolding, ExpandShapeOfGroupedHeads) {
  // PyTorch's exporter writes expand() with Where(shape == -1, ones, shape).
  ModelBuilder m;
  m.input("x", "f32[2,1,3]").ints("want", {2, 4, -1}).ints("minus", {-1});
  m.ints("rank", {3});
  m.node("ConstantOfShape rank -> zeros").ints("one", {1});
  m.node("Cast zeros -> izeros", {{"to", int64_t(7)}});
  m.node("Add izeros one -> ones").node("Mul ones minus -> minuses");
  m.node("Equal want minuses -> c").node("Where c ones want -> shape");
  m.node("Expand x shape -> y").output("y");
  EXPECT_TRUE(inOrder(bodyOf(m), {"dpc.broadcast %arg0 dims = [0, 1, 2]",
                                  "-> tensor<2x4x3xf32>"}));
}

TEST(OnnxFolding, LargeCausalMaskStaysSymbolic) {
  ModelBuilder m;
  m.input("x", "f32[1,1,4096,4096]").ints("n", {4096, 4096}).scalar("k", 1);
  m.floats("low", {}, {-1e9f});
  m.node("ConstantOfShape n -> zeros").node("Add zeros low -> full");
  m.node("Trilu full k -> mask").node("Add x mask -> y").output("y");
  std::string body = bodyOf(m);
  EXPECT_TRUE(inOrder(body, {"%0 = dpc.iota dim = 0 : tensor<4096x4096xi64>",
                             "%1 = dpc.iota dim = 1", "gt %1, %0",
                             "dpc.constant dense<-1.000000e+09>",
                             "dpc.constant dense<0.000000e+00>",
                             "dpc.select %2, %3, %4",
                             "dpc.broadcast %5 dims = [2, 3]"}));
}

TEST(OnnxFolding, StoredCausalMaskBecomesAComparison) {
  // torch.tril(torch.ones(..)) as a boolean buffer, sliced and negated.
  ModelBuilder m;
  m.input("x", "f32[2,3,3]").floats("low", {}, {-1e9f});
  auto *mask = m.model.mutable_graph()->add_initializer();
  mask->set_name("mask");
  mask->set_data_type(::onnx::TensorProto::BOOL);
  for (int64_t d : {1, 5, 5})
    mask->add_dims(d);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j)
      mask->add_int32_data(j <= i);
  m.ints("s", {0, 0}).ints("e", {3, 3}).ints("a", {1, 2});
  m.node("Slice mask s e a -> cut").node("Not cut -> no");
  m.node("Where no low x -> y").output("y");
  std::string body = bodyOf(m);
  EXPECT_TRUE(
      inOrder(body, {"dpc.iota dim = 1 : tensor<1x3x3xi64>", "dpc.iota dim = 2",
                     "gt %1, %0", "dpc.broadcast %2", "dpc.select %3"}));
}

TEST(OnnxFolding, LowerTriangleWithOffset) {
  ModelBuilder m;
  m.ints("n", {3, 4}).scalar("k", -1).node("ConstantOfShape n -> zeros");
  m.floats("five", {}, {5.0f}).node("Add zeros five -> full");
  m.node("Trilu full k -> y", {{"upper", int64_t(0)}}).output("y");
  expectNear(evaluate(m, {})[0],
             array({3, 4}, {0, 0, 0, 0, 5, 0, 0, 0, 5, 5, 0, 0}));
}

TEST(OnnxFolding, PositionsBecomeASlice) {
  ModelBuilder m;
  m.input("ids", "i64[batch,4]").floats("wpe", {8, 2}, {0.5f});
  m.scalar("zero", 0).scalar("one", 1).ints("axis", {0});
  m.node("Shape ids -> s").node("Gather s one -> t");
  m.node("Range zero t one -> r").node("Unsqueeze r axis -> p");
  m.node("Gather wpe p -> y").output("y");
  ImportOptions options;
  options.globalBatch = 2;
  EXPECT_TRUE(inOrder(bodyOf(m, options),
                      {"dpc.slice %arg0 offsets = [0, 0] strides = [1, 1]",
                       "tensor<4x2xf32> -> tensor<1x4x2xf32>"}));
}

TEST(OnnxFolding, RangeCountsDown) {
  ModelBuilder m;
  m.scalar("a", 5).scalar("b", 0).scalar("c", -2);
  m.node("Range a b c -> y").output("y");
  expectNear(evaluate(m, {})[0], array({3}, {5, 3, 1}));
}

TEST(OnnxFolding, IntegersStayExact) {
  // 2^53 + 1 is not a double.
  ModelBuilder m;
  m.ints("a", {(int64_t(1) << 53) + 1}).ints("b", {-7}).ints("two", {2});
  m.node("Mul a two -> y").node("Div b two -> z").output("y").output("z");
  EXPECT_TRUE(
      inOrder(import(m).text, {"dense<18014398509481986>", "dense<-3>"}));
}

TEST(OnnxFolding, ConditionKnownWhileImporting) {
  // The chosen branch is inlined and reads `x` of the outer graph.
  ModelBuilder relu, tanh;
  relu.node("Relu x -> r").output("r");
  tanh.node("Tanh x -> t").output("t");
  ModelBuilder m;
  m.input("x", "f32[2]").scalar("zero", 0).node("Shape x -> s");
  m.node("Gather s zero -> n").node("Equal n zero -> c");
  m.node("If c -> y",
         {{"then_branch", relu.graph()}, {"else_branch", tanh.graph()}});
  std::string body = bodyOf(m.output("y"));
  EXPECT_TRUE(inOrder(body, {"tanh %arg0"}));
  EXPECT_EQ(body.find("relu"), std::string::npos);
}

TEST(OnnxFolding, FunctionsAreInlined) {
  // f(a; k) = Softmax(a * a, axis=k) is called twice.
  ModelBuilder m;
  auto *f = m.model.add_functions();
  f->set_name("SquareSoftmax");
  f->set_domain("local");
  f->add_input("a");
  f->add_output("b");
  f->add_attribute("k");
  auto *import17 = f->add_opset_import();
  import17->set_version(17);
  ModelBuilder body;
  body.node("Mul a a -> inner").node("Softmax inner -> b");
  *f->mutable_node() = body.model.graph().node();
  auto *axis = f->mutable_node(1)->add_attribute();
  axis->set_name("axis");
  axis->set_ref_attr_name("k");
  axis->set_type(::onnx::AttributeProto::INT);
  m.input("x", "f32[2,3]");
  m.node("SquareSoftmax x -> u", {{"k", int64_t(0)}}, "local");
  m.node("SquareSoftmax u -> y", {{"k", int64_t(1)}}, "local").output("y");
  EXPECT_TRUE(
      inOrder(bodyOf(m), {"mul %arg0, %arg0", "dpc.transpose", "dpc.softmax",
                          "dpc.transpose", "mul", "dpc.softmax"}));
}

TEST(OnnxFolding, DeadNodesDisappear) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("Frobnicate x -> dead").node("Relu x -> y");
  std::string body = bodyOf(m.output("y"));
  EXPECT_TRUE(inOrder(body, {"relu"}));
}

} // namespace
