//===- RingTest.cpp - Ring attention --------------------------------------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// Grouped-query attention and its gradient on $T positions of type $E with the
/// split $POS. $CAUSAL is "causal" or empty, $M is the number of rows of the
/// mask, $SINKS the sinks, and $VALUES are the results.
const char *kRing = R"mlir(
#mesh = #dpc.mesh<dp=2, cp=$CP, tp=2>
#q = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {tp}, $POS, {}]>
#l = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {tp}, $POS]>
#m = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{dp}, {}, $MPOS, {}]>
#s = #dpc.sharding<#dpc.mesh<dp=2, cp=$CP, tp=2>, [{tp}]>
!q = tensor<3x4x$Tx2x$E, #q>
!o = tensor<3x4x$Tx5x$E, #q>
!l = tensor<3x4x$Txf32, #l>
!k = tensor<3x2x$Tx2x$E, #q>
!v = tensor<3x2x$Tx5x$E, #q>
!m = tensor<3x1x$Mx$Txf32, #m>
!s = tensor<4xf32, #s>
func.func @forward(%q: !q {dpc.role = "input"}, %k: !k {dpc.role = "input"}, %v: !v {dpc.role = "input"}, %do: !o {dpc.role = "input"}, %m: !m {dpc.role = "input"}, %s: !s {dpc.role = "input"}) -> ($TYPES) {
  %o, %lse = dpc.attention %q, %k, %v $MASK $SINKS scale = $SCALE $CAUSAL {dpc.ring} : (!q, !k, !v $MTYPE $STYPE) -> (!o, !l)
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do $MASK scale = $SCALE $CAUSAL {dpc.ring} : (!q, !k, !v, !o, !l, !o $MTYPE) -> (!q, !k, !v)
  return $VALUES : $TYPES
}
)mlir";

struct Ring {
  int64_t ranks, length;
  std::string positions;
  bool isCausal;
  /// Rows of the mask; 0 = no mask.
  int64_t maskRows;
  /// The number of stripes that `positions` has.
  int64_t stripes = 1;
  bool hasSinks = false;
};

/// Counts the scores that a rank computes forward, per head and sample.
int64_t countScores(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](AttentionProbsOp op) {
    ArrayRef<int64_t> shape = op.getScores().getType().getShape();
    count += shape[2] * shape[3];
  });
  return count;
}

/// Returns the sharded program of `ring`. Its results are the output and, with
/// `hasGradients`, the gradients.
OwningOpRef<ModuleOp> programOf(const Ring &ring, const std::string &element,
                                const std::string &scale,
                                bool hasGradients = true) {
  bool isMasked = ring.maskRows > 0;
  return parse(
      fillIn(kRing, {{"CP", std::to_string(ring.ranks)},
                     {"T", std::to_string(ring.length)},
                     {"POS", ring.positions},
                     {"MPOS", ring.maskRows > 1 ? ring.positions : "{}"},
                     {"M", std::to_string(std::max<int64_t>(ring.maskRows, 1))},
                     {"CAUSAL", ring.isCausal ? "causal" : ""},
                     {"MASK", isMasked ? "mask %m" : ""},
                     {"MTYPE", isMasked ? ", !m" : ""},
                     {"SINKS", ring.hasSinks ? "sinks %s" : ""},
                     {"STYPE", ring.hasSinks ? ", !s" : ""},
                     {"E", element},
                     {"SCALE", scale},
                     {"VALUES", hasGradients ? "%o, %dq, %dk, %dv" : "%o"},
                     {"TYPES", hasGradients ? "!o, !q, !k, !v" : "!o"}}));
}

class RingAttention : public ::testing::TestWithParam<Ring> {};

