//===- ConvTest.cpp - Convolutions and pools on all ranks -----------------===//
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

/// A column-parallel layer, a pool, a depthwise convolution and a row-parallel
/// layer. All values are integers.
const char *kLayers = R"mlir(
#im = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {}, {}, {}]>
#imp = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {}, {}, {}], partial = {tp : sum}>
#ch = #dpc.sharding<#dpc.mesh<$MESH>, [$BATCH, {tp}, {}, {}]>
#out = #dpc.sharding<#dpc.mesh<$MESH>, [{tp}, {}, {}, {}]>
#outg = #dpc.sharding<#dpc.mesh<$MESH>, [{tp}, {}, {}, {}], partial = {$GRAD}>
#in = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {tp}, {}, {}]>
#ing = #dpc.sharding<#dpc.mesh<$MESH>, [{}, {tp}, {}, {}], partial = {$GRAD}>
!x = tensor<$Nx3x5x5xf32, #im>
!h = tensor<$Nx$Hx5x5xf32, #ch>
!p = tensor<$Nx$Hx3x3xf32, #ch>
!i = tensor<$Nx$Hx3x3xi32, #ch>
!d = tensor<$Nx$Hx2x2xf32, #ch>
!y = tensor<$Nx4x1x1xf32, #im>
!yp = tensor<$Nx4x1x1xf32, #imp>
!w1 = tensor<$Hx3x3x3xf32, #out>
!w1g = tensor<$Hx3x3x3xf32, #outg>
!wd = tensor<$Hx1x2x2xf32, #out>
!wdg = tensor<$Hx1x2x2xf32, #outg>
!w2 = tensor<4x$Hx2x2xf32, #in>
!w2g = tensor<4x$Hx2x2xf32, #ing>
func.func @train_step(
    %x: !x {dpc.name = "x", dpc.role = "input"},
    %w1: !w1 {dpc.name = "w1", dpc.role = "parameter"},
    %wd: !wd {dpc.name = "wd", dpc.role = "parameter"},
    %w2: !w2 {dpc.name = "w2", dpc.role = "parameter"})
    -> (!y {dpc.name = "y"}, !w1 {dpc.name = "dw1"}, !wd {dpc.name = "dwd"},
        !w2 {dpc.name = "dw2"}) {
  %h = dpc.conv %x, %w1 strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] {dpc.phase = "forward"} : (!x, !w1) -> !h
  %p, %i = dpc.max_pool %h kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] {dpc.phase = "forward"} : !h -> (!p, !i)
  %d = dpc.conv %p, %wd strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "forward"} : (!p, !wd) -> !d
  %yp = dpc.conv %d, %w2 strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "forward"} : (!d, !w2) -> !yp
  %y = dpc.reshard %yp {dpc.phase = "forward"} : !yp -> !y
  %dw2p = dpc.conv_grad_filter %y, %d strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "backward"} : (!y, !d) -> !w2g
  %dw2 = dpc.reshard %dw2p {dpc.phase = "backward"} : !w2g -> !w2
  %dd = dpc.conv_grad_input %y, %w2 strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "backward"} : (!y, !w2) -> !d
  %dwdp = dpc.conv_grad_filter %dd, %p strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "backward"} : (!d, !p) -> !wdg
  %dwd = dpc.reshard %dwdp {dpc.phase = "backward"} : !wdg -> !wd
  %dp = dpc.conv_grad_input %dd, %wd strides = [1, 1] pads = [0, 0, 0, 0] dilations = [1, 1] {dpc.phase = "backward"} : (!d, !wd) -> !p
  %dh = dpc.max_pool_grad %dp, %i kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] {dpc.phase = "backward"} : (!p, !i) -> !h
  %dw1p = dpc.conv_grad_filter %dh, %x strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] {dpc.phase = "backward"} : (!h, !x) -> !w1g
  %dw1 = dpc.reshard %dw1p {dpc.phase = "backward"} : !w1g -> !w1
  return %y, %dw1, %dwd, %dw2 : !y, !w1, !wd, !w2
}
)mlir";

struct Case {
  int64_t dp, tp, mb, samples, channels;
};

class Convolutions : public ::testing::TestWithParam<Case> {};

TEST_P(Convolutions, EqualOneDevice) {
  const Case &c = GetParam();
  bool loops = c.mb > 1;
  auto module = parse(fillIn(
      kLayers,
      {{"MESH", "dp=" + std::to_string(c.dp) + ", tp=" + std::to_string(c.tp) +
                    (loops ? ", mb=" + std::to_string(c.mb) : std::string())},
       {"BATCH", loops ? "{dp, mb}" : "{dp}"},
       {"GRAD", loops ? "dp : sum, mb : sum" : "dp : sum"},
       {"N", std::to_string(c.samples)},
       {"H", std::to_string(c.channels)}}));
  ASSERT_TRUE(module);
  EXPECT_EQ(compareWithOneDevice(*module, 0), "");
  // The output is summed over tp and three gradients over dp.
  EXPECT_EQ(countOps(*module, "dpc.all_reduce"),
            (c.tp > 1 ? 1 : 0) + (c.dp > 1 ? 3 : 0));
  EXPECT_EQ(countOps(*module, "dpc.all_gather"), 0);
}

INSTANTIATE_TEST_SUITE_P(EvenAndUneven, Convolutions,
                         ::testing::Values(Case{1, 1, 1, 2, 3},
                                           Case{2, 2, 1, 4, 6},
                                           Case{3, 1, 1, 4, 3},
                                           Case{1, 3, 1, 2, 5},
                                           Case{2, 2, 2, 5, 3}));

} // namespace
} // namespace dpc::test
