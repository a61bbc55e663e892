//===- TileExpertsTest.cpp - Experts on tiles of their rows ---------------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// A mixture of $E experts with biases, two choices of a token, and its
/// gradients. Some ids are of no expert.
const char *kForward = R"mlir(
#s1 = #dpc.sharding<#dpc.mesh<$MESH>, [{}]>
#s2 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}]>
#s3 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}, {}]>
#r2 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}], partial = {ep : routed}>
#r3 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}, {}], partial = {ep : routed}>
#p1 = #dpc.sharding<#dpc.mesh<$MESH>, [{}], partial = {ep : sum}>
#p2 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}], partial = {ep : sum}>
#p3 = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {}, {}], partial = {ep : sum}>
#e2 = #dpc.sharding<#dpc.mesh<$MESH>, [{ep}, {}]>
#e3 = #dpc.sharding<#dpc.mesh<$MESH>, [{ep}, {}, {}]>
!w1 = tensor<$Ex4x6x$T, #e3>
!w2 = tensor<$Ex3x4x$T, #e3>
!b1 = tensor<$Ex6x$T, #e2>
!x = tensor<6x4x$T, #s2>
!h = tensor<6x2x6x$T, #r3>
!a = tensor<6x2x3x$T, #r3>
!m = tensor<12x3x$T, #r2>
!y = tensor<12x4x$T, #p2>
!d = tensor<12x4x$T, #s2>
func.func @train_step(
    %x: !x {dpc.name = "x", dpc.role = "input"},
    %ids: tensor<6x2xi64, #s2> {dpc.name = "ids", dpc.role = "input"},
    %g: tensor<6x2x$T, #s2> {dpc.name = "g", dpc.role = "input"},
    %dy: !x {dpc.name = "dy", dpc.role = "input"},
    %w1: !w1 {dpc.name = "w1", dpc.role = "parameter"},
    %b1: !b1 {dpc.name = "b1", dpc.role = "parameter"},
    %w2: !w2 {dpc.name = "w2", dpc.role = "parameter"})
    -> (!x {dpc.name = "y"}, tensor<12x$T, #s1> {dpc.name = "dg"}, !x {dpc.name = "dx"},
        !w1 {dpc.name = "dw1"}, !b1 {dpc.name = "db1"}, !w2 {dpc.name = "dw2"})
    attributes {} {
  %flat = dpc.reshape %ids {dpc.phase = "forward"} : tensor<6x2xi64, #s2> -> tensor<12xi64, #s1>
  %p = dpc.expert_matmul %x, %ids, %w1 {dpc.routed, dpc.phase = "forward"} : (!x, tensor<6x2xi64, #s2>, !w1) -> !h
  %b = dpc.embedding %b1, %ids {dpc.routed, dpc.phase = "forward"} : (!b1, tensor<6x2xi64, #s2>) -> !h
  %h = dpc.binary add %p, %b {dpc.phase = "forward"} : (!h, !h) -> !h
  %a = dpc.slice %h offsets = [0, 0, 0] strides = [1, 1, 1] {dpc.phase = "forward"} : !h -> !a
  %u = dpc.slice %h offsets = [0, 0, 3] strides = [1, 1, 1] {dpc.phase = "forward"} : !h -> !a
  %m = dpc.binary mul %a, %u {dpc.phase = "forward"} : (!a, !a) -> !a
  %mf = dpc.reshape %m {dpc.phase = "forward"} : !a -> !m
  %r = dpc.expert_matmul %mf, %flat, %w2 {dpc.phase = "forward"} : (!m, tensor<12xi64, #s1>, !w2) -> !y
  %gf = dpc.reshape %g {dpc.phase = "forward"} : tensor<6x2x$T, #s2> -> tensor<12x$T, #s1>
  %gb = dpc.broadcast %gf dims = [0] {dpc.phase = "forward"} : tensor<12x$T, #s1> -> !d
  %z = dpc.binary mul %r, %gb {dpc.phase = "forward"} : (!y, !d) -> !y
  %z3 = dpc.reshape %z {dpc.phase = "forward"} : !y -> tensor<6x2x4x$T, #p3>
  %ys = dpc.reduce sum %z3 dims = [1] {dpc.phase = "forward"} : tensor<6x2x4x$T, #p3> -> tensor<6x4x$T, #p2>
  %y = dpc.reshard %ys {dpc.phase = "forward"} : tensor<6x4x$T, #p2> -> !x
)mlir";

/// The rest of kForward's function.
const char *kBackward = R"mlir(
  %dyb = dpc.broadcast %dy dims = [0, 2] {dpc.phase = "backward"} : !x -> tensor<6x2x4x$T, #s3>
  %dyf = dpc.reshape %dyb {dpc.phase = "backward"} : tensor<6x2x4x$T, #s3> -> !d
  %dyr = dpc.binary mul %r, %dyf {dpc.phase = "backward"} : (!y, !d) -> !y
  %dgs = dpc.reduce sum %dyr dims = [1] {dpc.phase = "backward"} : !y -> tensor<12x$T, #p1>
  %dg = dpc.reshard %dgs {dpc.phase = "backward"} : tensor<12x$T, #p1> -> tensor<12x$T, #s1>
  %dz = dpc.binary mul %dyf, %gb {dpc.phase = "backward"} : (!d, !d) -> !d
  %dmf = dpc.expert_matmul %dz, %flat, %w2 tb {dpc.routed, dpc.phase = "backward"} : (!d, tensor<12xi64, #s1>, !w2) -> !m
  %dw2 = dpc.expert_matmul_grad %mf, %flat, %dz {dpc.phase = "$GRAD"} : (!m, tensor<12xi64, #s1>, !d) -> !w2
  %dm = dpc.reshape %dmf {dpc.phase = "backward"} : !m -> !a
  %da = dpc.binary mul %dm, %u {dpc.phase = "backward"} : (!a, !a) -> !a
  %du = dpc.binary mul %dm, %a {dpc.phase = "backward"} : (!a, !a) -> !a
  %dap = dpc.pad %da low = [0, 0, 0] strides = [1, 1, 1] {dpc.phase = "backward"} : !a -> !h
  %dup = dpc.pad %du low = [0, 0, 3] strides = [1, 1, 1] {dpc.phase = "backward"} : !a -> !h
  %dh = dpc.binary add %dap, %dup {dpc.phase = "backward"} : (!h, !h) -> !h
  %dxr = dpc.expert_matmul %dh, %ids, %w1 tb {dpc.phase = "backward"} : (!h, tensor<6x2xi64, #s2>, !w1) -> tensor<6x2x4x$T, #p3>
  %dxs = dpc.reduce sum %dxr dims = [1] {dpc.phase = "backward"} : tensor<6x2x4x$T, #p3> -> tensor<6x4x$T, #p2>
  %dx = dpc.reshard %dxs {dpc.phase = "backward"} : tensor<6x4x$T, #p2> -> !x
  %dw1 = dpc.expert_matmul_grad %x, %ids, %dh {dpc.phase = "$GRAD"} : (!x, tensor<6x2xi64, #s2>, !h) -> !w1
  %db1 = dpc.embedding_grad %ids, %dh {dpc.phase = "$GRAD"} : (tensor<6x2xi64, #s2>, !h) -> !b1
  return %y, %dg, %dx, %dw1, %db1, %dw2 : !x, tensor<12x$T, #s1>, !x, !w1, !b1, !w2
}
)mlir";

std::string mixture(int64_t experts, const std::string &mesh,
                    const std::string &type = "f64",
                    const std::string &grad = "backward") {
  return fillIn(std::string(kForward) + kBackward,
                {{"E", std::to_string(experts)},
                 {"MESH", mesh},
                 {"T", type},
                 {"GRAD", grad}});
}

std::string tiles(int64_t rows) {
  return ",dpc-tile-experts{rows=" + std::to_string(rows) + "}";
}

TEST(TileExperts, AnyNumberOfRowsGivesTheSameSums) {
  for (auto [experts, mesh] :
       {std::pair(4, "ep=2"), {4, "ep=4"}, {5, "ep=2"}, {4, "dp=2, ep=2"}})
    for (int64_t rows : {1, 2, 5, 12, 100}) {
      auto module = parse(mixture(experts, mesh));
      EXPECT_EQ(compareWithOneDevice(*module, 1e-12, tiles(rows)), "")
          << experts << " experts, " << mesh << ", tiles of " << rows;
    }
}

/// One op for each phase; nothing but what it takes crosses phases.
TEST(TileExperts, EachPhaseHasOneOp) {
  for (const char *grad : {"backward", "weight"}) {
    auto module = parse(mixture(4, "ep=2", "f32", grad));
    EXPECT_EQ(compareWithOneDevice(*module, 1e-4, tiles(4)), "") << grad;
    EXPECT_EQ(countOps(*module, "dpc.expert_tiles"), 2);
    // Two forward; backward, the first one again, and two gradients of rows.
    EXPECT_EQ(countOps(*module, "dpc.expert_matmul"), 5);
    auto step = module->lookupSymbol<func::FuncOp>("step");
    for (Operation &op : step.getBody().front()) {
      EXPECT_FALSE(
          (isa<ExpertMatmulOp, ExpertMatmulGradOp, EmbeddingGradOp>(op)))
          << op.getName().getStringRef().str();
      for (Value value : op.getResults())
        if (isa<ExpertTilesOp>(op) && phaseOf(&op) == Phase::forward)
          EXPECT_EQ(cast<RankedTensorType>(value.getType()).getShape(),
                    ArrayRef<int64_t>({6, 4}));
    }
  }
}

/// Sums of rows of bf16 are in f32.
TEST(TileExperts, HalfRowsAreSummedInFull) {
  auto module = parse(mixture(4, "ep=2", "bf16"));
  EXPECT_EQ(compareWithOneDevice(*module, 0.03, tiles(3)), "");
  int sums = 0;
  module->walk([&](ExpertTilesOp op) {
    for (auto [value, share] : llvm::zip(op.getOutputs(), op.getOutShares())) {
      Type type = cast<RankedTensorType>(value.getType()).getElementType();
      EXPECT_TRUE(type.isF32() || share == 1);
      ++sums;
    }
  });
  EXPECT_EQ(sums, 6);
}

/// Returns mixture() of ranks that have a part of the tokens each.
std::string splitMixture(int64_t experts, const std::string &mesh,
                         const std::string &type) {
  std::string text = mixture(experts, mesh, type);
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  std::string ofMesh = "#dpc.sharding<#dpc.mesh<" + mesh + ">, ";
  text.insert(1,
              "#t1 = " + ofMesh + "[{ep}]>\n#t2 = " + ofMesh + "[{ep}, {}]>\n");
  std::string reshards;
  auto split = [&](const std::string &name, const std::string &whole,
                   const std::string &part, const std::string &phase) {
    replace("%" + name + ": " + whole + " {", "%" + name + "_: " + part + " {");
    reshards += "  %" + name + " = dpc.reshard %" + name + "_ {dpc.phase = \"" +
                phase + "\"} : " + part + " -> " + whole + "\n";
  };
  std::string x = "tensor<6x4x" + type + ", #t2>",
              g = "tensor<6x2x" + type + ", #", ids = "tensor<6x2xi64, #";
  split("x", "!x", x, "forward");
  split("ids", ids + "s2>", ids + "t2>", "forward");
  split("g", g + "s2>", g + "t2>", "forward");
  text.insert(text.find("  %flat ="), reshards);
  reshards.clear();
  split("dy", "!x", x, "backward");
  text.insert(text.find("  %dyb ="), reshards);
  std::string sum = "tensor<6x4x" + type + ", #p2> -> !x",
              row = "tensor<12x" + type + ", #";
  replace(sum, "tensor<6x4x" + type + ", #p2> -> " + x);
  replace("(!x {dpc.name = \"y\"}, " + row + "s1>",
          "(" + x + " {dpc.name = \"y\"}, " + row + "t1>");
  replace(row + "p1> -> " + row + "s1>", row + "p1> -> " + row + "t1>");
  replace("!x {dpc.name = \"dx\"}", x + " {dpc.name = \"dx\"}");
  replace("return %y, %dg, %dx, %dw1, %db1, %dw2 : !x, " + row + "s1>, !x,",
          "return %y, %dg, %dx, %dw1, %db1, %dw2 : " + x + ", " + row +
              "t1>, " + x + ",");
  return text;
}

/// Rows travel instead of being gathered, in any number of rounds. Without
/// splits of the tokens, no rank has only its own rows.
TEST(TileExperts, ExchangedRowsGiveTheSameSums) {
  for (auto [experts, mesh] :
       {std::pair(4, "ep=2"), {6, "ep=3"}, {5, "ep=2"}, {6, "dp=2, ep=3"}})
    for (int64_t rows : {3, 5, 100}) {
      auto module = parse(splitMixture(experts, mesh, "f64"));
      std::string pass =
          ",dpc-tile-experts{gather-start=1 rows=" + std::to_string(rows) + "}";
      EXPECT_EQ(compareWithOneDevice(*module, 1e-12, pass), "")
          << experts << " experts, " << mesh << ", tiles of " << rows;
      EXPECT_EQ(countOps(*module, "dpc.reduce_scatter"), 0);
      EXPECT_EQ(countOps(*module, "dpc.all_gather"), 0);
      module->walk(
          [&](ExpertTilesOp op) { EXPECT_TRUE(op.getExchange().has_value()); });
    }
}

/// Without splits, no rank has rows of others.
TEST(TileExperts, WholeExpertsStay) {
  std::string text = mixture(4, "dp=2, ep=1");
  auto module = parse(text);
  EXPECT_EQ(compareWithOneDevice(*module, 1e-12, tiles(4)), "");
  EXPECT_EQ(countOps(*module, "dpc.expert_tiles"), 0);
}

} // namespace
} // namespace dpc::test
