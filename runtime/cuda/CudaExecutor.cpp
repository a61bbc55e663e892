#include "runtime/cuda/CudaExecutor.h"

#include "runtime/base/Wait.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dpc::rt {

/// How long the destructor waits until the streams are idle.
static constexpr double kEndSeconds = 10;

CudaExecutor::CudaExecutor(const Plan &plan,
                           std::shared_ptr<const CudaContext> shared,
                           std::unique_ptr<DeviceComm> comm,
                           const ExecutorOptions &options)
    : Executor(plan, comm->rank()), held(std::move(shared)), context(*held),
      cuda(context.apis.cuda), comm(std::move(comm)), options(options),
      fillByte(options.poison ? 0xff : 0),
      pinned(std::make_unique<PinnedMemory>(cuda)),
      values(plan, program, rankIndex, fillByte) {}

Expected<std::unique_ptr<Executor>>
CudaExecutor::create(const Plan &plan,
                     std::shared_ptr<const CudaContext> context,
                     std::unique_ptr<DeviceComm> comm, Communicator &control,
                     const ExecutorOptions &options) {
  std::unique_ptr<CudaExecutor> self(
      new CudaExecutor(plan, std::move(context), std::move(comm), options));
  Status status = self->setUp(control);
  if (!status.ok()) {
    self->fail(status);
    return status;
  }
  return std::unique_ptr<Executor>(std::move(self));
}

/// Keeps all resources until the process ends. Called if a stream hangs: it
/// still uses the resources, and destroying them would block.
void CudaExecutor::leakResources() {
  static auto &kept = *new std::vector<std::shared_ptr<const void>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  auto keep = [&](auto &...resources) {
    (kept.push_back(std::move(resources)), ...);
  };
  keep(held, comm, blas, convs, attention, pinned, disk, streams, trace,
       numbers);
}

CudaExecutor::~CudaExecutor() {
  if (streams && !streams->finish(kEndSeconds)) {
    leakResources();
    return;
  }
  blas = nullptr;
  convs = nullptr;
  attention = nullptr;
  trace = nullptr;
  numbers = nullptr;
  if (graph)
    cuda.cudaGraphExecDestroy(graph);
  streams = nullptr;
  pinned = nullptr;
}

Status CudaExecutor::setUp(Communicator &control) {
  DPC_TRY(cuda.setDevice(context.device));
  DPC_TRY(comm->makeGroups(plan.groups));
  DPC_TRY(assign(streams, DeviceStreams::create(cuda, options.overlap)));
  DPC_TRY(makeMemory());
  DPC_TRY(assign(blas, DeviceBlas::create(cuda, context.apis.blas, *context.own,
                                          context.tf32)));
  DPC_TRY(bindStep());
  if (options.trace) {
    DPC_TRY(assign(trace,
                   DeviceTrace::create(cuda, plan, rankIndex, program.tasks)));
  }
  if (options.checkNumbers) {
    DPC_TRY(assign(numbers, DeviceNumbers::create(cuda, *context.own, *comm)));
  }
  return chooseRoutines(control);
}

/// Reports epilogues that cuBLASLt cannot compute on this device. All ranks of
/// a pipeline stage have the same GEMMs, so only the first one reports.
static Status remarkSplits(DeviceBlas &blas, const GemmTuning &tuning,
                           const std::vector<DeviceGemm> &gemms,
                           const Plan &plan, int rank) {
  std::set<std::string> names;
  for (const DeviceGemm &gemm : gemms) {
    bool isSplit = false;
    DPC_TRY(assign(isSplit, blas.isSplit(gemm)));
    if (isSplit)
      names.insert(std::string(nameOf(gemm.op->epilogue)));
  }
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  bool isFirst = true;
  for (int64_t other = 0; other < rank; ++other)
    isFirst &= plan.mesh.stageOf(other) != plan.mesh.stageOf(rank);
  if (!names.empty() && isFirst && tuning.remark)
    tuning.remark("cuBLASLt has no routine on this GPU for some GEMMs with "
                  "epilogue " +
                  text + "; a kernel of the runtime computes the epilogue");
  return Status::success();
}

