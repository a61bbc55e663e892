//===- AttentionTest.cpp - Attention split by heads, then expanded --------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

constexpr const char *kExpand = ",dpc-expand-attention";

/// A Megatron-LM attention block: a fused qkv weight split by heads, and a
/// row-parallel projection. $H is the number of heads with head_dim 2, $W = 2 *
/// $H, $F = 3 * $W.
const char *kFused = R"mlir(
#x = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, {}]>
#xp = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, {}], partial = {tp : sum}>
#wqkv = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{}, $QKV]>
#qkv = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, $QKV]>
#q = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, $HEADS]>
#qh = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, {tp}, {}]>
#qt = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {tp}, {}, {}]>
#l = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {tp}, {}]>
#wo = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [$HEADS, {}]>
!x = tensor<3x4x6xf32, #x>
!qkv = tensor<3x4x$Fxf32, #qkv>
!q = tensor<3x4x$Wxf32, #q>
!qh = tensor<3x4x$Hx2xf32, #qh>
!qt = tensor<3x$Hx4x2xf32, #qt>
!l = tensor<3x$Hx4xf32, #l>
func.func @forward(%x: !x {dpc.role = "input"}, %w: tensor<6x$Fxf32, #wqkv>, %wo: tensor<$Wx6xf32, #wo>) -> !x {
  %f = dpc.matmul %x, %w : (!x, tensor<6x$Fxf32, #wqkv>) -> !qkv
  %q0 = dpc.slice %f offsets = [0, 0, 0] strides = [1, 1, 1] : !qkv -> !q
  %k0 = dpc.slice %f offsets = [0, 0, $W] strides = [1, 1, 1] : !qkv -> !q
  %v0 = dpc.slice %f offsets = [0, 0, $2W] strides = [1, 1, 1] : !qkv -> !q
  %q1 = dpc.reshape %q0 : !q -> !qh
  %k1 = dpc.reshape %k0 : !q -> !qh
  %v1 = dpc.reshape %v0 : !q -> !qh
  %q = dpc.transpose %q1 perm = [0, 2, 1, 3] : !qh -> !qt
  %k = dpc.transpose %k1 perm = [0, 2, 1, 3] : !qh -> !qt
  %v = dpc.transpose %v1 perm = [0, 2, 1, 3] : !qh -> !qt
  %o, %lse = dpc.attention %q, %k, %v scale = 0.5 causal : (!qt, !qt, !qt) -> (!qt, !l)
  %o1 = dpc.transpose %o perm = [0, 2, 1, 3] : !qt -> !qh
  %o2 = dpc.reshape %o1 : !qh -> !q
  %p = dpc.matmul %o2, %wo : (!q, tensor<$Wx6xf32, #wo>) -> tensor<3x4x6xf32, #xp>
  %y = dpc.reshard %p : tensor<3x4x6xf32, #xp> -> !x
  return %y : !x
}
)mlir";

/// Returns the bindings for a split by heads. If `tp` divides `heads`, the
/// canonical form of the split has no factor for head_dim.
std::map<std::string, std::string> fused(int64_t heads, int64_t tp) {
  std::string h = std::to_string(heads), f = std::to_string(6 * heads);
  bool even = heads % tp == 0;
  return {{"TP", std::to_string(tp)},
          {"H", h},
          {"W", std::to_string(2 * heads)},
          {"2W", std::to_string(4 * heads)},
          {"F", f},
          {"QKV", even ? "{3, " + std::to_string(2 * heads) + ":tp}"
                       : "{3, " + h + ":tp, 2}"},
          {"HEADS", even ? "{tp}" : "{" + h + ":tp, 2}"}};
}

class FusedQkv : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {
};

TEST_P(FusedQkv, SplitsByHeadsAndSendsOnce) {
  auto [heads, tp] = GetParam();
  auto module = parse(fillIn(kFused, fused(heads, tp)));
  ASSERT_TRUE(module);
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11, kExpand), "");
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"), 1);
  EXPECT_EQ(countOps(*module, "dpc.all_gather"), 0);
  EXPECT_EQ(countOps(*module, "dpc.all_to_all"), 0);
  EXPECT_EQ(countOps(*module, "dpc.attention"), 0);
  EXPECT_EQ(countOps(*module, "dpc.attention_probs"), 1);
}

