//===- CudaExecutorTest.cpp - plans on the fake runtime -------------------===//
//
// The results equal those of the CPU bit for bit, because the fake cuBLASLt
// calls the CPU's GEMMs, and sums are in the order of the ranks.
//
//===----------------------------------------------------------------------===//
#include "test/unit/cuda/DeviceRuns.h"
#include "test/unit/cuda/FakeAttention.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/cuda/FakeCuda.h"
#include "test/unit/cuda/FakeCudnn.h"
#include "test/unit/runtime/TestPlans.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::HasSubstr;

namespace dpc::rt::test {
namespace {

void expectSame(const HostTensor &one, const HostTensor &other,
                const std::string &what) {
  EXPECT_EQ(one.shape, other.shape) << what;
  EXPECT_EQ(std::memcmp(one.data.data(), other.data.data(), one.data.size()), 0)
      << what << ": " << one.at(0) << " and " << other.at(0);
}

/// The device may round values once more than the CPU. The tolerance is `share`
/// times the largest value.
void expectNear(const HostTensor &one, const HostTensor &other, double share,
                const std::string &what) {
  ASSERT_EQ(one.shape, other.shape) << what;
  double most = 0, off = 0;
  for (int64_t i = 0; i < other.elements(); ++i) {
    most = std::max(most, std::abs(other.at(i)));
    off = std::max(off, std::abs(one.at(i) - other.at(i)));
  }
  EXPECT_LE(off, share * most) << what;
}

/// Compares the fake's results with those of CPUs. A `share` of 0 requires
/// equal bits.
void expectCpuResults(const Plan &plan, Ranks ranks, int64_t rows,
                      bool graphs = true, double share = 0) {
  RunRequest asked = request(rows);
  RunRequest copy = asked;
  copy.poison = true;
  Expected<RunResult> cpu = runPlan(plan, testing::TempDir(), std::move(copy));
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  auto device = runOnDevice(plan, ranks, asked, {}, graphs);
  ASSERT_TRUE(device.ok()) << device.status().message();
  for (int64_t step = 0; step < asked.steps; ++step)
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      expectSame(device->outputs[step][i],
                 cpu->outputs[step][plan.outputs[i].name],
                 plan.outputs[i].name + " of step " + std::to_string(step + 1));
  for (const auto &[name, value] : cpu->tensors)
    if (share > 0)
      expectNear(device->tensors[name], value, share, name);
    else
      expectSame(device->tensors[name], value, name);
}

std::string errorOnDevice(const Plan &plan, Ranks ranks,
                          const DeviceWishes &wishes = {}) {
  return runOnDevice(plan, ranks, request(8), wishes).status().message();
}

class OnDevice : public testing::TestWithParam<Ranks> {};

TEST_P(OnDevice, LeastSquaresMatchesTheCpu) {
  for (auto [ranks, microBatches, rows] :
       {std::tuple(1, 1, 8), std::tuple(2, 2, 8), std::tuple(3, 2, 7)})
    expectCpuResults(leastSquares(ranks, microBatches, rows), GetParam(), rows);
}

/// One stage sends activations, the other sends gradients back.
TEST_P(OnDevice, StagesExchangeMessages) {
  for (auto [dp, microBatches] :
       {std::pair(1, 1), std::pair(1, 3), std::pair(2, 2)})
    expectCpuResults(twoStages(dp, microBatches, 8), GetParam(), 8);
}

TEST_P(OnDevice, OffloadedTensorsAreTransferred) {
  for (Space space : {Space::Host, Space::Disk})
    expectCpuResults(leastSquaresOffloaded(space, 2, 2), GetParam(), 8);
}

/// Events make the results independent of delays.
TEST_P(OnDevice, SlowStreamsChangeNothing) {
  for (unsigned seed : {1, 2, 3}) {
    setFakeDelay(400, seed);
    expectCpuResults(leastSquaresOffloaded(Space::Host, 2, 3), GetParam(), 8);
    expectCpuResults(twoStages(2, 3), GetParam(), 8);
  }
  setFakeDelay(0, 0);
}

TEST_P(OnDevice, MatchesWithoutGraphs) {
  expectCpuResults(twoStages(2, 2), GetParam(), 8, /*graphs=*/false);
}

/// Epilogues run in cuBLASLt or, if cuBLASLt refuses them, in separate kernels.
/// Separate kernels read rounded values, so their 16-bit results have a
/// tolerance.
TEST_P(OnDevice, EpiloguesMatchTheCpu) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 2);
    addEpilogues(plan, type);
    expectCpuResults(plan, GetParam(), 8);
  }
  for (cublasStatus_t how :
       {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INVALID_VALUE}) {
    refuseFakeEpilogues(how);
    for (auto [type, share] : {std::pair(DType::F32, 0.0),
                               {DType::BF16, 1.0 / 128},
                               {DType::F16, 1.0 / 1024}}) {
      Plan plan = leastSquares(2, 2);
      addEpilogues(plan, type);
      expectCpuResults(plan, GetParam(), 8, /*graphs=*/true, share);
    }
  }
  refuseFakeEpilogues(CUBLAS_STATUS_SUCCESS);
}

