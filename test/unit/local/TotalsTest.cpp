//===- TotalsTest.cpp - Sums that the loop over micro-batches reads -------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

const char *kAliases = R"mlir(
#s = #dpc.sharding<#dpc.mesh<dp=$DP, mb=$MB>, []>
#sp = #dpc.sharding<#dpc.mesh<dp=$DP, mb=$MB>, [], partial = {dp : sum, mb : sum}>
#e = #dpc.sharding<#dpc.mesh<dp=$DP, mb=$MB>, [{}]>
#ep = #dpc.sharding<#dpc.mesh<dp=$DP, mb=$MB>, [{}], partial = {dp : sum, mb : sum}>
#x = #dpc.sharding<#dpc.mesh<dp=$DP, mb=$MB>, [{dp, mb}, {}]>
!x = tensor<$Nx4xf32, #x>
!e = tensor<4xf32, #e>
!ep = tensor<4xf32, #ep>
!s = tensor<f32, #s>
!sp = tensor<f32, #sp>
)mlir";

/// A balance loss: sum_e F_e P_e, where F counts positive inputs and P sums
/// w x. The gradient of P is F, and each sample multiplies it by its own value.
const char *kBalance = R"mlir(
func.func @train_step(%x: !x {dpc.role = "input"}, %w: !e {dpc.role = "parameter"})
    -> (!s {dpc.name = "loss"}, !e {dpc.name = "dw"}, !x {dpc.name = "dx"}) {
  %ws = dpc.broadcast %w dims = [1] {dpc.phase = "forward"} : !e -> !x
  %p = dpc.binary mul %x, %ws {dpc.phase = "forward"} : (!x, !x) -> !x
  %on = dpc.unary relu %x {dpc.phase = "forward"} : !x -> !x
  %fp = dpc.reduce sum %on dims = [0] {dpc.phase = "forward"} : !x -> !ep
  %f = dpc.reshard %fp {dpc.phase = "forward"} : !ep -> !e
  %pp = dpc.reduce sum %p dims = [0] {dpc.phase = "forward"} : !x -> !ep
  %q = dpc.reshard %pp {dpc.phase = "forward"} : !ep -> !e
  %fq = dpc.binary mul %f, %q {dpc.phase = "forward"} : (!e, !e) -> !e
  %loss = dpc.reduce sum %fq dims = [0] {dpc.phase = "forward"} : !e -> !s
  %df = dpc.broadcast %f dims = [1] {dpc.phase = "backward"} : !e -> !x
  %dp = dpc.binary mul %df, %x {dpc.phase = "backward"} : (!x, !x) -> !x
  %dx = dpc.binary add %dp, %p {dpc.phase = "backward"} : (!x, !x) -> !x
  %dwp = dpc.reduce sum %dx dims = [0] {dpc.phase = "backward"} : !x -> !ep
  %dw = dpc.reshard %dwp {dpc.phase = "backward"} : !ep -> !e
  return %loss, %dw, %dx : !s, !e, !x
}
)mlir";

/// The forward pass reads a sum S, and the gradient of S needs all gradients
/// before any of them is complete: passes for S and for dS precede the last.
const char *kNested = R"mlir(
func.func @train_step(%x: !x {dpc.role = "input"}, %w: !e {dpc.role = "parameter"})
    -> (!s {dpc.name = "loss"}, !e {dpc.name = "dw"}, !x {dpc.name = "dx"}) {
  %ws = dpc.broadcast %w dims = [1] {dpc.phase = "forward"} : !e -> !x
  %p = dpc.binary mul %x, %ws {dpc.phase = "forward"} : (!x, !x) -> !x
  %pp = dpc.reduce sum %p dims = [0] {dpc.phase = "forward"} : !x -> !ep
  %t = dpc.reshard %pp {dpc.phase = "forward"} : !ep -> !e
  %ts = dpc.broadcast %t dims = [1] {dpc.phase = "forward"} : !e -> !x
  %y = dpc.binary mul %p, %ts {dpc.phase = "forward"} : (!x, !x) -> !x
  %lp = dpc.reduce sum %y dims = [0, 1] {dpc.phase = "forward"} : !x -> !sp
  %loss = dpc.reshard %lp {dpc.phase = "forward"} : !sp -> !s
  %yy = dpc.binary add %y, %p {dpc.phase = "backward"} : (!x, !x) -> !x
  %dtq = dpc.reduce sum %yy dims = [0] {dpc.phase = "backward"} : !x -> !ep
  %dt = dpc.reshard %dtq {dpc.phase = "backward"} : !ep -> !e
  %dts = dpc.broadcast %dt dims = [1] {dpc.phase = "backward"} : !e -> !x
  %dx = dpc.binary add %dts, %ts {dpc.phase = "backward"} : (!x, !x) -> !x
  %dxx = dpc.binary mul %dx, %x {dpc.phase = "backward"} : (!x, !x) -> !x
  %dwp = dpc.reduce sum %dxx dims = [0] {dpc.phase = "backward"} : !x -> !ep
  %dw = dpc.reshard %dwp {dpc.phase = "backward"} : !ep -> !e
  return %loss, %dw, %dxx : !s, !e, !x
}
)mlir";

