//===- BucketTest.cpp - dpc-bucket-collectives ----------------------------===//
#include "test/unit/local/LocalTest.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// A local function over dp = 2 with `body`. $A is replaced by the attributes
/// and types of an all_reduce, $F by those of other ops.
OwningOpRef<ModuleOp> step(const std::string &body) {
  std::string text = R"mlir(
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{}]>
!t = tensor<4xf32>
!g = tensor<4xf32, #r>
func.func @step(%a: !t {dpc.global = !g}, %b: !t {dpc.global = !g}) -> (!t {dpc.global = !g}, !t {dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
)mlir" + body + "}\n";
  return parse(
      fillIn(text, {{"F", "{dpc.phase = \"forward\"} : !t -> !t"},
                    {"A", "axes = [\"dp\"] {dpc.phase = \"forward\"} : (!t) -> "
                          "!t"}}));
}

/// Checks that the pass keeps all results. Returns the number of all_reduces.
int bucket(ModuleOp module, const std::string &options = "") {
  auto func = module.lookupSymbol<func::FuncOp>("step");
  std::vector<HostArray> inputs = makeInputs(func, false);
  RankResult before = runRanks(func, inputs);
  EXPECT_TRUE(runPasses(module, "dpc-bucket-collectives" + options +
                                    ",dpc-verify-local"));
  EXPECT_TRUE(succeeded(verify(module)));
  RankResult after = runRanks(func, inputs);
  for (size_t i = 0; i < before.outputs.size(); ++i)
    EXPECT_EQ(before.outputs[i].data, after.outputs[i].data);
  return countOps(module, "dpc.all_reduce");
}

TEST(Buckets, ReadersMoveAfterTheBucket) {
  auto module = step(R"mlir(
  %0 = dpc.all_reduce sum %a $A
  %1 = dpc.unary neg %0 $F
  %2 = dpc.unary abs %1 $F
  %3 = dpc.unary relu %b $F
  %4 = dpc.all_reduce sum %3 $A
  return %2, %4 : !t, !t
)mlir");
  EXPECT_EQ(bucket(*module), 1);
}

TEST(Buckets, DependentCollectivesStayApart) {
  auto module = step(R"mlir(
  %0 = dpc.all_reduce sum %a $A
  %1 = dpc.unary neg %0 $F
  %2 = dpc.all_reduce sum %1 $A
  return %2, %1 : !t, !t
)mlir");
  EXPECT_EQ(bucket(*module), 2);
}

/// Two buckets that depend on each other are not both merged.
TEST(Buckets, NoCycleAcrossBuckets) {
  auto module = step(R"mlir(
  %s0 = dpc.all_reduce sum %a $A
  %m0 = dpc.all_reduce max %b $A
  %0 = dpc.unary neg %m0 $F
  %s1 = dpc.all_reduce sum %0 $A
  %1 = dpc.unary neg %s0 $F
  %m1 = dpc.all_reduce max %1 $A
  return %s1, %m1 : !t, !t
)mlir");
  EXPECT_EQ(bucket(*module), 3);
}

/// A collective that a matmul needs is not merged with a later collective.
TEST(Buckets, ContractionCloses) {
  auto module = parse(R"mlir(
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>
!t = tensor<4x4xf32>
!g = tensor<4x4xf32, #r>
func.func @step(%a: !t {dpc.global = !g}, %b: !t {dpc.global = !g}) -> (!t {dpc.global = !g}, !t {dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_reduce sum %a axes = ["dp"] {dpc.phase = "forward"} : (!t) -> !t
  %1 = dpc.unary neg %0 {dpc.phase = "forward"} : !t -> !t
  %2 = dpc.matmul %1, %b {dpc.phase = "forward"} : (!t, !t) -> !t
  %3 = dpc.all_reduce sum %b axes = ["dp"] {dpc.phase = "forward"} : (!t) -> !t
  return %2, %3 : !t, !t
}
)mlir");
  EXPECT_EQ(bucket(*module), 2);
}

TEST(Buckets, Size) {
  auto module = step(R"mlir(
  %0 = dpc.all_reduce sum %a $A
  %1 = dpc.all_reduce sum %b $A
  %2 = dpc.unary neg %a $F
  %3 = dpc.all_reduce sum %2 $A
  %4 = dpc.binary add %0, %1 {dpc.phase = "forward"} : (!t, !t) -> !t
  return %3, %4 : !t, !t
)mlir");
  EXPECT_EQ(bucket(*module, "{bucket-bytes=32}"), 2);
}

/// All reduce_scatters are merged into one, and all all_gathers into one.
TEST(Buckets, ScattersAndGathers) {
  auto module = parse(R"mlir(
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>
!t = tensor<2x4xf32>
!g = tensor<2x4xf32, #r>
!p = tensor<4xf32>
func.func @step(%a: !t {dpc.global = !g}, %b: !t {dpc.global = !g}) -> (!t {dpc.global = !g}, !t {dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.reduce_scatter sum %a axes = ["dp"] {dpc.phase = "backward"} : !t -> !p
  %1 = dpc.unary neg %b {dpc.phase = "backward"} : !t -> !t
  %2 = dpc.reduce_scatter sum %1 axes = ["dp"] {dpc.phase = "backward"} : !t -> !p
  %3 = dpc.unary neg %0 {dpc.phase = "update"} : !p -> !p
  %4 = dpc.all_gather %3 axes = ["dp"] {dpc.phase = "update"} : !p -> !t
  %5 = dpc.unary abs %2 {dpc.phase = "update"} : !p -> !p
  %6 = dpc.all_gather %5 axes = ["dp"] {dpc.phase = "update"} : !p -> !t
  return %4, %6 : !t, !t
}
)mlir");
  bucket(*module);
  EXPECT_EQ(countOps(*module, "dpc.reduce_scatter"), 1);
  EXPECT_EQ(countOps(*module, "dpc.all_gather"), 1);
}

/// A parameter is gathered before the computation that precedes its reader.
TEST(Buckets, GathersAhead) {
  auto module = parse(R"mlir(
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>
#s = #dpc.sharding<#dpc.mesh<dp=2>, [{}]>
!t = tensor<2x4xf32>
!g = tensor<2x4xf32, #r>
!w = tensor<4xf32>
!h = tensor<4xf32, #s>
func.func @step(%x: !t {dpc.global = !g}, %a: !w {dpc.global = !h}, %b: !w {dpc.global = !h}, %c: !w {dpc.global = !h}) -> (!t {dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_gather %a axes = ["dp"] {dpc.phase = "forward"} : !w -> !t
  %1 = dpc.binary mul %x, %0 {dpc.phase = "forward"} : (!t, !t) -> !t
  %2 = dpc.all_gather %b axes = ["dp"] {dpc.phase = "forward"} : !w -> !t
  %3 = dpc.binary add %1, %2 {dpc.phase = "forward"} : (!t, !t) -> !t
  %4 = dpc.all_gather %c axes = ["dp"] {dpc.phase = "forward"} : !w -> !t
  %5 = dpc.binary mul %3, %4 {dpc.phase = "forward"} : (!t, !t) -> !t
  return %5 : !t
}
)mlir");
  bucket(*module);
  std::string order;
  for (Operation &op :
       module->lookupSymbol<func::FuncOp>("step").getBody().front())
    order += isa<AllGatherOp>(op) ? 'g' : isa<BinaryOp>(op) ? 'c' : '.';
  EXPECT_EQ(order, "ggcgcc.");
}

} // namespace
} // namespace dpc::test