/// If m, n or k is 0, C is only multiplied by beta.
TEST_P(OnDevice, EmptyGemmsMatchTheCpu) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 1);
    EXPECT_EQ(addEmptyProducts(plan, type), 15);
    expectCpuResults(plan, GetParam(), 8);
  }
}

TEST_P(OnDevice, UnsupportedGemmsAreNamed) {
  setFakeRoutines({});
  std::string error = errorOnDevice(leastSquares(1, 1), GetParam());
  setFakeRoutines({3, 1, 2});
  EXPECT_THAT(error,
              HasSubstr("cuBLASLt has no routine, for the GEMM f32 f32 f32 "
                        "in f32, 8x2x4 nn"));
}

/// fp8 GEMMs give the same bits as on CPUs. Epilogues in a separate kernel read
/// rounded values, so their results have a tolerance.
TEST_P(OnDevice, Fp8GemmsMatchTheCpu) {
  Plan plan = leastSquares(2, 2);
  EXPECT_EQ(addFp8(plan), 34);
  expectCpuResults(plan, GetParam(), 8, /*graphs=*/true, 1.0 / 128);
  for (auto &[phase, instructions] : plan.phases)
    for (Instruction &instruction : instructions)
      if (auto *op = std::get_if<MatmulOp>(&instruction.op);
          op && op->epilogue == Epilogue::GeluGradBias)
        op->epilogue = Epilogue::GeluGrad, op->bias = -1;
  expectCpuResults(plan, GetParam(), 8);
}

TEST_P(OnDevice, ProductsOfExpertsMatchTheCpu) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 2);
    EXPECT_EQ(addExperts(plan, type), 4);
    expectCpuResults(plan, GetParam(), 8);
  }
}

TEST_P(OnDevice, ProductsOfExpertsNeedAWorkspace) {
  Plan plan = leastSquares(1, 1);
  addExperts(plan);
  for (Instruction &instruction : plan.phases["update"])
    if (auto *op = std::get_if<ExpertMatmulOp>(&instruction.op))
      op->workspace = -1;
  EXPECT_THAT(errorOnDevice(plan, GetParam()),
              HasSubstr("a product of experts has no workspace; compile the "
                        "plan with --target-gpu"));
}

#ifdef DPC_HAS_CUDNN
TEST_P(OnDevice, ConvolutionsMatchTheCpu) {
  size_t before = fakeAllocations();
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 1);
    EXPECT_EQ(addConvs(plan, type), 9);
    expectCpuResults(plan, GetParam(), 8);
  }
  EXPECT_EQ(fakeAllocations(), before);
}

/// Without tensor cores, 16-bit convolutions use FMA arithmetic.
TEST_P(OnDevice, ConvolutionsWithoutTensorCoresMatchTheCpu) {
  refuseFakeTensorCores(true);
  for (DType type : {DType::BF16, DType::F16}) {
    Plan plan = leastSquares(1, 1);
    addConvs(plan, type);
    expectCpuResults(plan, GetParam(), 8);
  }
  refuseFakeTensorCores(false);
}

TEST_P(OnDevice, UnsupportedConvolutionsAreNamed) {
  auto errorOf = [&](auto &&change) {
    Plan plan = leastSquares(1, 1);
    addConvs(plan);
    for (Instruction &instruction : plan.phases["update"])
      if (auto *op = std::get_if<ConvOp>(&instruction.op)) {
        change(*op);
        break;
      }
    return errorOnDevice(plan, GetParam());
  };
  EXPECT_NE(errorOf([](ConvOp &op) { op.pads = {2, 0}; })
                .find("a convolution (forward, f32) of 2 4 7 by 6 4 3 has "
                      "different pads before and after"),
            std::string::npos);
  refuseFakeRoutines(true);
  std::string error = errorOf([](ConvOp &) {});
  refuseFakeRoutines(false);
  EXPECT_THAT(
      error,
      HasSubstr("cuDNN has no deterministic routine within 256 MiB for a "
                "convolution (forward"));
  EXPECT_THAT(error,
              HasSubstr(" (arithmetic 3 algorithm 0: not deterministic, "
                        "arithmetic 3 algorithm 1: takes 1048576 MiB, "
                        "arithmetic 3 algorithm 2: rounds to fewer bits)"));
}
#endif