Status CudaExecutor::chooseRoutines(Communicator &control) {
  std::vector<DeviceGemm> gemms;
  for (const Task &task : program.tasks)
    if (auto *op = std::get_if<MatmulOp>(&task.instruction->op);
        op && !isEmpty(*op))
      gemms.push_back(gemmOf(plan, arena, task, *op));
  GemmChoices choices(context.gemms, cuda, *blas, *comm, streams->main(), arena,
                      arenaBytes);
  DPC_TRY(choices.choose(plan, gemms, control));
  DPC_TRY(remarkSplits(*blas, context.gemms, gemms, plan, rankIndex));
  if (!choices.hasWritten())
    return Status::success();
  DPC_TRY(cuda.set(arena, fillByte, arenaBytes, streams->main()));
  return comm->wait(streams->main());
}

/// Allocates device memory in one block. The program determines the size of the
/// block, but also contains its address. The program is therefore built twice;
/// the first program, `sized`, is used only for the size.
Status CudaExecutor::makeMemory() {
  DeviceProgram sized;
  DPC_TRY(assign(sized, planDevice(plan, rankIndex, nullptr)));
  messages = (plan.bytesOf(Space::Device, stageIndex) + 255) / 256 * 256;
  arenaBytes = std::max<int64_t>(messages + sized.messageBytes, 256);
  Expected<void *> memory = comm->allocate(arenaBytes);
  if (!memory)
    return Status(memory.status().code(),
                  "a rank needs " + std::to_string(arenaBytes) +
                      " bytes of the GPU: " + memory.status().message());
  arena = static_cast<char *>(*memory);
  DPC_TRY(cuda.set(arena, fillByte, arenaBytes, streams->main()));
  DPC_TRY(
      assign(hostArena, pinned->take(plan.bytesOf(Space::Host, stageIndex))));
  std::memset(hostArena.data, fillByte, hostArena.bytes);
  if (int64_t onDisk = plan.bytesOf(Space::Disk, stageIndex)) {
    DPC_TRY(assign(disk->file,
                   OffloadFile::create(options.offloadDir, rankIndex, onDisk)));
    int64_t longest = 0;
    for (const Buffer &buffer : plan.buffers)
      if (holds(buffer.id) && buffer.space == Space::Disk)
        longest = std::max(longest, buffer.bytes);
    DPC_TRY(assign(disk->bounce, pinned->take(longest)));
  }
  return comm->wait(streams->main());
}

/// Runs before the first step, because a CUDA graph contains all addresses.
Status CudaExecutor::bindStep() {
  DPC_TRY(assign(program, planDevice(plan, rankIndex, arena)));
  DPC_TRY(streams->bind(program));
  DPC_TRY(values.bind(*pinned));
  for (size_t i = 0; i < program.tasks.size(); ++i)
    DPC_TRY(bindTask(static_cast<int>(i)));
  if (convs)
    DPC_TRY(convs->allocate());
  return attention ? attention->allocate() : Status::success();
}

static Status prepareConv(const CudaContext &context, const ConvOp &op,
                          std::unique_ptr<DeviceConvs> &convs) {
  if (!convs) {
    auto made = context.apis.openConvs(context.apis.cuda);
    if (!made)
      return Status(made.status().code(),
                    "the plan has convolutions: " + made.status().message());
    convs = std::move(*made);
  }
  return convs->prepare(op);
}

template <typename Op>
static Status prepareAttention(const CudaContext &context, const Plan &plan,
                               const Op &op,
                               std::unique_ptr<DeviceAttention> &attention) {
  if (!attention) {
    auto made = context.apis.openAttention(context.apis.cuda, context.device);
    if (!made)
      return Status(made.status().code(),
                    "the plan has attention as one instruction: " +
                        made.status().message() +
                        "; a plan of --attention=expanded is accepted");
    attention = std::move(*made);
  }
  if constexpr (std::is_same_v<Op, AttentionGradOp>)
    return attention->prepare(
        op, op.workspace < 0 ? 0 : plan.buffers[op.workspace].bytes);
  else
    return attention->prepare(op);
}

