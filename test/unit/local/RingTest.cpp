//===- RingTest.cpp - Attention with keys that travel ---------------------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// Grouped-query attention and its gradient on $T positions that are split as
/// $POS; $CAUSAL, and $MASK with $M rows.
const char *kRing = R"mlir(
#mesh = #dpc.mesh<dp=2, cp=$CP, tp=2>
#q = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {tp}, $POS, {}]>
#l = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {tp}, $POS]>
#m = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {}, $MPOS, {}]>
!q = tensor<3x4x$Tx2xf32, #q>
!o = tensor<3x4x$Tx5xf32, #q>
!l = tensor<3x4x$Txf32, #l>
!k = tensor<3x2x$Tx2xf32, #q>
!v = tensor<3x2x$Tx5xf32, #q>
!m = tensor<3x1x$Mx$Txf32, #m>
func.func @forward(%q: !q {dpc.role = "input"}, %k: !k {dpc.role = "input"}, %v: !v {dpc.role = "input"}, %do: !o {dpc.role = "input"}, %m: !m {dpc.role = "input"}) -> (!o, !q, !k, !v) {
  %o, %lse = dpc.attention %q, %k, %v $MASK scale = 0.5 $CAUSAL {dpc.ring} : (!q, !k, !v $MTYPE) -> (!o, !l)
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do $MASK scale = 0.5 $CAUSAL {dpc.ring} : (!q, !k, !v, !o, !l, !o $MTYPE) -> (!q, !k, !v)
  return %o, %dq, %dk, %dv : !o, !q, !k, !v
}
)mlir";

struct Ring {
  int64_t ranks, length;
  std::string positions;
  bool isCausal;
  /// Rows of the mask: 0 = none.
  int64_t maskRows;
  /// Stripes that `positions` make.
  int64_t stripes = 1;
};

/// Scores of one head and sample that a rank computes forward.
int64_t countScores(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](AttentionProbsOp op) {
    ArrayRef<int64_t> shape = op.getScores().getType().getShape();
    count += shape[2] * shape[3];
  });
  return count;
}

class RingAttention : public ::testing::TestWithParam<Ring> {};

TEST_P(RingAttention, EqualsOneDevice) {
  const Ring &ring = GetParam();
  bool isMasked = ring.maskRows > 0;
  auto module = parse(
      fillIn(kRing, {{"CP", std::to_string(ring.ranks)},
                     {"T", std::to_string(ring.length)},
                     {"POS", ring.positions},
                     {"MPOS", ring.maskRows > 1 ? ring.positions : "{}"},
                     {"M", std::to_string(std::max<int64_t>(ring.maskRows, 1))},
                     {"CAUSAL", ring.isCausal ? "causal" : ""},
                     {"MASK", isMasked ? "mask %m" : ""},
                     {"MTYPE", isMasked ? ", !m" : ""}}));
  ASSERT_TRUE(module);
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11, ",dpc-expand-attention"), "");
  // Forward k and v, backward both again, and their gradients once more: home.
  EXPECT_EQ(countOps(*module, "dpc.ring_shift"),
            2 * (ring.ranks - 1) + 2 * (ring.ranks - 1) + 2 * ring.ranks);
  // All ranks do the same: everything, or with m stripes (m + 1) / 2m of it.
  auto step = module->lookupSymbol<func::FuncOp>("step");
  int64_t local =
      cast<RankedTensorType>(step.getArgumentTypes()[0]).getDimSize(2);
  EXPECT_EQ(countScores(*module), ring.ranks * local * local *
                                      (ring.stripes + 1) / (2 * ring.stripes));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RingAttention,
    ::testing::Values(Ring{2, 8, "{cp}", true, 0}, Ring{4, 8, "{cp}", true, 0},
                      Ring{2, 8, "{cp}", false, 0},
                      // Padding: 3, 3, 1 and 2, 2, 1, 0.
                      Ring{3, 7, "{cp}", true, 0}, Ring{3, 7, "{cp}", false, 0},
                      Ring{4, 5, "{cp}", true, 0}, Ring{4, 5, "{cp}", false, 0},
                      Ring{2, 6, "{cp}", true, 1}, Ring{3, 7, "{cp}", false, 7},
                      // Stripes: every other block of positions; not causal.
                      Ring{4, 8, "{2, 4:cp}", true, 0, 2},
                      Ring{2, 8, "{2, 4:cp}", true, 0, 2},
                      Ring{3, 27, "{3, 9:cp}", true, 0, 3},
                      Ring{2, 8, "{2, 4:cp}", false, 0},
                      Ring{2, 6, "{2, 3:cp}", false, 1},
                      Ring{2, 6, "{2, 3:cp}", true, 6}));

} // namespace
} // namespace dpc::test
