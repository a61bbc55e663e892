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
  HostTensor ids = HostTensor::zeros(DType::I64, {20});
  for (int64_t i = 0; i < ids.elements(); ++i) // some are of no expert
    ids.set(i, static_cast<double>(i * i % 7) - 1);
  request.tensors = {{"m.ids", ids},
                     {"w", ramp({4, 2}, 0.13, 0.5)},
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
  InitialValues values(plan, ".", {}, asked.tensors);
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
  factory = nullptr;
  DPC_TRY(runSteps(plan, **session, asked,
                   [&] { result.outputs.push_back((*session)->outputs()); }));
  result.traceEvents = (*session)->traceEvents();
  for (const Tensor &tensor : plan.tensors) {
    DPC_TRY(assign(result.tensors[tensor.name], (*session)->gather(tensor)));
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

} // namespace

Expected<DeviceResult> runOnDevice(const Plan &plan, Ranks ranks,
                                   const RunRequest &asked,
                                   const DeviceWishes &wishes, bool graphs) {
  std::unique_ptr<Device> device = makeCudaDevice(fakeApis(graphs));
  bool inProcess = ranks == Ranks::InProcess;
  // One session for all ranks, or one for each rank as in separate processes.
  std::vector<std::vector<std::unique_ptr<Communicator>>> sessions;
  for (auto &comm : makeLocalComms(static_cast<int>(plan.ranks()), {30})) {
    if (sessions.empty() || !inProcess)
      sessions.emplace_back();
    sessions.back().push_back(std::move(comm));
  }
  std::vector<Status> done(sessions.size());
  std::vector<DeviceResult> results(sessions.size());
  onThreads(sessions.size(), [&](size_t i) {
    auto factory = device->executors(deviceRequest(plan, inProcess, wishes));
    done[i] =
        factory ? runSession(plan, std::move(*factory), std::move(sessions[i]),
                             asked, wishes, results[i])
                : factory.status();
  });
  for (const Status &status : done)
    DPC_TRY(status);
  return std::move(results[0]);
}

} // namespace dpc::rt::test