TEST_P(RingAttention, EqualsOneDevice) {
  const Ring &ring = GetParam();
  auto module = programOf(ring, "f32", "0.5");
  ASSERT_TRUE(module);
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11, ",dpc-expand-attention"), "");
  // The forward pass sends k and v, the backward pass k, v, dk and dv.
  EXPECT_EQ(countOps(*module, "dpc.ring_shift"),
            2 * (ring.ranks - 1) + 2 * (ring.ranks - 1) + 2 * ring.ranks);
  // Each rank computes (m + 1) / 2m of all scores with m stripes, and all
  // scores with one stripe.
  auto step = module->lookupSymbol<func::FuncOp>("step");
  int64_t local =
      cast<RankedTensorType>(step.getArgumentTypes()[0]).getDimSize(2);
  EXPECT_EQ(countScores(*module), ring.ranks * local * local *
                                      (ring.stripes + 1) / (2 * ring.stripes));
  // Tables of hidden keys have one element per rank and key, not per query.
  module->walk([&](RankSliceOp slice) {
    if (auto table = slice.getOperand().getDefiningOp<ConstantOp>())
      EXPECT_LE(table.getType().getNumElements(), ring.ranks * local);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RingAttention,
    ::testing::Values(Ring{2, 8, "{cp}", true, 0}, Ring{4, 8, "{cp}", true, 0},
                      Ring{2, 8, "{cp}", false, 0},
                      // With padding: 3, 3, 1 or 2, 2, 1, 0 positions per rank.
                      Ring{3, 7, "{cp}", true, 0}, Ring{3, 7, "{cp}", false, 0},
                      Ring{4, 5, "{cp}", true, 0}, Ring{4, 5, "{cp}", false, 0},
                      Ring{2, 6, "{cp}", true, 1}, Ring{3, 7, "{cp}", false, 7},
                      // Several stripes; the last two cases are not causal.
                      Ring{4, 8, "{2, 4:cp}", true, 0, 2},
                      Ring{2, 8, "{2, 4:cp}", true, 0, 2},
                      Ring{3, 27, "{3, 9:cp}", true, 0, 3},
                      Ring{2, 8, "{2, 4:cp}", false, 0},
                      Ring{2, 6, "{2, 3:cp}", false, 1},
                      // Stripes with a mask, or with padding in each stripe.
                      Ring{4, 8, "{2, 4:cp}", true, 1, 2},
                      Ring{2, 6, "{2, 3:cp}", true, 6, 2},
                      Ring{4, 18, "{3, 6:cp}", true, 0, 3},
                      // With sinks.
                      Ring{4, 8, "{2, 4:cp}", true, 0, 2, true},
                      Ring{3, 7, "{cp}", false, 7, 1, true}));

class RingOfBf16 : public ::testing::TestWithParam<Ring> {};

// Scores are in f32: in bf16, logits of up to 40 would be off by 16 %.
TEST_P(RingOfBf16, EqualsOneDevice) {
  const Ring &ring = GetParam();
  auto outputs = programOf(ring, "bf16", "20.0", /*hasGradients=*/false);
  ASSERT_TRUE(outputs);
  EXPECT_EQ(compareWithOneDevice(*outputs, 1e-2, ",dpc-expand-attention"), "");
  auto module = programOf(ring, "bf16", "20.0");
  ASSERT_TRUE(module);
  // Rounding the output to bf16 changes the gradients by 20 * 2^-9 = 0.04.
  EXPECT_EQ(compareWithOneDevice(*module, 1e-1, ",dpc-expand-attention"), "");
  // dk and dv are sent in f32, keys and values in bf16.
  int64_t wide = 0, narrow = 0;
  module->walk([&](RingShiftOp shift) {
    bool isWide = shift.getResult().getType().getElementType().isF32();
    ++(isWide ? wide : narrow);
  });
  EXPECT_EQ(wide, 2 * ring.ranks);
  EXPECT_EQ(narrow, 4 * (ring.ranks - 1));
}

INSTANTIATE_TEST_SUITE_P(Cases, RingOfBf16,
                         ::testing::Values(Ring{4, 32, "{cp}", false, 0},
                                           Ring{4, 32, "{2, 16:cp}", true, 0},
                                           Ring{3, 7, "{cp}", true, 0},
                                           Ring{4, 32, "{cp}", false, 1},
                                           Ring{3, 7, "{cp}", false, 7}));

/// In estimates for other software, each step is one causal attention, so a
/// rank computes half of the scores of each step.
TEST(RingEstimates, StepsAreBalanced) {
  Ring ring{4, 32, "{cp}", true, 0};
  auto module = programOf(ring, "bf16", "0.5");
  ASSERT_TRUE(module);
  ASSERT_TRUE(
      runPasses(*module, "dpc-partition,dpc-expand-attention{keep=any}"));
  int64_t forward = 0, backward = 0;
  module->lookupSymbol<func::FuncOp>("step").walk([&](Operation *op) {
    if (!isa<AttentionOp, AttentionGradOp>(op))
      return;
    EXPECT_TRUE(op->hasAttr("causal"));
    EXPECT_EQ(cast<RankedTensorType>(op->getOperand(0).getType()).getDimSize(2),
              ring.length / ring.ranks);
    ++(isa<AttentionOp>(op) ? forward : backward);
  });
  EXPECT_EQ(forward, ring.ranks);
  EXPECT_EQ(backward, ring.ranks);
}

} // namespace
} // namespace dpc::test
