//===- ErrorsTest.cpp - Messages for models that are refused --------------===//
#include "frontends/emit/Emitter.h"
#include "test/unit/frontends/ModelBuilder.h"

#include <fstream>

using namespace dpc;
using namespace dpc::test;

namespace {

/// A model with one Relu, for tests in which the graph does not matter.
ModelBuilder relu(const std::string &type = "f32[2,3]") {
  ModelBuilder m;
  m.input("x", type).node("Relu x -> y").output("y");
  return m;
}

/// Expects a message that contains `parts` in this order.
void expectError(const ModelBuilder &m, const std::vector<std::string> &parts,
                 const ImportOptions &options = {}) {
  Imported imported = import(m, options);
  EXPECT_FALSE(imported.module);
  EXPECT_TRUE(inOrder(imported.error, parts));
}

std::string writeBytes(const std::string &bytes) {
  std::string path = testing::TempDir() + "dpc-frontends-bytes.onnx";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(OnnxErrors, MissingFile) {
  Imported imported = importFile("no/such/model.onnx");
  EXPECT_TRUE(inOrder(imported.error, {"no/such/model.onnx: cannot read: No "
                                       "such file"}));
}

TEST(OnnxErrors, TruncatedFileAtEveryLength) {
  ModelBuilder m = relu();
  m.floats("w", {4}, {1.0f});
  std::string bytes = m.model.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    Imported imported = importFile(writeBytes(bytes.substr(0, length)));
    EXPECT_NE(imported.error, "") << "cut at byte " << length;
  }
}

TEST(OnnxErrors, GarbageFile) {
  Imported imported = importFile(writeBytes("this is not a model"));
  EXPECT_TRUE(inOrder(imported.error, {"not a valid ONNX file"}));
  EXPECT_TRUE(inOrder(importFile(writeBytes("")).error,
                      {"not an ONNX model: it has no graph"}));
}

// Plans are JSON, which must be UTF-8; protobuf accepts any bytes.
TEST(OnnxErrors, NamesThatAreNotUtf8) {
  ModelBuilder m;
  m.input("x", "f32[4]").floats("w\xff", {4}, {1.0f});
  m.node("Add x w\xff -> y").output("y");
  expectError(m, {"the name of initializer 'w?' is not UTF-8"});
}

// Plans contain kernel names, which must not depend on the folder of the model.
TEST(OnnxImport, AddedNamesDoNotContainTheFile) {
  Imported imported = import(relu());
  ASSERT_TRUE(imported.module) << imported.error;
  EXPECT_FALSE(imported.function().getLoc()->findInstanceOf<mlir::NameLoc>());
}

TEST(OnnxErrors, OperatorSet) {
  ModelBuilder future(99);
  future.input("x", "f32[2]").node("Relu x -> y").output("y");
  expectError(future, {"operator set 99 is not supported; accepted: 1 to 27"});
}

TEST(OnnxErrors, UnknownOperator) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("Relu x -> y").node("Frobnicate y -> z");
  expectError(m.output("z"), {"node 1 'Frobnicate_1': operator Frobnicate "
                              "(domain '') is not supported"});
  ModelBuilder n;
  n.input("x", "f32[2]").node("Relu x -> y", {}, "com.acme").output("y");
  expectError(n, {"operator Relu (domain 'com.acme') is not supported"});
}

TEST(OnnxErrors, AllUnknownOperatorsAreNamedAtOnce) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("Frobnicate x -> y").node("Relu y -> u");
  m.node("Twist u -> v").node("Twist v -> w").node("Bend w -> z");
  expectError(m.output("z"), {"operator Frobnicate (domain '') is not "
                              "supported; also not supported: Twist, Bend"});
}

TEST(OnnxErrors, OfManyUnknownOperatorsSomeAreNamed) {
  ModelBuilder m;
  m.input("v0", "f32[2]");
  for (int i = 0; i < 30; ++i)
    m.node("Odd" + std::to_string(i) + " v" + std::to_string(i) + " -> v" +
           std::to_string(i + 1));
  expectError(m.output("v30"),
              {"operator Odd0 ", "; also not supported: Odd1, Odd2, ",
               ", Odd20 and 9 more"});
}

