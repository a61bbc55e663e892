//===- PartitionTest.cpp - Whole programs on all ranks --------------------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// Aliases for all programs below. $BATCH is the split of the batch, and $GRAD
/// the partial sums of gradients.
const char *kAliases = R"mlir(
#s = #dpc.sharding<#dpc.mesh<$MESH>, []>
#sg = #dpc.sharding<#dpc.mesh<$MESH>, [], partial = {$GRAD}>
#r = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH]>
#rp = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH], partial = {tp : sum}>
#rm = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH], partial = {tp : max}>
#x = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {}]>
#xp = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {}], partial = {tp : sum}>
#h = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {tp}]>
#c = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {tp}]>
#cg = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {tp}], partial = {$GRAD}>
#t = #dpc.sharding<#dpc.mesh<$MESH>, [{tp}, {}]>
#tg = #dpc.sharding<#dpc.mesh<$MESH>, [{tp}, {}], partial = {$GRAD}>
)mlir";

/// A column-parallel and a row-parallel layer, S = sum(y^2) / 2, and SGD.
const char *kMlp = R"mlir(
!x = tensor<$Nx6xf32, #x>
!h = tensor<$Nx$Hxf32, #h>
!y = tensor<$Nx4xf32, #x>
!yp = tensor<$Nx4xf32, #xp>
!w1 = tensor<6x$Hxf32, #c>
!w1g = tensor<6x$Hxf32, #cg>
!w2 = tensor<$Hx4xf32, #t>
!w2g = tensor<$Hx4xf32, #tg>
func.func @train_step(
    %x: !x {dpc.name = "x", dpc.role = "input"},
    %w1: !w1 {dpc.name = "w1", dpc.role = "parameter"},
    %w2: !w2 {dpc.name = "w2", dpc.role = "parameter"},
    %b1: !w1 {dpc.name = "b1", dpc.role = "state"},
    %b2: !w2 {dpc.name = "b2", dpc.role = "state"},
    %lr: tensor<f32, #s> {dpc.name = "lr", dpc.role = "scalar"},
    %step: tensor<f32, #s> {dpc.name = "step", dpc.role = "scalar"})
    -> (!w1 {dpc.name = "w1"}, !w2 {dpc.name = "w2"},
        tensor<f32, #s> {dpc.name = "loss"}, !y {dpc.name = "y"}) {
  %one = dpc.constant dense<1.0> : tensor<f32> {dpc.phase = "update"} -> tensor<f32, #s>
  %zero = dpc.constant dense<0.0> : tensor<$Nx$Hxf32> {dpc.phase = "backward"} -> !h
  %z = dpc.matmul %x, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %h = dpc.unary relu %z {dpc.phase = "forward"} : !h -> !h
  %yp = dpc.matmul %h, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !yp
  %y = dpc.reshard %yp {dpc.phase = "forward"} : !yp -> !y
  %yy = dpc.binary mul %y, %y {dpc.phase = "forward"} : (!y, !y) -> !y
  %sp = dpc.reduce sum %yy dims = [0, 1] {dpc.phase = "forward"} : !y -> tensor<f32, #sg>
  %loss = dpc.reshard %sp {dpc.phase = "forward"} : tensor<f32, #sg> -> tensor<f32, #s>
  %dw2p = dpc.matmul %h, %y ta {dpc.phase = "backward"} : (!h, !y) -> !w2g
  %dw2 = dpc.reshard %dw2p {dpc.phase = "backward"} : !w2g -> !w2
  %dh = dpc.matmul %y, %w2 tb {dpc.phase = "backward"} : (!y, !w2) -> !h
  %on = dpc.compare gt %z, %zero {dpc.phase = "backward"} : (!h, !h) -> tensor<$Nx$Hxi1, #h>
  %dz = dpc.select %on, %dh, %zero {dpc.phase = "backward"} : (tensor<$Nx$Hxi1, #h>, !h, !h) -> !h
  %dw1p = dpc.matmul %x, %dz ta {dpc.phase = "backward"} : (!x, !h) -> !w1g
  %dw1 = dpc.reshard %dw1p {dpc.phase = "backward"} : !w1g -> !w1
  %p1, %c1 = dpc.sgd %w1, %b1, %dw1, %one, %lr, %step momentum = 0.0 weight_decay = 0.0 {dpc.phase = "update"} : (!w1, !w1, !w1, tensor<f32, #s>, tensor<f32, #s>, tensor<f32, #s>) -> (!w1, !w1)
  %p2, %c2 = dpc.sgd %w2, %b2, %dw2, %one, %lr, %step momentum = 0.0 weight_decay = 0.0 {dpc.phase = "update"} : (!w2, !w2, !w2, tensor<f32, #s>, tensor<f32, #s>, tensor<f32, #s>) -> (!w2, !w2)
  return %p1, %p2, %loss, %y : !w1, !w2, tensor<f32, #s>, !y
}
)mlir";

struct Case {
  int64_t dp, tp, mb;
  int64_t rows, width;
};

std::string program(const char *text, const Case &c) {
  bool loops = c.mb > 1;
  std::string mesh = "dp=" + std::to_string(c.dp) +
                     ", tp=" + std::to_string(c.tp) +
                     (loops ? ", mb=" + std::to_string(c.mb) : "");
  return fillIn(std::string(kAliases) + text,
                {{"MESH", mesh},
                 {"BATCH", loops ? "{dp, mb}" : "{dp}"},
                 {"GRAD", loops ? "dp : sum, mb : sum" : "dp : sum"},
                 {"SEQGRAD", loops ? "dp : sum, tp : sum, mb : sum"
                                   : "dp : sum, tp : sum"},
                 {"N", std::to_string(c.rows)},
                 {"H", std::to_string(c.width)}});
}

class Programs : public ::testing::TestWithParam<Case> {};

TEST_P(Programs, Mlp) {
  auto module = parse(program(kMlp, GetParam()));
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
  // One sum over tp (the output), and three over dp (two gradients, the loss).
  const Case &c = GetParam();
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"),
            (c.tp > 1 ? 1 : 0) + (c.dp > 1 ? 3 : 0));
  EXPECT_EQ(countOps(*module, "dpc.all_gather"), 0);
  EXPECT_EQ(countOps(*module, "dpc.accumulate"), c.mb > 1 ? 3 : 0);
}

TEST_P(Programs, MlpInBuckets) {
  auto module = parse(program(kMlp, GetParam()));
  EXPECT_EQ(compareWithOneDevice(*module, 0, ",dpc-bucket-collectives"), "");
  // With micro-batches, the loss and the gradients share one all_reduce.
  const Case &c = GetParam();
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"),
            (c.tp > 1 ? 1 : 0) + (c.dp == 1  ? 0
                                  : c.mb > 1 ? 1
                                             : 2));
}

TEST_P(Programs, MasksAreNeeded) {
  auto module = parse(program(kMlp, GetParam()));
  int masks = 0;
  std::string difference = compareWithOneDevice(
      *module, 0, "", [&](ModuleOp m) { masks = dropMasks(m); });
  const Case &c = GetParam();
  bool even = c.rows % (c.dp * c.mb) == 0 && c.width % c.tp == 0;
  EXPECT_EQ(masks == 0, even);
  EXPECT_EQ(difference.empty(), even) << difference;
}

/// The embedding and the logits share a table that is split by vocabulary.
const char *kLanguageModel = R"mlir(
!ids = tensor<$Nxi64, #r>
!row = tensor<$Nxf32, #r>
!rowp = tensor<$Nxf32, #rp>
!rowm = tensor<$Nxf32, #rm>
!x = tensor<$Nx3xf32, #x>
!xp = tensor<$Nx3xf32, #xp>
!l = tensor<$Nx$Hxf32, #h>
!w = tensor<$Hx3xf32, #t>
!wg = tensor<$Hx3xf32, #tg>
!s = tensor<f32, #s>
func.func @train_step(
    %ids: !ids {dpc.name = "ids", dpc.role = "input"},
    %labels: !ids {dpc.name = "labels", dpc.role = "input"},
    %w: !w {dpc.name = "w", dpc.role = "parameter"},
    %m: !w {dpc.name = "m", dpc.role = "state"},
    %lr: !s {dpc.name = "lr", dpc.role = "scalar"},
    %step: !s {dpc.name = "step", dpc.role = "scalar"})
    -> (!w {dpc.name = "w"}, !w {dpc.name = "m"}, !s {dpc.name = "loss"}, !s {dpc.name = "grad_norm"}) {
  %xp = dpc.embedding %w, %ids {dpc.phase = "forward"} : (!w, !ids) -> !xp
  %x = dpc.reshard %xp {dpc.phase = "forward"} : !xp -> !x
  %l = dpc.matmul %x, %w tb {dpc.phase = "forward"} : (!x, !w) -> !l
  %mp = dpc.reduce max %l dims = [1] {dpc.phase = "forward"} : !l -> !rowm
  %max = dpc.reshard %mp {dpc.phase = "forward"} : !rowm -> !row
  %ep, %kp = dpc.cross_entropy_sums %l, %max, %labels {dpc.phase = "forward"} : (!l, !row, !ids) -> (!rowp, !rowp)
  %e = dpc.reshard %ep {dpc.phase = "forward"} : !rowp -> !row
  %k = dpc.reshard %kp {dpc.phase = "forward"} : !rowp -> !row
  %log = dpc.unary log %e {dpc.phase = "forward"} : !row -> !row
  %lse = dpc.binary add %log, %max {dpc.phase = "forward"} : (!row, !row) -> !row
  %nll = dpc.binary sub %lse, %k {dpc.phase = "forward"} : (!row, !row) -> !row
  %lossp = dpc.reduce sum %nll dims = [0] {dpc.phase = "forward"} : !row -> tensor<f32, #sg>
  %loss = dpc.reshard %lossp {dpc.phase = "forward"} : tensor<f32, #sg> -> !s
  %seed = dpc.constant dense<1.0> : tensor<$Nxf32> {dpc.phase = "backward"} -> !row
  %dl = dpc.cross_entropy_grad %l, %labels, %lse, %seed {dpc.phase = "backward"} : (!l, !ids, !row, !row) -> !l
  %dw0 = dpc.matmul %dl, %x ta {dpc.phase = "backward"} : (!l, !x) -> !wg
  %dxp = dpc.matmul %dl, %w {dpc.phase = "backward"} : (!l, !w) -> !xp
  %dx = dpc.reshard %dxp {dpc.phase = "backward"} : !xp -> !x
  %dw1 = dpc.embedding_grad %ids, %dx {dpc.phase = "backward"} : (!ids, !x) -> !wg
  %dwp = dpc.binary add %dw0, %dw1 {dpc.phase = "backward"} : (!wg, !wg) -> !wg
  %dw = dpc.reshard %dwp {dpc.phase = "backward"} : !wg -> !w
  %norm = dpc.global_norm %dw, %dw {dpc.phase = "update"} : (!w, !w) -> !s
  %one = dpc.constant dense<1.0> : tensor<f32> {dpc.phase = "update"} -> !s
  %p, %q = dpc.sgd %w, %m, %dw, %one, %lr, %step momentum = 0.5 weight_decay = 0.1 {dpc.phase = "update"} : (!w, !w, !w, !s, !s, !s) -> (!w, !w)
  return %p, %q, %loss, %norm : !w, !w, !s, !s
}
)mlir";

