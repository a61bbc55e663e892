//===- CudaExecutorTest.cpp - plans on the fake runtime -------------------===//
//
// The results of RankExecutor, bit for bit: products are the CPU's behind the
// fake cuBLASLt, and sums are taken in the order of the ranks.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/CudaExecutor.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/exec/Session.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/cuda/FakeCuda.h"
#include "test/unit/cuda/FakeNccl.h"
#include "test/unit/runtime/TestPlans.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>

namespace dpc::rt::test {
namespace {

Expected<NcclApi> loadFakeNccl() { return fakeNcclApi(); }

CudaApis fakeApis(bool graphs = true) {
  addRuntimeKernels();
  return {fakeCudaApi(), fakeBlasApi(), loadFakeNccl, "image", graphs};
}

HostTensor identity(int64_t size) {
  HostTensor eye = HostTensor::zeros(DType::F32, {size, size});
  for (int64_t i = 0; i < size; ++i)
    eye.set(i * (size + 1), 1);
  return eye;
}

/// Four steps on two batches, with values that round.
RunRequest request(int64_t rows) {
  RunRequest request;
  request.steps = 4;
  request.tensors = {{"w", ramp({4, 2}, 0.13, 0.5)},
                     {"eye", identity(4)},
                     {"a", ramp({4, 3}, 0.13, 0.5)},
                     {"b", ramp({3, 2}, -0.27, 0.5)},
                     {"eye.b", identity(3)}};
  request.inputs = {{{"x", ramp({rows, 4}, 1.0 / 37, 0.25)}},
                    {{"x", ramp({rows, 4}, -1.0 / 61, 0.125)}}};
  return request;
}

/// The ranks of one process, or one each.
enum class Ranks { InProcess, Nccl };

struct Result {
  std::vector<std::vector<HostTensor>> outputs; ///< by step
  std::map<std::string, HostTensor> tensors;
};

Status runSession(const Plan &plan, ExecutorFactory factory,
                  std::vector<std::unique_ptr<Communicator>> comms,
                  const RunRequest &asked, Result &result) {
  SessionOptions options;
  options.poison = true;
  options.offloadDir = testing::TempDir();
  auto session = Session::create(plan, factory, std::move(comms), options);
  if (!session)
    return session.status();
  factory = nullptr; // nothing needs it any more
  InitialValues values(".", {}, asked.tensors);
  DPC_TRY((*session)->initialize(values));
  for (int64_t step = 1; step <= asked.steps; ++step) {
    const auto &inputs = asked.inputs[(step - 1) % asked.inputs.size()];
    std::vector<const void *> pointers;
    pointers.reserve(plan.inputs.size());
    for (const Port &port : plan.inputs)
      pointers.push_back(inputs.at(port.name).data.data());
    DPC_TRY((*session)->step(step, pointers));
    result.outputs.push_back((*session)->outputs());
  }
  for (const Tensor &tensor : plan.tensors) {
    Expected<HostTensor> value = (*session)->gather(tensor);
    if (!value)
      return value.status();
    result.tensors[tensor.name] = std::move(*value);
  }
  return Status::success();
}

Status runInProcess(const Plan &plan, const CudaApis &apis,
                    const RunRequest &asked, Result &result) {
  std::unique_ptr<Device> device = makeCudaDevice(apis);
  auto factory = device->executors({&plan, ".", true, 0, 30});
  if (!factory)
    return factory.status();
  return runSession(plan, std::move(*factory),
                    makeLocalComms(static_cast<int>(plan.ranks()), {30}), asked,
                    result);
}

/// A session a rank, as if each were a process; rank 0's result.
Status runNccl(const Plan &plan, const CudaApis &apis, const RunRequest &asked,
               Result &result) {
  std::unique_ptr<Device> device = makeCudaDevice(apis);
  auto comms = makeLocalComms(static_cast<int>(plan.ranks()), {30});
  std::vector<Status> done(comms.size());
  std::vector<Result> results(comms.size());
  std::vector<std::thread> threads;
  threads.reserve(comms.size());
  for (size_t i = 0; i < comms.size(); ++i)
    threads.emplace_back([&, i] {
      auto factory = device->executors({&plan, ".", false, 0, 30});
      std::vector<std::unique_ptr<Communicator>> own;
      own.push_back(std::move(comms[i]));
      done[i] = factory ? runSession(plan, std::move(*factory), std::move(own),
                                     asked, results[i])
                        : factory.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : done)
    DPC_TRY(status);
  result = std::move(results[0]);
  return Status::success();
}

void expectSame(const HostTensor &one, const HostTensor &other,
                const std::string &what) {
  EXPECT_EQ(one.shape, other.shape) << what;
  EXPECT_EQ(std::memcmp(one.data.data(), other.data.data(), one.data.size()), 0)
      << what << ": " << one.at(0) << " and " << other.at(0);
}

/// Runs the plan on CPUs and on the fake, and compares all that comes out.
void expectCpuResults(const Plan &plan, Ranks ranks, int64_t rows,
                      bool graphs = true) {
  RunRequest asked = request(rows);
  RunRequest copy = asked;
  copy.poison = true;
  Expected<RunResult> cpu = runPlan(plan, testing::TempDir(), std::move(copy));
  ASSERT_TRUE(cpu.ok()) << cpu.status().message();
  Result device;
  Status status = ranks == Ranks::InProcess
                      ? runInProcess(plan, fakeApis(graphs), asked, device)
                      : runNccl(plan, fakeApis(graphs), asked, device);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t step = 0; step < asked.steps; ++step)
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      expectSame(device.outputs[step][i],
                 cpu->outputs[step][plan.outputs[i].name],
                 plan.outputs[i].name + " of step " + std::to_string(step + 1));
  for (const auto &[name, value] : cpu->tensors)
    expectSame(device.tensors[name], value, name);
}

class OnDevice : public testing::TestWithParam<Ranks> {};

TEST_P(OnDevice, LeastSquaresIsThatOfTheCpu) {
  for (auto [ranks, microBatches, rows] :
       {std::tuple(1, 1, 8), std::tuple(2, 2, 8), std::tuple(3, 2, 7)})
    expectCpuResults(leastSquares(ranks, microBatches, rows), GetParam(), rows);
}

/// Activations go forward and gradients back, tag by tag.
TEST_P(OnDevice, StagesExchangeMessages) {
  for (auto [dp, microBatches] :
       {std::pair(1, 1), std::pair(1, 3), std::pair(2, 2)})
    expectCpuResults(twoStages(dp, microBatches, 8), GetParam(), 8);
}

TEST_P(OnDevice, OffloadedTensorsComeAndGo) {
  for (Space space : {Space::Host, Space::Disk})
    expectCpuResults(leastSquaresOffloaded(space, 2, 2), GetParam(), 8);
}

/// With streams that dawdle, a missing event would give other numbers.
TEST_P(OnDevice, SlowStreamsChangeNothing) {
  for (unsigned seed : {1, 2, 3}) {
    setFakeDelay(400, seed);
    expectCpuResults(leastSquaresOffloaded(Space::Host, 2, 3), GetParam(), 8);
    expectCpuResults(twoStages(2, 3), GetParam(), 8);
  }
  setFakeDelay(0, 0);
}

TEST_P(OnDevice, WithoutGraphsToo) {
  expectCpuResults(twoStages(2, 2), GetParam(), 8, /*graphs=*/false);
}

TEST_P(OnDevice, NothingIsLeftBehind) {
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

/// What the tests above rest on: streams of the fake run beside each other,
/// and an event orders them.
TEST(FakeCuda, OnlyEventsOrderStreams) {
  const CudaApi cuda = fakeCudaApi();
  cudaStream_t streams[2] = {};
  cudaEvent_t event = nullptr;
  for (cudaStream_t &stream : streams)
    cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cuda.cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
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
  finish(streams[1]); // nothing holds it
  cuda.cudaStreamWaitEvent(streams[1], event, 0);
  EXPECT_EQ(cuda.cudaStreamQuery(streams[1]), cudaErrorNotReady);
  gate = true;
  finish(streams[1]);
  EXPECT_EQ(cuda.cudaEventQuery(event), cudaSuccess);
  for (cudaStream_t stream : streams)
    cuda.cudaStreamDestroy(stream);
  cuda.cudaEventDestroy(event);
}

/// A capture must come back to where it began.
TEST(FakeCuda, CapturesMustJoin) {
  const CudaApi cuda = fakeCudaApi();
  cudaStream_t streams[2] = {};
  cudaEvent_t event = nullptr;
  for (cudaStream_t &stream : streams)
    cuda.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cuda.cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  cuda.cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal);
  cuda.cudaEventRecord(event, streams[0]);
  cuda.cudaStreamWaitEvent(streams[1], event, 0);
  EXPECT_EQ(cuda.cudaStreamQuery(streams[1]),
            cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cuda.cudaStreamEndCapture(streams[0], &graph),
            cudaErrorStreamCaptureUnjoined);
  for (cudaStream_t stream : streams)
    cuda.cudaStreamDestroy(stream);
  cuda.cudaEventDestroy(event);
}

TEST(CudaExecutor, PlansForCpusAreRefused) {
  Plan plan = leastSquares(1, 1);
  EXPECT_TRUE(checkTarget(plan, 9, 0).ok()); // it has no kernels
  plan.targetCpu = "x86-64-v3";
  plan.phases["forward"].push_back(
      {Queue::Compute, {}, -1, "k", 0, KernelOp{"k", {0}, {0}, {}}});
  EXPECT_EQ(checkTarget(plan, 9, 0).message(),
            "the plan is for CPUs (x86-64-v3); compile it with "
            "--target-gpu=sm_90, or run it with --device=cpu");
  plan.targetGpu = "sm_90";
  EXPECT_TRUE(checkTarget(plan, 9, 0).ok());
  EXPECT_EQ(checkTarget(plan, 8, 6).message(),
            "the plan is for sm_90 or later, this GPU is sm_86");
}

} // namespace
} // namespace dpc::rt::test