INSTANTIATE_TEST_SUITE_P(HeadsAndRanks, FusedQkv,
                         ::testing::Values(std::pair(4, 2), std::pair(4, 3),
                                           std::pair(4, 4), std::pair(3, 2),
                                           std::pair(2, 4)));

/// Grouped-query attention and its gradient. $KH is the split of the key heads,
/// $QH the split of the query heads, $DK the partial sums of dk and dv, and
/// $FWD and $BWD the rest of the ops up to their operand types.
const char *kGrouped = R"mlir(
#q = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, $QH, {}, {}]>
#l = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, $QH, {}]>
#k = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, $KH, {}, {}]>
#kp = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, $KH, {}, {}]$DK>
#m = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [{dp}, {}, {}, {}]>
#s = #dpc.sharding<#dpc.mesh<dp=2, tp=$TP>, [$QH]>
!q = tensor<3x4x3x2xf32, #q>
!o = tensor<3x4x3x5xf32, #q>
!l = tensor<3x4x3xf32, #l>
!k = tensor<3x2x6x2xf32, #k>
!v = tensor<3x2x6x5xf32, #k>
!kp = tensor<3x2x6x2xf32, #kp>
!vp = tensor<3x2x6x5xf32, #kp>
!m = tensor<3x1x1x6xf32, #m>
!s = tensor<4xf32, #s>
func.func @forward(%q: !q {dpc.role = "input"}, %k: !k {dpc.role = "input"}, %v: !v {dpc.role = "input"}, %do: !o {dpc.role = "input"}, %m: !m {dpc.role = "input"}, %s: !s {dpc.role = "input"}) -> (!o, !q, !k, !v) {
  %o, %lse = dpc.attention %q, %k, %v $FWD) -> (!o, !l)
  %dq, %dkp, %dvp = dpc.attention_grad %q, %k, %v, %o, %lse, %do $BWD) -> (!q, !kp, !vp)
  %dk = dpc.reshard %dkp : !kp -> !k
  %dv = dpc.reshard %dvp : !vp -> !v
  return %o, %dq, %dk, %dv : !o, !q, !k, !v
}
)mlir";

struct Grouping {
  std::string tp, queryHeads, keyHeads, partial;
};

class GroupedQuery : public ::testing::TestWithParam<Grouping> {};

OwningOpRef<ModuleOp> groupedOf(const Grouping &g, const std::string &forward,
                                const std::string &backward) {
  return parse(fillIn(kGrouped, {{"TP", g.tp},
                                 {"QH", g.queryHeads},
                                 {"KH", g.keyHeads},
                                 {"DK", g.partial},
                                 {"FWD", forward},
                                 {"BWD", backward}}));
}

TEST_P(GroupedQuery, ForwardAndGradient) {
  auto module =
      groupedOf(GetParam(), "mask %m scale = 0.5 causal : (!q, !k, !v, !m",
                "mask %m scale = 0.5 causal : (!q, !k, !v, !o, !l, !o, !m");
  ASSERT_TRUE(module);
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11, kExpand), "");
}

TEST_P(GroupedQuery, SinksAndWindows) {
  for (const char *mask : {"", "mask %m "}) {
    std::string last = *mask ? ", !m" : "";
    auto module =
        groupedOf(GetParam(),
                  mask +
                      std::string("sinks %s scale = 0.5 causal window = 2 : "
                                  "(!q, !k, !v") +
                      last + ", !s",
                  mask +
                      std::string("scale = 0.5 causal window = 2 : "
                                  "(!q, !k, !v, !o, !l, !o") +
                      last);
    ASSERT_TRUE(module);
    EXPECT_EQ(compareWithOneDevice(*module, 1e-11, kExpand), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Shardings, GroupedQuery,
                         ::testing::Values(Grouping{"2", "{tp}", "{tp}", ""},
                                           Grouping{"3", "{2:tp, 2}", "{tp}",
                                                    ""},
                                           Grouping{"2", "{2, 2:tp}", "{}",
                                                    ", partial = {tp : sum}"},
                                           Grouping{"3", "{2, 2:tp}", "{}",
                                                    ", partial = {tp : sum}"}));

} // namespace
} // namespace dpc::test