TEST_P(Programs, LanguageModel) {
  auto module = parse(program(kLanguageModel, GetParam()));
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11), "");
  EXPECT_EQ(countOps(*module, "dpc.all_gather"), 0);
  EXPECT_EQ(countOps(*module, "dpc.all_to_all"), 0);
}

/// A norm with sequence parallelism: dp and tp split the rows. Scale and bias
/// are replicated.
const char *kNorm = R"mlir(
#seq = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {tp}, {}]>
#stat = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {tp}]>
#w = #dpc.sharding<#dpc.mesh<$MESH>, [{}]>
#wg = #dpc.sharding<#dpc.mesh<$MESH>, [{}], partial = {$SEQGRAD}>
!x = tensor<$Nx$Hx4xf32, #seq>
!st = tensor<$Nx$Hxf32, #stat>
!w = tensor<4xf32, #w>
!wg = tensor<4xf32, #wg>
func.func @train_step(%x: !x {dpc.role = "input"}, %w: !w {dpc.role = "parameter"}, %b: !w {dpc.role = "parameter"})
    -> (!x {dpc.name = "dx"}, !w {dpc.name = "dw"}, !w {dpc.name = "db"}, tensor<f32, #s> {dpc.name = "norm"}) {
  %y, %m, %r = dpc.norm layer %x scale %w bias %b eps = 1.0e-5 {dpc.phase = "forward"} : (!x, !w, !w) -> (!x, !st, !st)
  %dx, %dwp, %dbp = dpc.norm_grad layer %x, %m, %r, %y scale %w {dpc.phase = "backward"} : (!x, !st, !st, !x, !w) -> (!x, !wg, !wg)
  %dw = dpc.reshard %dwp {dpc.phase = "backward"} : !wg -> !w
  %db = dpc.reshard %dbp {dpc.phase = "backward"} : !wg -> !w
  %n = dpc.global_norm %dw, %db {dpc.phase = "update"} : (!w, !w) -> tensor<f32, #s>
  return %dx, %dw, %db, %n : !x, !w, !w, tensor<f32, #s>
}
)mlir";