TEST(OnnxErrors, DataDependentShapes) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("NonZero x -> y").output("y");
  expectError(m, {"operator NonZero returns a tensor whose shape depends on "
                  "data"});
  ModelBuilder n;
  n.input("x", "f32[4]").input("s", "i64[2]").node("Reshape x s -> y");
  expectError(n.output("y"), {"Reshape: input 1 's' is computed from data"});
}

TEST(OnnxErrors, IfOnData) {
  ModelBuilder branch;
  branch.node("Relu x -> z").output("z");
  ModelBuilder m;
  m.input("x", "f32[2]").input("c", "i1[]");
  m.node("If c -> y",
         {{"then_branch", branch.graph()}, {"else_branch", branch.graph()}});
  expectError(m.output("y"),
              {"node 0 'If_0': operator If: condition 'c' is computed from "
               "data"});
}

TEST(OnnxErrors, UnboundSymbols) {
  expectError(relu("f32[batch,seq]"),
              {"symbolic dimension 'batch' of input 'x' is unbound",
               "--global-batch=N or --bind=batch=N"});
  ImportOptions options;
  options.globalBatch = 4;
  expectError(relu("f32[batch,seq]"),
              {"symbolic dimension 'seq' of input 'x' is unbound: pass "
               "--bind=seq=N"},
              options);
}

TEST(OnnxErrors, Bindings) {
  ImportOptions unknown;
  unknown.bind = {{"bacth", 4}};
  expectError(
      relu("f32[batch,seq]"),
      {"--bind=bacth=4", "no symbolic dimension 'bacth'", "'batch', 'seq'"},
      unknown);
  ImportOptions zero;
  zero.bind = {{"batch", 0}};
  expectError(relu("f32[batch]"), {"--bind=batch=0", "must be positive"}, zero);
  ImportOptions both;
  both.bind = {{"batch", 4}};
  both.globalBatch = 8;
  expectError(relu("f32[batch]"),
              {"--global-batch=8 contradicts --bind=batch=4"}, both);
  ImportOptions fixed;
  fixed.globalBatch = 8;
  expectError(relu(), {"--global-batch=8", "fixed batch of 2"}, fixed);
}

TEST(OnnxErrors, ValuesOfInputs) {
  ModelBuilder thenBranch, elseBranch, m;
  thenBranch.node("Relu x -> z").output("z");
  elseBranch.node("Neg x -> z").output("z");
  m.input("x", "f32[2]").input("c", "i1[]").input("n", "i64[2]");
  m.node("If c -> y", {{"then_branch", thenBranch.graph()},
                       {"else_branch", elseBranch.graph()}});
  m.output("y");
  ImportOptions options;
  options.bind = {{"c", 1}};
  Imported imported = import(m, options);
  EXPECT_TRUE(imported.module) << imported.error;
  options.bind = {{"n", 1}};
  expectError(m, {"--bind=n=1", "it has 'c'"}, options);
  // The bound input `flag` does not determine the batch size.
  ModelBuilder batched;
  batched.input("flag", "i64[1]").input("x", "f32[8,2]");
  batched.node("Relu x -> y").output("y");
  options.bind = {{"flag", 1}};
  options.globalBatch = 8;
  EXPECT_TRUE(import(batched, options).module);
}

TEST(OnnxErrors, ElementTypes) {
  expectError(relu("string[2]"),
              {"input 'x' has elements of STRING", "accepted: floats"});
  ModelBuilder m;
  m.input("x", "i64[2]").node("Sqrt x -> y").output("y");
  expectError(m, {"Sqrt: operand of type [2] i64", "must hold floats"});
}

TEST(OnnxErrors, Shapes) {
  ModelBuilder add;
  add.input("a", "f32[2,3]").input("b", "f32[2,4]").node("Add a b -> y");
  expectError(add.output("y"), {"node 0 'Add_0': Add: shapes [2, 3] and "
                                "[2, 4] do not broadcast"});
  ModelBuilder matmul;
  matmul.input("a", "f32[2,3]").input("b", "f32[4,5]");
  expectError(matmul.node("MatMul a b -> y").output("y"),
              {"contracted dimensions differ"});
  ModelBuilder reshape;
  reshape.input("x", "f32[2,3]").ints("s", {4, -1});
  expectError(reshape.node("Reshape x s -> y").output("y"),
              {"cannot reshape [2, 3] to [4, -1]"});
  ModelBuilder gather;
  gather.input("x", "f32[2,3]").ints("i", {5});
  expectError(gather.node("Gather x i -> y").output("y"),
              {"index 5 is outside dimension 0"});
}