TEST_P(OnDevice, AttentionMatchesTheCpu) {
  size_t before = fakeAllocations();
  for (DType type : {DType::BF16, DType::F16})
    for (bool graphs : {true, false}) {
      Plan plan = leastSquares(2, 2);
      addAttention(plan, type);
      expectCpuResults(plan, GetParam(), 8, graphs);
    }
  EXPECT_EQ(fakeAllocations(), before);
}

/// After any failure of attention, the run ends with one line of text and frees
/// all memory.
TEST_P(OnDevice, FailedAttentionLeaksNothing) {
  size_t before = fakeAllocations();
  auto errorOf = [&](FakeAttentionFault fault) {
    Plan plan = leastSquares(1, 1);
    addAttention(plan, DType::BF16);
    setFakeAttentionFault(fault);
    std::string error = errorOnDevice(plan, GetParam());
    setFakeAttentionFault(FakeAttentionFault::None);
    return error;
  };
  EXPECT_THAT(errorOf(FakeAttentionFault::NoLibrary),
              HasSubstr("the plan has attention as one instruction: no cuDNN "
                        "here; a plan of --attention=expanded is accepted"));
  EXPECT_THAT(errorOf(FakeAttentionFault::NoEngine), HasSubstr("no engine"));
  EXPECT_THAT(errorOf(FakeAttentionFault::NoMemory), HasSubstr("no workspace"));
  EXPECT_THAT(errorOf(FakeAttentionFault::Run),
              HasSubstr("update of micro-batch 0, attention gradient: "));
  EXPECT_EQ(fakeAllocations(), before);
}

/// If a step fails, the executor waits for its disk transfers before it frees
/// their memory.
TEST_P(OnDevice, FailedStepsEndBeforeTheirResources) {
  size_t before = fakeAllocations();
  setFakeDelay(2000, 1);
  setFakeAttentionFault(FakeAttentionFault::Run);
  Plan plan = leastSquaresOffloaded(Space::Disk, 1, 2);
  addAttention(plan, DType::BF16);
  std::string error = errorOnDevice(plan, GetParam());
  setFakeAttentionFault(FakeAttentionFault::None);
  setFakeDelay(0, 0);
  EXPECT_THAT(error, HasSubstr("attention"));
  EXPECT_EQ(lateFakeCallbacks(), 0);
  EXPECT_EQ(fakeAllocations(), before);
}

/// All tensors move through the same pinned memory, large tensors in slices.
TEST_P(OnDevice, TensorsMoveThroughOneBuffer) {
  auto pinnedBy = [&](const Plan &plan) {
    int before = pinnedFakeAllocations();
    expectCpuResults(plan, GetParam(), 8);
    return pinnedFakeAllocations() - before;
  };
  Plan plan = leastSquares(1, 1);
  int few = pinnedBy(plan);
  addEpilogues(plan);
  EXPECT_EQ(pinnedBy(plan), few);
  constexpr int64_t kLong = (int64_t(130) << 20) + 3;
  Tensor tensor = plan.tensors.front();
  tensor.name = "long";
  tensor.buffer =
      addBuffer(plan, "long", BufferKind::Parameter, {kLong}, DType::U8);
  tensor.dtype = DType::U8;
  tensor.globalShape = {kLong};
  tensor.layout = Layout::replicated({kLong});
  plan.tensors.push_back(tensor);
  RunRequest asked = request(8);
  HostTensor &value = asked.tensors["long"];
  value = HostTensor::zeros(DType::U8, {kLong});
  for (int64_t i = 0; i < kLong; ++i)
    value.data[i] = static_cast<std::byte>(i % 251);
  auto device = runOnDevice(plan, GetParam(), asked, {});
  ASSERT_TRUE(device.ok()) << device.status().message();
  expectSame(device->tensors["long"], value, "long");
}

TEST_P(OnDevice, AllMemoryIsFreed) {
  size_t before = fakeAllocations();
  expectCpuResults(twoStages(2, 2), GetParam(), 8);
  EXPECT_EQ(fakeAllocations(), before);
}

INSTANTIATE_TEST_SUITE_P(Ranks, OnDevice,
                         testing::Values(Ranks::InProcess, Ranks::Nccl),
                         [](const auto &ranks) {
                           return ranks.param == Ranks::InProcess ? "InProcess"
                                                                  : "Nccl";
                         });

