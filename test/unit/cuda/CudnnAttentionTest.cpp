//===- CudnnAttentionTest.cpp - cuDNN compiles the graphs of plans --------===//
//
// The real cuDNN compiles the graphs of CudnnAttention, without a GPU: the
// driver is FakeDriver.cpp. tools/gpu-check tests the results of the graphs on
// a GPU.
//
//===----------------------------------------------------------------------===//
#include "cost-model/machine/AttentionWorkspace.h"
#include "runtime/cuda/LoadApis.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// In cuDNN's format.
std::string properties(int capability) {
  bool isNew = capability >= 90;
  return R"({"cudaDeviceId": 0, "deviceVer": )" +
         std::to_string(capability * 10) +
         R"(, "driverVer": 13000, "totalGlobalMem": 85000000000,
             "maxGridSize": [2147483647, 65535, 65535],
             "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
             "multiProcessorCount": )" +
         (isNew ? "132" : "108") +
         R"(, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
             "maxSharedMemoryPerBlockOptin": )" +
         (isNew ? "232448" : "166912") +
         R"(, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
             "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
             "maxThreadsPerSM": 2048, "pciDeviceId": 9008, "isTccDriver": 0,
             "supportCoopLaunch": 1, "smClockRateKHz": 1410000,
             "memClockRateKHz": 1593000, "l2CacheSize": 41943040,
             "deviceName": "a GPU"})";
}

/// Returns an operand [B, T, heads, depth] in rows of `row` elements.
AttentionTensor tensor(int64_t depth, int64_t positions, int64_t row) {
  return {0, 0, {positions * row, depth, row}};
}

AttentionOp forward(const AttentionShape &shape) {
  // q, k and v are parts of the same rows, because one GEMM writes them.
  int64_t row = (shape.heads + shape.groups) * shape.depth +
                shape.groups * shape.valueDepth;
  AttentionOp op;
  op.shape = shape;
  op.q = tensor(shape.depth, shape.queries, row);
  op.k = tensor(shape.depth, shape.keys, row);
  op.v = tensor(shape.valueDepth, shape.keys, row);
  op.out =
      tensor(shape.valueDepth, shape.queries, shape.heads * shape.valueDepth);
  return op;
}

AttentionGradOp gradient(const AttentionShape &shape) {
  AttentionOp op = forward(shape);
  AttentionGradOp grad;
  grad.shape = shape;
  grad.q = op.q;
  grad.k = op.k;
  grad.v = op.v;
  grad.out = grad.dout = op.out;
  grad.dq = tensor(shape.depth, shape.queries, shape.heads * shape.depth);
  grad.dk = tensor(shape.depth, shape.keys, shape.groups * shape.depth);
  grad.dv =
      tensor(shape.valueDepth, shape.keys, shape.groups * shape.valueDepth);
  return grad;
}

class CudnnAttention : public testing::TestWithParam<int> {
protected:
  void SetUp() override {
    Expected<void *> found = openCudnnLibrary();
    if (!found)
      GTEST_SKIP() << found.status().message();
    auto version =
        reinterpret_cast<size_t (*)()>(dlsym(*found, "cudnnGetVersion"));
    if (!version || version() < 91100)
      GTEST_SKIP() << "cuDNN is older than 9.11, which needs a device";
    library = *found;
  }
  template <typename Op> Expected<int64_t> compile(const Op &op) const {
    return compileCudnnAttention(op, library, properties(GetParam()),
                                 GetParam());
  }
  /// Returns the size of the gradient's workspace in bytes.
  int64_t expectEngines(const AttentionShape &shape) const {
    Expected<int64_t> one = compile(forward(shape));
    EXPECT_TRUE(one.ok()) << one.status().message();
    Expected<int64_t> other = compile(gradient(shape));
    EXPECT_TRUE(other.ok()) << other.status().message();
    if (!other)
      return -1;
    // 256 bytes for alignment
    EXPECT_LE(*other + 256,
              cost::attentionWorkspaceBytes(
                  shape.batch * shape.heads, shape.heads != shape.groups,
                  shape.queries, shape.keys, shape.depth, shape.valueDepth))
        << shape.queries << " " << shape.keys << " " << shape.depth;
    return *other;
  }

