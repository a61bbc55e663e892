//===- OpTimeTest.cpp - The seconds of single ops -------------------------===//
#include "passes/cost/OpTime.h"
#include "test/unit/shard/ParseProgram.h"

namespace dpc {
namespace {

/// 32 images of 56 x 56 with 64 channels, and filters of 3 x 3: 32 * 56 * 56 =
/// 100352 windows with 64 * 9 = 576 elements.
const char *kConvs = R"mlir(
func.func @f(%x: tensor<32x64x56x56xbf16>, %w: tensor<64x64x3x3xbf16>) -> (tensor<32x64x56x56xbf16>, tensor<64x64x3x3xbf16>) {
  %y = dpc.conv %x, %w strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<32x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> tensor<32x64x56x56xbf16>
  %dx = dpc.conv_grad_input %y, %w strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<32x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> tensor<32x64x56x56xbf16>
  %dw = dpc.conv_grad_filter %y, %x strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<32x64x56x56xbf16>, tensor<32x64x56x56xbf16>) -> tensor<64x64x3x3xbf16>
  return %dx, %dw : tensor<32x64x56x56xbf16>, tensor<64x64x3x3xbf16>
}
)mlir";

TEST(OpTime, ConvolutionsAreImplicitGemms) {
  ParsedProgram program(kConvs);
  ASSERT_TRUE(program.module);
  auto device = cost::loadDevice("a100-sxm-80gb");
  ASSERT_TRUE(device) << device.message();
  constexpr int64_t kWindows = 32 * 56 * 56, kDepth = 64 * 9;
  constexpr int64_t kElements = 2 * 64 * kWindows + 64 * kDepth;
  auto seconds = [&](int64_t m, int64_t n, int64_t k, int64_t parts) {
    cost::GemmShape shape{1, m, n, k};
    shape.elements = kElements;
    shape.mostParts = parts;
    return cost::gemmSeconds(*device, cost::DType::BF16, shape);
  };
  EXPECT_EQ(opSeconds(program.op("conv"), *device),
            seconds(kWindows, 64, kDepth, 8));
  EXPECT_EQ(opSeconds(program.op("conv_grad_input"), *device),
            seconds(kWindows, kDepth, 64, 8));
  double filter = opSeconds(program.op("conv_grad_filter"), *device);
  EXPECT_EQ(filter, seconds(64, kDepth, kWindows, 64));
  // The convolution does not write windows to memory, and its filter gradient
  // is divided into more than 8 sums.
  EXPECT_LT(opSeconds(program.op("conv"), *device),
            2.0 * kWindows * kDepth / cost::achievableBandwidth(*device));
  EXPECT_LT(filter, seconds(64, kDepth, kWindows, 8));
}

