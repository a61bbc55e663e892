//===- BatchDimsTest.cpp - Which dimensions of results count samples ------===//
#include "passes/shard/Passes.h"
#include "test/unit/shard/ParseProgram.h"

using namespace mlir;

namespace dpc {
namespace {

/// Returns the marked dimension of each result, or -1.
std::vector<int64_t> batchDims(llvm::StringRef text) {
  ParsedProgram program(text);
  std::vector<int64_t> dims;
  if (!program.module)
    return dims;
  markBatchDims(program.func);
  for (unsigned i = 0; i < program.func.getNumResults(); ++i) {
    auto dim =
        program.func.getResultAttrOfType<IntegerAttr>(i, attr::kBatchDim);
    dims.push_back(dim ? dim.getInt() : -1);
  }
  return dims;
}

using Dims = std::vector<int64_t>;

/// As many classes as samples: only ops tell the batch from the classes.
TEST(BatchDims, FollowOpsAndNotSizes) {
  EXPECT_EQ(batchDims(R"(
    func.func @f(%x: tensor<8x8xf32> {dpc.role = "input", dpc.batch_dim = 0 : i64})
        -> (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<f32>) {
      %each = dpc.reduce sum %x dims = [1] : tensor<8x8xf32> -> tensor<8xf32>
      %classes = dpc.reduce sum %x dims = [0] : tensor<8x8xf32> -> tensor<8xf32>
      %t = dpc.transpose %x perm = [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
      %all = dpc.reduce sum %x dims = [0, 1] : tensor<8x8xf32> -> tensor<f32>
      return %each, %classes, %t, %all : tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<f32>
    })"),
            Dims({0, -1, 1, -1}));
}

TEST(BatchDims, TokensOfSamplesAreNoSamples) {
  EXPECT_EQ(batchDims(R"(
    func.func @f(%x: tensor<4x6xf32> {dpc.role = "input", dpc.batch_dim = 0 : i64})
        -> (tensor<24xf32>, tensor<4x3x2xf32>) {
      %flat = dpc.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
      %cut = dpc.reshape %flat : tensor<24xf32> -> tensor<4x3x2xf32>
      return %flat, %cut : tensor<24xf32>, tensor<4x3x2xf32>
    })"),
            Dims({-1, 0}));
}

TEST(BatchDims, AreThoseOfAllInputsIfNoneIsNamed) {
  EXPECT_EQ(batchDims(R"(
    func.func @f(%x: tensor<4x6xf32> {dpc.role = "input"}, %y: tensor<4xf32> {dpc.role = "input"})
        -> (tensor<4xf32>) {
      return %y : tensor<4xf32>
    })"),
            Dims({0}));
  EXPECT_EQ(batchDims(R"(
    func.func @f(%x: tensor<4x6xf32> {dpc.role = "input"}, %y: tensor<6xf32> {dpc.role = "input"})
        -> (tensor<6xf32>) {
      return %y : tensor<6xf32>
    })"),
            Dims({-1}));
}

TEST(BatchDims, OfOneSampleAreFirst) {
  EXPECT_EQ(batchDims(R"(
    func.func @f(%x: tensor<1x6xf32> {dpc.role = "input", dpc.batch_dim = 0 : i64})
        -> (tensor<1x6xf32>, tensor<6xf32>) {
      %r = dpc.reshape %x : tensor<1x6xf32> -> tensor<6xf32>
      return %x, %r : tensor<1x6xf32>, tensor<6xf32>
    })"),
            Dims({0, -1}));
}

} // namespace
} // namespace dpc