  void *library = nullptr;
};

TEST_P(CudnnAttention, HasEnginesForModels) {
  // GPT-2 and Llama 3 8B: the workspace is too small for the attention scores.
  EXPECT_LT(
      expectEngines({4, 12, 12, 1024, 1024, 64, 64, 0.125, true, DType::BF16}),
      int64_t(32) << 20);
  EXPECT_LT(expectEngines(
                {1, 32, 8, 4096, 4096, 128, 128, 0.0884, true, DType::BF16}),
            int64_t(256) << 20);
}

/// cuDNN supports all shapes that ExpandAttention.cpp keeps fused.
TEST_P(CudnnAttention, HasEnginesForAllFusedShapes) {
  for (auto [type, causal] :
       {std::pair(DType::BF16, true), {DType::F16, false}}) {
    expectEngines({2, 4, 2, 24, 24, 16, 16, 0.25, causal, type});
    expectEngines({1, 1, 1, 7, 7, 8, 8, 0.4, causal, type});
    expectEngines({3, 3, 1, 33, 33, 120, 72, 0.1, causal, type});
  }
  expectEngines({2, 6, 6, 5, 77, 40, 40, 0.2, false, DType::BF16});
  expectEngines({2, 6, 2, 77, 5, 64, 64, 0.2, false, DType::F16});
  expectEngines({2, 2, 1, 1, 9, 64, 64, 0.2, false, DType::BF16});
  expectEngines({1, 4, 4, 4096, 4096, 96, 64, 0.1, true, DType::BF16});
  if (GetParam() >= 90) // DeepSeek-V3's latent attention
    for (bool causal : {true, false})
      expectEngines({1, 4, 4, 4096, 4096, 192, 128, 0.07, causal, DType::BF16});
  if (GetParam() == 90)
    for (auto [keySize, valueSize] : {std::pair(256, 256), {256, 8}, {8, 256}})
      expectEngines(
          {1, 2, 1, 33, 33, keySize, valueSize, 0.07, true, DType::F16});
}

/// GPT-OSS, and windows as long as the sequence or longer.
TEST_P(CudnnAttention, HasEnginesForWindows) {
  AttentionShape shape{1, 64, 8, 4096, 4096, 64, 64, 0.125, true, DType::BF16};
  for (int64_t window : {1, 128, 4096, 5000}) {
    shape.window = window;
    expectEngines(shape);
  }
  AttentionShape small{2, 4, 2, 24, 24, 16, 16, 0.25, true, DType::F16, 5};
  expectEngines(small);
}

TEST_P(CudnnAttention, UnsupportedShapesAreNamed) {
  Expected<int64_t> wide =
      compile(forward({2, 4, 4, 8, 8, 16, 16, 0.25, true, DType::F32}));
  EXPECT_EQ(
      wide.status().message(),
      "cuDNN does not support an attention (f32, causal) of queries 2 4 8 16 "
      "and values 2 4 8 16: its type does not have 16 bits; a plan of "
      "--attention=expanded is accepted");
  Expected<int64_t> odd =
      compile(gradient({2, 4, 4, 8, 8, 1024, 1024, 0.25, true, DType::BF16}));
  std::string message = odd.status().message();
  EXPECT_EQ(message.rfind("cuDNN does not support the gradient of an attention "
                          "(bf16, causal) of queries 2 4 8 1024",
                          0),
            0U)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Targets, CudnnAttention,
                         testing::Values(80, 90, 100, 103),
                         [](const auto &target) {
                           return "sm_" + std::to_string(target.param);
                         });

} // namespace
} // namespace dpc::rt