/// A mean: no op of the loop reads a sum.
const char *kMean = R"mlir(
func.func @train_step(%x: !x {dpc.role = "input"}, %w: !e {dpc.role = "parameter"})
    -> (!s {dpc.name = "loss"}, !e {dpc.name = "dw"}) {
  %ws = dpc.broadcast %w dims = [1] {dpc.phase = "forward"} : !e -> !x
  %p = dpc.binary mul %x, %ws {dpc.phase = "forward"} : (!x, !x) -> !x
  %lp = dpc.reduce sum %p dims = [0, 1] {dpc.phase = "forward"} : !x -> !sp
  %loss = dpc.reshard %lp {dpc.phase = "forward"} : !sp -> !s
  %dwp = dpc.reduce sum %x dims = [0] {dpc.phase = "backward"} : !x -> !ep
  %dw = dpc.reshard %dwp {dpc.phase = "backward"} : !ep -> !e
  return %loss, %dw : !s, !e
}
)mlir";

struct Case {
  int64_t dp, mb, rows;
};

class Totals : public ::testing::TestWithParam<Case> {
protected:
  OwningOpRef<ModuleOp> program(const char *text) {
    const Case &c = GetParam();
    return parse(
        fillIn(std::string(kAliases) + text, {{"DP", std::to_string(c.dp)},
                                              {"MB", std::to_string(c.mb)},
                                              {"N", std::to_string(c.rows)}}));
  }
};

int64_t passesOf(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  auto passes = step->getAttrOfType<IntegerAttr>("dpc.totals_passes");
  return passes ? passes.getInt() : 0;
}

TEST_P(Totals, ABalanceLossTakesOneMorePass) {
  auto module = program(kBalance);
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
  EXPECT_EQ(passesOf(*module), 1);
  // F in the first pass; F, P and the gradient in the last one.
  EXPECT_EQ(countOps(*module, "dpc.accumulate"), 4);
}

TEST_P(Totals, ASumInTheForwardPassTakesTwo) {
  auto module = program(kNested);
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
  EXPECT_EQ(passesOf(*module), 2);
}

TEST_P(Totals, AMeanTakesNone) {
  auto module = program(kMean);
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
  EXPECT_EQ(passesOf(*module), 0);
  EXPECT_FALSE(
      module->lookupSymbol<func::FuncOp>("step")->hasAttr("dpc.schedule"));
}

TEST_P(Totals, LaterPassesKeepTheResults) {
  for (const char *text : {kBalance, kNested}) {
    auto module = program(text);
    EXPECT_EQ(compareWithOneDevice(*module, 1e-11,
                                   ",dpc-recompute{mode=full},"
                                   "dpc-bucket-collectives,dpc-form-kernels"),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Totals,
                         ::testing::Values(Case{1, 2, 4}, Case{2, 2, 8},
                                           Case{2, 3, 10}, Case{3, 2, 7}),
                         [](const ::testing::TestParamInfo<Case> &info) {
                           const Case &c = info.param;
                           return "dp" + std::to_string(c.dp) + "mb" +
                                  std::to_string(c.mb) + "rows" +
                                  std::to_string(c.rows);
                         });

} // namespace
} // namespace dpc::test