TEST_P(Programs, SequenceParallelNorm) {
  auto module = parse(program(kNorm, GetParam()));
  EXPECT_EQ(compareWithOneDevice(*module, 1e-11), "");
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"),
            GetParam().dp * GetParam().tp > 1 ? 2 : 0);
}

/// All passes of the local altitude in order.
TEST_P(Programs, WholePipeline) {
  for (const char *text : {kMlp, kLanguageModel, kNorm}) {
    auto module = parse(program(text, GetParam()));
    EXPECT_EQ(compareWithOneDevice(*module, 1e-11,
                                   ",dpc-expand-attention,dpc-bucket-"
                                   "collectives,dpc-form-kernels"),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Programs,
    ::testing::Values(Case{1, 1, 1, 4, 6}, Case{2, 2, 1, 8, 8},
                      Case{2, 3, 1, 7, 8}, Case{3, 4, 1, 8, 5},
                      Case{4, 2, 1, 3, 7}, Case{2, 2, 2, 8, 8},
                      Case{2, 3, 3, 10, 7}, Case{1, 2, 4, 6, 5}),
    [](const ::testing::TestParamInfo<Case> &info) {
      const Case &c = info.param;
      return "dp" + std::to_string(c.dp) + "tp" + std::to_string(c.tp) + "mb" +
             std::to_string(c.mb) + "rows" + std::to_string(c.rows) + "width" +
             std::to_string(c.width);
    });

/// Gradients with different shardings, one of them replicated.
TEST(GlobalNorm, DifferentShardings) {
  auto module = parse(R"mlir(
#s = #dpc.sharding<#dpc.mesh<dp=3, tp=2>, []>
#a = #dpc.sharding<#dpc.mesh<dp=3, tp=2>, [{dp}, {tp}]>
#b = #dpc.sharding<#dpc.mesh<dp=3, tp=2>, [{tp}]>
#c = #dpc.sharding<#dpc.mesh<dp=3, tp=2>, [{}]>
func.func @forward(%a: tensor<7x5xf32, #a>, %b: tensor<5xf32, #b>, %c: tensor<3xf32, #c>) -> tensor<f32, #s> {
  %n = dpc.global_norm %a, %b, %c {dpc.phase = "forward"} : (tensor<7x5xf32, #a>, tensor<5xf32, #b>, tensor<3xf32, #c>) -> tensor<f32, #s>
  return %n : tensor<f32, #s>
}
)mlir");
  EXPECT_EQ(compareWithOneDevice(*module, 1e-12), "");
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"), 1);
}

/// Maxima and minima of nonzero integers with 8 rows over 3 ranks. Along the
/// columns, one rank has only padding.
TEST(Padding, IntegerReductions) {
  for (std::string type : {"i32", "i64"})
    for (std::string kind : {"max", "min"}) {
      SCOPED_TRACE(kind + " " + type);
      auto module = parse(fillIn(R"mlir(
#x = #dpc.sharding<#dpc.mesh<dp=3, tp=3>, [{dp}, {tp}]>
#yp = #dpc.sharding<#dpc.mesh<dp=3, tp=3>, [{tp}], partial = {dp : $KIND}>
#y = #dpc.sharding<#dpc.mesh<dp=3, tp=3>, [{tp}]>
#zp = #dpc.sharding<#dpc.mesh<dp=3, tp=3>, [], partial = {tp : $KIND}>
#z = #dpc.sharding<#dpc.mesh<dp=3, tp=3>, []>
func.func @forward(%x: tensor<8x4x$TYPE, #x>) -> (tensor<4x$TYPE, #y>, tensor<$TYPE, #z>) {
  %c = dpc.constant dense<$SHIFT> : tensor<8x4x$TYPE> -> tensor<8x4x$TYPE, #x>
  %s = dpc.binary add %x, %c : (tensor<8x4x$TYPE, #x>, tensor<8x4x$TYPE, #x>) -> tensor<8x4x$TYPE, #x>
  %yp = dpc.reduce $KIND %s dims = [0] : tensor<8x4x$TYPE, #x> -> tensor<4x$TYPE, #yp>
  %y = dpc.reshard %yp : tensor<4x$TYPE, #yp> -> tensor<4x$TYPE, #y>
  %zp = dpc.reduce $KIND %y dims = [0] : tensor<4x$TYPE, #y> -> tensor<$TYPE, #zp>
  %z = dpc.reshard %zp : tensor<$TYPE, #zp> -> tensor<$TYPE, #z>
  return %y, %z : tensor<4x$TYPE, #y>, tensor<$TYPE, #z>
}
)mlir",
                                 {{"TYPE", type},
                                  {"KIND", kind},
                                  {"SHIFT", kind == "max" ? "-7" : "7"}}));
      EXPECT_EQ(compareWithOneDevice(*module, 0), "");
      EXPECT_EQ(countOps(*module, "dpc.mask"), 2);
    }
}

TEST(Sources, ConstantAndIota) {
  auto module = parse(R"mlir(
#a = #dpc.sharding<#dpc.mesh<dp=2, tp=3>, [{dp}, {tp}]>
#r = #dpc.sharding<#dpc.mesh<dp=2, tp=3>, [{}, {}]>
func.func @forward(%x: tensor<3x5xi64, #a>) -> (tensor<3x5xi64, #a>, tensor<3x5xi64, #a>) {
  %i = dpc.iota dim = 1 : tensor<3x5xi64, #a>
  %j = dpc.iota dim = 0 : tensor<3x5xi64, #a>
  %k = dpc.constant dense<[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15]]> : tensor<3x5xi64> -> tensor<3x5xi64, #r>
  %l = dpc.reshard %k : tensor<3x5xi64, #r> -> tensor<3x5xi64, #a>
  %0 = dpc.binary add %i, %x : (tensor<3x5xi64, #a>, tensor<3x5xi64, #a>) -> tensor<3x5xi64, #a>
  %1 = dpc.binary mul %j, %l : (tensor<3x5xi64, #a>, tensor<3x5xi64, #a>) -> tensor<3x5xi64, #a>
  return %0, %1 : tensor<3x5xi64, #a>, tensor<3x5xi64, #a>
}
)mlir");
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
}

} // namespace
} // namespace dpc::test