struct Streams {
  Streams() {
    for (cudaStream_t &stream : streams)
      cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cuda.cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  ~Streams() {
    for (cudaStream_t stream : streams)
      cuda.cudaStreamDestroy(stream);
    cuda.cudaEventDestroy(event);
  }
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  const CudaApi cuda = fakeCudaApi();
  cudaStream_t streams[2] = {};
  cudaEvent_t event = nullptr;
};

/// Streams of the fake run concurrently unless an event orders them.
TEST(FakeCuda, OnlyEventsOrderStreams) {
  Streams fake;
  auto &[cuda, streams, event] = fake;
  std::atomic<bool> gate{false};
  auto waitForGate = [](void *open) {
    while (!*static_cast<std::atomic<bool> *>(open))
      std::this_thread::yield();
  };
  auto finish = [&](cudaStream_t stream) {
    while (cuda.cudaStreamQuery(stream) == cudaErrorNotReady)
      std::this_thread::yield();
  };
  cuda.cudaLaunchHostFunc(streams[0], waitForGate, &gate);
  cuda.cudaEventRecord(event, streams[0]);
  finish(streams[1]); // no event delays this stream
  cuda.cudaStreamWaitEvent(streams[1], event, 0);
  EXPECT_EQ(cuda.cudaStreamQuery(streams[1]), cudaErrorNotReady);
  gate = true;
  finish(streams[1]);
  EXPECT_EQ(cuda.cudaEventQuery(event), cudaSuccess);
}

/// A capture is valid only if its first stream waits for the other streams.
TEST(FakeCuda, CapturesMustJoin) {
  Streams fake;
  auto &[cuda, streams, event] = fake;
  cuda.cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal);
  cuda.cudaEventRecord(event, streams[0]);
  cuda.cudaStreamWaitEvent(streams[1], event, 0);
  EXPECT_EQ(cuda.cudaStreamQuery(streams[1]),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cuda.cudaStreamEndCapture(streams[0], &graph),
            cudaErrorStreamCaptureUnjoined);
}

/// A rank uses the GPU with its index, or the only GPU that its process sees.
TEST(CudaExecutor, RanksUseTheDeviceOfTheirProcess) {
  for (auto [devices, index] : {std::pair(4, 2), {1, 0}, {1, 3}}) {
    setFakeDevices(devices);
    for (bool trace : {false, true}) {
      DeviceWishes wishes;
      wishes.device = index;
      wishes.measuresGemms = wishes.trace = trace;
      EXPECT_EQ(errorOnDevice(leastSquares(2, 2), Ranks::Nccl, wishes), "")
          << index << " of " << devices;
    }
  }
  setFakeDevices(2);
  DeviceWishes wishes;
  wishes.device = 2;
  EXPECT_EQ(errorOnDevice(leastSquares(1, 1), Ranks::Nccl, wishes),
            "this process needs GPU 2 of this machine but sees only 2; "
            "start one process for each GPU");
  setFakeDevices(1);
}

TEST(CudaExecutor, PlansForCpusAreRefused) {
  Plan plan = leastSquares(1, 1);
  EXPECT_TRUE(checkTarget(plan, 90).ok()); // it has no kernels
  plan.targetCpu = "x86-64-v3";
  plan.phases["forward"].push_back(
      {Queue::Compute, {}, -1, "k", 0, KernelOp{"k", {0}, {0}, {}}});
  EXPECT_EQ(checkTarget(plan, 90).message(),
            "the plan is for CPUs (x86-64-v3); compile it with "
            "--target-gpu=sm_90, or run it with --device=cpu");
  plan.targetGpu = "sm_90";
  EXPECT_TRUE(checkTarget(plan, 90).ok());
  EXPECT_EQ(checkTarget(plan, 86).message(),
            "the plan is for sm_90 or later, this GPU is sm_86");
}

TEST(CudaExecutor, Fp8PlansAreRefusedOnOlderDevices) {
  Plan plan = leastSquares(1, 1);
  addFp8(plan);
  EXPECT_TRUE(checkTarget(plan, 89).ok());
  EXPECT_TRUE(checkTarget(plan, 100).ok());
  EXPECT_EQ(checkTarget(plan, 80).message(),
            "the plan has fp8 GEMMs, which sm_89 and later support; this "
            "GPU is sm_80, for which a plan of --precision=bf16 is accepted");
}

} // namespace
} // namespace dpc::rt::test
