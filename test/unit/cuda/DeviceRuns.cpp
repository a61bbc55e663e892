#include "test/unit/cuda/DeviceRuns.h"

#include "test/unit/cuda/FakeAttention.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/cuda/FakeCuda.h"
#include "test/unit/cuda/FakeCudnn.h"
#include "test/unit/cuda/FakeNccl.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>
#include <thread>

namespace dpc::rt::test {

namespace {

Expected<NcclApi> loadFakeNccl() { return fakeNcclApi(); }

HostTensor identity(int64_t size) {
  HostTensor eye = HostTensor::zeros(DType::F32, {size, size});
  for (int64_t i = 0; i < size; ++i)
    eye.set(i * (size + 1), 1);
  return eye;
}

} // namespace

CudaApis fakeApis(bool graphs) {
  addRuntimeKernels();
  OpenConvs openConvs = nullptr;
#ifdef DPC_HAS_CUDNN
  openConvs = openFakeCudnn;
#endif
  return {fakeCudaApi(),     fakeBlasApi(), loadFakeNccl, openConvs,
          openFakeAttention, "image",       graphs};
}

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

Status runSteps(const Plan &plan, Session &session, const RunRequest &asked,
                const std::function<void()> &afterStep) {
  InitialValues values(".", {}, asked.tensors);
  DPC_TRY(session.initialize(values));
  for (int64_t step = 1; step <= asked.steps; ++step) {
    const auto &inputs = asked.inputs[(step - 1) % asked.inputs.size()];
    std::vector<const void *> pointers;
    pointers.reserve(plan.inputs.size());
    for (const Port &port : plan.inputs)
      pointers.push_back(inputs.at(port.name).data.data());
    DPC_TRY(session.step(step, pointers));
    if (afterStep)
      afterStep();
  }
  return Status::success();
}

namespace {

Status runSession(const Plan &plan, ExecutorFactory factory,
                  std::vector<std::unique_ptr<Communicator>> comms,
                  const RunRequest &asked, const DeviceWishes &wishes,
                  DeviceResult &result) {
  SessionOptions options;
  options.poison = true;
  options.trace = wishes.trace;
  options.overlap = wishes.overlap;
  options.offloadDir = testing::TempDir();
  auto session = Session::create(plan, factory, std::move(comms), options);
  if (!session)
    return session.status();
  factory = nullptr; // it is not needed any more
  DPC_TRY(runSteps(plan, **session, asked,
                   [&] { result.outputs.push_back((*session)->outputs()); }));
  result.traceEvents = (*session)->traceEvents();
  for (const Tensor &tensor : plan.tensors) {
    Expected<HostTensor> value = (*session)->gather(tensor);
    if (!value)
      return value.status();
    result.tensors[tensor.name] = std::move(*value);
  }
  return Status::success();
}

DeviceRequest deviceRequest(const Plan &plan, bool inProcess,
                            const DeviceWishes &wishes) {
  return {&plan,
          ".",
          inProcess,
          wishes.device,
          30,
          wishes.measuresGemms,
          wishes.gemmCache,
          /*tf32=*/false,
          wishes.remark};
}

Status runInProcess(const Plan &plan, const CudaApis &apis,
                    const RunRequest &asked, const DeviceWishes &wishes,
                    DeviceResult &result) {
  std::unique_ptr<Device> device = makeCudaDevice(apis);
  auto factory = device->executors(deviceRequest(plan, true, wishes));
  if (!factory)
    return factory.status();
  return runSession(plan, std::move(*factory),
                    makeLocalComms(static_cast<int>(plan.ranks()), {30}), asked,
                    wishes, result);
}

/// Runs one session per rank, as if each were a process; returns the result of
/// rank 0.
Status runNccl(const Plan &plan, const CudaApis &apis, const RunRequest &asked,
               const DeviceWishes &wishes, DeviceResult &result) {
  std::unique_ptr<Device> device = makeCudaDevice(apis);
  auto comms = makeLocalComms(static_cast<int>(plan.ranks()), {30});
  std::vector<Status> done(comms.size());
  std::vector<DeviceResult> results(comms.size());
  std::vector<std::thread> threads;
  threads.reserve(comms.size());
  for (size_t i = 0; i < comms.size(); ++i)
    threads.emplace_back([&, i] {
      auto factory = device->executors(deviceRequest(plan, false, wishes));
      std::vector<std::unique_ptr<Communicator>> own;
      own.push_back(std::move(comms[i]));
      done[i] = factory ? runSession(plan, std::move(*factory), std::move(own),
                                     asked, wishes, results[i])
                        : factory.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : done)
    DPC_TRY(status);
  result = std::move(results[0]);
  return Status::success();
}

} // namespace

Status runOnDevice(const Plan &plan, Ranks ranks, const RunRequest &asked,
                   const DeviceWishes &wishes, DeviceResult &result,
                   bool graphs) {
  return ranks == Ranks::InProcess
             ? runInProcess(plan, fakeApis(graphs), asked, wishes, result)
             : runNccl(plan, fakeApis(graphs), asked, wishes, result);
}

} // namespace dpc::rt::test