Status CudaExecutor::bindTask(int id) {
  const Task &task = program.tasks[id];
  const OpVariant &op = task.instruction->op;
  auto type = [&](int buffer) { return plan.buffers[buffer].dtype; };
  if (auto *kernel = std::get_if<KernelOp>(&op)) {
    if (!context.kernels.count(kernel->symbol))
      return Status::notFound("kernel " + kernel->symbol + " is not loaded");
  } else if (auto *matmul = std::get_if<MatmulOp>(&op)) {
    return DeviceBlas::checkTypes(*matmul, type(matmul->a), type(matmul->b),
                                  type(matmul->c));
  } else if (auto *experts = std::get_if<ExpertMatmulOp>(&op)) {
    if (experts->workspace < 0)
      return Status::unsupported("a product of experts has no workspace; "
                                 "compile the plan with --target-gpu");
  } else if (auto *conv = std::get_if<ConvOp>(&op)) {
    return prepareConv(context, *conv, convs);
  } else if (auto *attends = std::get_if<AttentionOp>(&op)) {
    return prepareAttention(context, plan, *attends, attention);
  } else if (auto *gradient = std::get_if<AttentionGradOp>(&op)) {
    return prepareAttention(context, plan, *gradient, attention);
  } else if (auto *transfer = std::get_if<TransferOp>(&op)) {
    for (int buffer : {transfer->in, transfer->out})
      if (plan.buffers[buffer].space == Space::Disk) {
        disk->moves.push_back({disk.get(), plan.buffers[buffer].offset,
                               plan.buffers[buffer].bytes,
                               buffer == transfer->out});
        diskMoveOf[id] = &disk->moves.back();
      }
  }
  return Status::success();
}

Status CudaExecutor::runStep(const StepData &data) {
  Status status = step(data);
  if (status.ok())
    return status;
  if (status.code() != StatusCode::Cancelled)
    status = Status(status.code(), "step " + std::to_string(data.step) + ", " +
                                       status.message());
  fail(status);
  return status;
}

/// Calls `onFailure` first, because abort() may end the job.
void CudaExecutor::fail(const Status &status) {
  if (options.onFailure)
    options.onFailure(status);
  comm->abort();
}

Status CudaExecutor::step(const StepData &data) {
  DPC_TRY(cuda.setDevice(context.device));
  if (stepsRun == 0)
    values.setSkips([&, scratch = std::vector<char>()](int buffer) mutable {
      Expected<const char *> bytes = readBuffer(buffer, scratch);
      return bytes ? *bytes : nullptr;
    });
  values.takeInputs(data);
  isTraced = trace && trace->wantsStep();
  if (isTraced)
    DPC_TRY(trace->startStep(data.step, streams->main()));
  fault.reset();
  if (numbers && !options.poison)
    DPC_TRY(checkTensors());
  DPC_TRY(launchStep());
  DPC_TRY(comm->wait(streams->main()));
  if (isTraced)
    DPC_TRY(trace->collectStep());
  {
    std::lock_guard lock(disk->mutex);
    DPC_TRY(disk->failure);
  }
  values.takeOutputs(data);
  ++stepsRun;
  return Status::success();
}

std::vector<TraceLane> CudaExecutor::traceLanes() const {
  return trace ? trace->traceLanes() : std::vector<TraceLane>();
}

void CudaExecutor::forgetTrace() {
  if (trace)
    trace->forget();
}

Status CudaExecutor::launchStep() {
  bool isCaptured = context.apis.graphs && comm->capturable() && stepsRun > 0 &&
                    !isTraced && !numbers;
  if (!isCaptured)
    return issueStep();
  if (!graph) {
    DPC_TRY(assign(graph,
                   cuda.capture(streams->main(), [&] { return issueStep(); })));
  }
  return cuda.check(cuda.cudaGraphLaunch(graph, streams->main()),
                    "cudaGraphLaunch");
}

Status CudaExecutor::issueStep() {
  DPC_TRY(values.sendScalars(cuda, arena, streams->main()));
  DPC_TRY(streams->fork());
  for (const DeviceStep &step : program.steps)
    DPC_TRY(issueOne(step));
  DPC_TRY(streams->join());
  return values.fetchOutputs(cuda, arena, streams->main());
}

} // namespace dpc::rt