const char *kEpilogues = R"mlir(
func.func @step(%x: tensor<512x4096xbf16>, %w: tensor<4096x8192xbf16>, %v: tensor<512x8192xbf16>) -> tensor<512x8192xf32> {
  %0 = dpc.matmul %x, %w : (tensor<512x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<512x8192xbf16>
  %1:2 = dpc.kernel %x, %w, %v {dpc.epilogue = "gelu_aux_bias"} : (tensor<512x4096xbf16>, tensor<4096x8192xbf16>, tensor<512x8192xbf16>) -> (tensor<512x8192xbf16>, tensor<512x8192xbf16>) {
  ^bb0(%a: tensor<512x4096xbf16>, %b: tensor<4096x8192xbf16>, %c: tensor<512x8192xbf16>):
    %s = dpc.matmul %a, %b : (tensor<512x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<512x8192xbf16>
    %p = dpc.binary add %s, %c : (tensor<512x8192xbf16>, tensor<512x8192xbf16>) -> tensor<512x8192xbf16>
    %y = dpc.unary gelu_tanh %p : tensor<512x8192xbf16> -> tensor<512x8192xbf16>
    dpc.yield %y, %p : tensor<512x8192xbf16>, tensor<512x8192xbf16>
  }
  %2 = dpc.kernel %x, %w {dpc.epilogue = "none"} : (tensor<512x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<512x8192xf32> {
  ^bb0(%a: tensor<512x4096xbf16>, %b: tensor<4096x8192xbf16>):
    %s = dpc.matmul %a, %b : (tensor<512x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<512x8192xbf16>
    %f = dpc.convert %s : tensor<512x8192xbf16> -> tensor<512x8192xf32>
    dpc.yield %f : tensor<512x8192xf32>
  }
  %3 = dpc.accumulate sum %2 {dpc.view} : tensor<512x8192xf32> -> tensor<512x8192xf32>
  return %3 : tensor<512x8192xf32>
}
)mlir";

TEST(OpTime, EpiloguesCostTheirBytes) {
  ParsedProgram program(kEpilogues);
  ASSERT_TRUE(program.module);
  auto device = cost::loadDevice("a100-sxm-80gb");
  ASSERT_TRUE(device) << device.message();
  mlir::Operation *matmul = program.op("matmul");
  mlir::Operation *fused = matmul->getNextNode();
  mlir::Operation *adding = fused->getNextNode();
  double alone = opSeconds(matmul, *device);
  constexpr double kElements = 512 * 8192;
  auto withBytes = [&](double bytes) {
    return alone + bytes / cost::achievableBandwidth(*device);
  };
  // The epilogue also stores the argument of gelu and reads a bias of one row.
  EXPECT_DOUBLE_EQ(opSeconds(fused, *device),
                   withBytes(2 * kElements + 2 * 8192));
  // The epilogue reads the f32 sums. It writes f32 results, which have two more
  // bytes per element than bf16 results.
  EXPECT_DOUBLE_EQ(opSeconds(adding, *device), withBytes((4 + 2) * kElements));
}

const char *kFp8Gemm = R"mlir(
func.func @forward(%x: tensor<8x512x4096xbf16> {dpc.role = "input"}, %w: tensor<4096x8192xbf16> {dpc.role = "parameter"}) -> tensor<8x512x8192xbf16> {
  %0 = dpc.matmul %x, %w {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<8x512x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<8x512x8192xbf16>
  return %0 : tensor<8x512x8192xbf16>
}
)mlir";

/// Two kernels per operand read it twice in 16 bits and write it once in 8
/// bits, which is 5 bytes per element. A fifth launch clears the maxima.
/// If the device supports fp8, the GEMM runs in fp8.
TEST(OpTime, Fp8GemmsEncodeTheirFactors) {
  ParsedProgram program(kFp8Gemm);
  ASSERT_TRUE(program.module);
  constexpr int64_t kM = 8 * 512, kN = 8192, kK = 4096;
  auto h100 = cost::loadDevice("h100-sxm-80gb"),
       a100 = cost::loadDevice("a100-sxm-80gb");
  ASSERT_TRUE(h100 && a100);
  cost::GemmShape shape{1, kM, kN, kK};
  shape.transB = true;
  shape.resultBytes = 2;
  double coding = 4 * h100->launchSeconds +
                  cost::streamSeconds(*h100, 5.0 * (kM + kN) * kK);
  EXPECT_EQ(opSeconds(program.op("matmul"), *h100),
            cost::gemmSeconds(*h100, cost::DType::FP8, shape) + coding);
  shape.transB = false;
  shape.resultBytes = 0;
  EXPECT_EQ(opSeconds(program.op("matmul"), *a100),
            cost::gemmSeconds(*a100, cost::DType::BF16, shape));
  EXPECT_LT(opSeconds(program.op("matmul"), *h100),
            cost::gemmSeconds(*h100, cost::DType::BF16, shape));
}

/// Other software converts an operand once for both GEMMs that read it, and
/// weights once per step.
TEST(OpTime, SoftwareCachesWeightsInFp8) {
  ParsedProgram program(kFp8Gemm);
  ASSERT_TRUE(program.module);
  constexpr int64_t kM = 8 * 512, kN = 8192, kK = 4096;
  auto h100 = cost::loadDevice("h100-sxm-80gb");
  ASSERT_TRUE(h100);
  cost::Software software;
  software.fp8CastBytes = 3;
  software.fp8CachedWeights = true;
  cost::GemmShape shape{1, kM, kN, kK};
  shape.transB = true;
  shape.resultBytes = 2;
  auto expected = [&](double elements) {
    return cost::gemmSeconds(*h100, cost::DType::FP8, shape) +
           cost::streamSeconds(*h100, 3 * elements);
  };
  auto seconds = [&](int64_t microBatches) {
    return opSeconds(program.op("matmul"), {.device = *h100,
                                            .software = software,
                                            .microBatches = microBatches,
                                            .hasFp8 = true});
  };
  EXPECT_DOUBLE_EQ(seconds(1), expected(kM * kK + kN * kK));
  EXPECT_DOUBLE_EQ(seconds(8), expected(kM * kK + kN * kK / 8.0));
}

const char *kExperts = R"mlir(
func.func @forward(%x: tensor<2048x2048xbf16>, %ids: tensor<2048x2xi64>, %w: tensor<8x2048x1024xbf16>) -> tensor<2048x2x1024xbf16> {
  %0 = dpc.expert_matmul %x, %ids, %w : (tensor<2048x2048xbf16>, tensor<2048x2xi64>, tensor<8x2048x1024xbf16>) -> tensor<2048x2x1024xbf16>
  return %0 : tensor<2048x2x1024xbf16>
}
)mlir";

TEST(OpTime, SoftwareRunsExpertsInFp8) {
  ParsedProgram program(kExperts);
  ASSERT_TRUE(program.module);
  auto h100 = cost::loadDevice("h100-sxm-80gb");
  ASSERT_TRUE(h100);
  cost::Software software;
  auto seconds = [&](bool fp8Experts, bool hasFp8) {
    software.fp8Experts = fp8Experts;
    return opSeconds(program.op("expert_matmul"),
                     {.device = *h100, .software = software, .hasFp8 = hasFp8});
  };
  // dpc's own products of experts stay in bf16.
  EXPECT_EQ(seconds(false, true), seconds(false, false));
  EXPECT_EQ(seconds(true, false), seconds(false, false));
  cost::GemmShape shape{8, 512, 1024, 2048};
  shape.transB = true;
  shape.resultBytes = 2;
  EXPECT_DOUBLE_EQ(
      seconds(true, true),
      cost::gemmSeconds(*h100, cost::DType::FP8, shape) +
          cost::streamSeconds(*h100, 5.0 * 8 * (512 + 1024) * 2048));
}

} // namespace
} // namespace dpc