TEST(OnnxErrors, UndefinedValue) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("Add x ghost -> y").output("y");
  expectError(
      m, {"node 0 'Add_0': input 'ghost' is not defined by an earlier node"});
}

TEST(OnnxErrors, SequencesAreNoTensors) {
  ModelBuilder m;
  m.input("x", "f32[2]").node("SequenceConstruct x x -> s");
  m.node("Relu s -> y").output("y");
  expectError(m, {"operator Relu: input 's' is a sequence"});
  ModelBuilder n;
  n.input("x", "f32[2]").node("SequenceConstruct x x -> s").output("s");
  expectError(n, {"output 's' is a sequence; accepted: tensors"});
}

TEST(OnnxErrors, DropoutOfNoProbability) {
  ModelBuilder m;
  m.input("x", "f32[2]").floats("ratio", {}, {1.5f}).scalar("on", 1);
  m.node("Cast on -> t", {{"to", int64_t(9)}});
  expectError(m.node("Dropout x ratio t -> y").output("y"),
              {"Dropout: probability 1.5", "accepted: 0 to 1"});
}

TEST(OnnxErrors, Initializers) {
  ModelBuilder data;
  data.input("x", "f32[4]").floats("w", {4}, {1.0f});
  data.node("Mul x w -> y").output("y");
  data.model.mutable_graph()->mutable_initializer(0)->set_dims(0, 5);
  expectError(data, {"initializer 'w' has 16 bytes of data, its shape needs "
                     "20"});
  ModelBuilder outside;
  outside.input("x", "f32[4]").external("w", {4}, "../w.bin", 0);
  expectError(outside.node("Mul x w -> y").output("y"),
              {"location '../w.bin' must be a path inside"});
  ImportOptions frozen;
  frozen.frozen = {"nothing.*"};
  expectError(relu(), {"--frozen=nothing.*: no initializer"}, frozen);
}

TEST(OnnxErrors, RecursiveFunction) {
  ModelBuilder m;
  auto *f = m.model.add_functions();
  f->set_name("Loop");
  f->set_domain("local");
  f->add_input("a");
  f->add_output("b");
  auto *call = f->add_node();
  call->set_op_type("Loop");
  call->set_domain("local");
  call->add_input("a");
  call->add_output("b");
  m.input("x", "f32[2]").node("Loop x -> y", {}, "local").output("y");
  expectError(m, {"function Loop calls itself"});
}

TEST(OnnxErrors, PadsThatCannotBeCounted) {
  constexpr int64_t kHuge = int64_t(1) << 62;
  for (int64_t pad : {kHuge, -kHuge, std::numeric_limits<int64_t>::min()}) {
    ModelBuilder m;
    m.input("x", "f32[2,3]").ints("p", {0, pad, 0, pad});
    m.node("Pad x p -> y").output("y");
    expectError(m, {"Pad: pads dimension 1 by ", "accepted: up to"});
  }
  ModelBuilder m;
  m.input("x", "f32[2,3]").ints("p", {2000000000, 2000000000, 0, 0});
  m.node("Pad x p -> y").output("y");
  expectError(m, {"Pad: pads [2, 3] to more than"});
  ModelBuilder n;
  n.input("x", "f32[2,3]").ints("p", {0, 0, 0, 2000000000});
  n.node("Pad x p -> y", {{"mode", "reflect"}}).output("y");
  expectError(n, {"mode 'reflect' pads dimension 1 by 2000000000"});
}

TEST(OnnxErrors, BitsOfFloats) {
  ModelBuilder m(26);
  m.input("x", "f32[2]").node("BitCast x -> y", {{"to", int64_t(6)}});
  expectError(m.output("y"), {"BitCast: the bits of [2] f32 as INT32"});
}

TEST(Emitter, RefusesTwoNumbersAsOperands) {
  mlir::MLIRContext context;
  frontend::Emitter emitter{mlir::OpBuilder(&context)};
  EXPECT_FALSE(emitter.add(1, 2.5));
  EXPECT_NE(emitter.error.find("1.00 and 2.50 are numbers"), std::string::npos)
      << emitter.error;
}

} // namespace
