#include "test/unit/cuda/FakeAttention.h"

#include "test/unit/cuda/FakeCuda.h"

#include <atomic>
#include <cstring>
#include <set>

namespace dpc::rt::test {

namespace {

constexpr int64_t kFakeWorkspace = 512;
std::atomic<FakeAttentionFault> theFault = FakeAttentionFault::None;

class FakeAttention : public DeviceAttention {
public:
  explicit FakeAttention(const CudaApi &cuda) : cuda(cuda) {}
  ~FakeAttention() override {
    if (workspace)
      cuda.cudaFree(workspace);
  }

  Status prepare(const AttentionOp &op) override {
    return add(&op, op.shape, false);
  }
  Status prepare(const AttentionGradOp &op, int64_t bytes) override {
    if (bytes != (op.workspace < 0 ? 0 : kFakeWorkspace))
      return Status::invalid("another workspace");
    return add(&op, op.shape, true);
  }
  Status allocate() override {
    if (workspace || prepared.empty())
      return Status::invalid("allocated twice, or for nothing");
    DPC_TRY(assign(workspace, cuda.allocate(4096)));
    return theFault == FakeAttentionFault::NoMemory ? Status::io("no workspace")
                                                    : Status::success();
  }
  Status run(const AttentionOp &op, const AttentionData &data,
             cudaStream_t stream) override {
    return give(op, data, stream, false);
  }
  Status run(const AttentionGradOp &op, const AttentionData &data,
             cudaStream_t stream) override {
    if (data.workspace)
      enqueueOn(stream, [to = data.workspace] {
        std::memset(to, 0xff, kFakeWorkspace);
      });
    return give(op, data, stream, true);
  }

private:
  Status add(const void *op, const AttentionShape &shape, bool isGradient) {
    if (workspace ||
        (shape.compute != DType::BF16 && shape.compute != DType::F16))
      return Status::invalid("prepared late, or not of 16 bits");
    if (isGradient && theFault == FakeAttentionFault::NoEngine)
      return Status::unsupported("no engine");
    prepared.insert(op);
    return Status::success();
  }
  template <typename Op>
  Status give(const Op &op, const AttentionData &data, cudaStream_t stream,
              bool isGradient) {
    if (!workspace || !prepared.count(&op))
      return Status::invalid("not prepared");
    if (isGradient && theFault == FakeAttentionFault::Run)
      return Status::io("cuDNN: an error of the fake");
    enqueueOn(stream, [&op, data] { (void)runAttention(op, data).ok(); });
    return Status::success();
  }

  const CudaApi &cuda;
  std::set<const void *> prepared;
  void *workspace = nullptr;
};

} // namespace

void setFakeAttentionFault(FakeAttentionFault fault) { theFault = fault; }

Expected<std::unique_ptr<DeviceAttention>>
openFakeAttention(const CudaApi &cuda, int /*device*/) {
  if (theFault == FakeAttentionFault::NoLibrary)
    return Status::unsupported("no cuDNN here");
  return std::unique_ptr<DeviceAttention>(
      std::make_unique<FakeAttention>(cuda));
}

} // namespace dpc::rt::test
