#include "runtime/cuda/CudaExecutor.h"

#include "runtime/base/Wait.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unistd.h>

namespace dpc::rt {

/// The time that a destroyed rank waits for its streams.
static constexpr double kEndSeconds = 10;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

CudaExecutor::CudaExecutor(const Plan &plan,
                           std::shared_ptr<const CudaContext> shared,
                           std::unique_ptr<DeviceComm> comm,
                           const ExecutorOptions &options)
    : Executor(plan, comm->rank()), held(std::move(shared)), context(*held),
      cuda(*context.cuda), comm(std::move(comm)), options(options) {}

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

/// Whether the streams finish in time. A failed step may leave them busy,
/// callbacks included. A stream with an error counts as finished.
bool CudaExecutor::finishStreams() const {
  double deadline = nowSeconds() + kEndSeconds;
  for (cudaStream_t stream : ownStreams)
    while (cuda.cudaStreamQuery(stream) == cudaErrorNotReady) {
      if (nowSeconds() > deadline)
        return false;
      usleep(100);
    }
  return true;
}

/// Keeps the resources of hanging streams alive until the process ends, because
/// the streams still use them and destroying them would block.
void CudaExecutor::leakResources() {
  struct Left {
    std::shared_ptr<const CudaContext> context;
    std::unique_ptr<DeviceComm> comm;
    std::unique_ptr<DeviceBlas> blas;
    std::unique_ptr<DeviceConvs> convs;
    std::unique_ptr<DeviceAttention> attention;
    std::unique_ptr<Disk> disk;
    std::unique_ptr<DeviceTrace> trace;
    std::unique_ptr<DeviceNumbers> numbers;
  };
  static auto &all = *new std::vector<Left>; // never destroyed
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  all.push_back({std::move(held), std::move(comm), std::move(blas),
                 std::move(convs), std::move(attention), std::move(disk),
                 std::move(trace), std::move(numbers)});
}

CudaExecutor::~CudaExecutor() {
  if (!finishStreams()) {
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
  for (cudaStream_t stream : ownStreams)
    cuda.cudaStreamDestroy(stream);
  for (cudaEvent_t event : events)
    cuda.cudaEventDestroy(event);
  for (void *memory : pinned)
    cuda.cudaFreeHost(memory);
}

Status CudaExecutor::setUp(Communicator &control) {
  DPC_TRY(cuda.check(cuda.cudaSetDevice(context.device), "cudaSetDevice"));
  DPC_TRY(comm->makeGroups(plan.groups));
  DPC_TRY(makeStreams());
  DPC_TRY(makeMemory());
  Expected<std::unique_ptr<DeviceBlas>> made =
      DeviceBlas::create(cuda, *context.blas, *context.own, context.tf32);
  if (!made)
    return made.status();
  blas = std::move(*made);
  DPC_TRY(bindStep());
  if (options.trace) {
    auto made = DeviceTrace::create(cuda, plan, rankIndex, program.tasks);
    if (!made)
      return made.status();
    trace = std::move(*made);
  }
  if (options.checkNumbers) {
    auto made = DeviceNumbers::create(cuda, *context.own, *comm);
    if (!made)
      return made.status();
    numbers = std::move(*made);
  }
  return chooseRoutines(control);
}

Status CudaExecutor::chooseRoutines(Communicator &control) {
  std::vector<DeviceProduct> products;
  for (const Task &task : program.tasks)
    if (auto *op = std::get_if<MatmulOp>(&task.instruction->op);
        op && !isEmpty(*op))
      products.push_back(productOf(task, *op));
  GemmChoices choices(context.gemms, cuda, *blas, *comm, streams[0], arena,
                      arenaBytes);
  DPC_TRY(choices.choose(plan, products, control));
  DPC_TRY(remarkSplits(products));
  if (!choices.hasWritten())
    return Status::success();
  DPC_TRY(clearArena());
  return comm->wait(streams[0]);
}

/// The first rank of each pipeline stage reports the epilogues that cuBLASLt
/// lacks here; the other ranks of a stage have the same GEMMs.
Status CudaExecutor::remarkSplits(const std::vector<DeviceProduct> &products) {
  std::set<std::string> names;
  for (const DeviceProduct &product : products) {
    Expected<bool> isSplit = blas->isSplit(product);
    if (!isSplit)
      return isSplit.status();
    if (*isSplit)
      names.insert(std::string(nameOf(product.op->epilogue)));
  }
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  bool isFirst = true;
  for (int64_t rank = 0; rank < rankIndex; ++rank)
    isFirst &= plan.mesh.stageOf(rank) != stageIndex;
  if (!names.empty() && isFirst && context.gemms.remark)
    context.gemms.remark("cuBLASLt has no routine here for some GEMMs with "
                         "epilogue " +
                         text +
                         "; a kernel of the runtime computes the epilogue");
  return Status::success();
}

Status CudaExecutor::clearArena() {
  return cuda.check(cuda.cudaMemsetAsync(arena, fillByte(),
                                         static_cast<size_t>(arenaBytes),
                                         streams[0]),
                    "cudaMemsetAsync");
}

Status CudaExecutor::makeStreams() {
  for (int i = 0; i < kNumQueues; ++i) {
    if (i > 0 && !options.overlap) {
      streams[i] = streams[0];
      continue;
    }
    DPC_TRY(cuda.check(
        cuda.cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking),
        "cudaStreamCreate"));
    ownStreams.push_back(streams[i]);
  }
  for (cudaEvent_t *event : {&begun, &ended[1], &ended[2]}) {
    Expected<cudaEvent_t> made = newEvent();
    if (!made)
      return made.status();
    *event = *made;
  }
  return Status::success();
}

/// Allocates device memory in one block. Its size depends on the program, which
/// needs the address; so the program is made twice, first for the size.
Status CudaExecutor::makeMemory() {
  Expected<DeviceProgram> sized = planDevice(plan, rankIndex, nullptr);
  if (!sized)
    return sized.status();
  messages = (plan.bytesOf(Space::Device, stageIndex) + 255) / 256 * 256;
  arenaBytes = std::max<int64_t>(messages + sized->messageBytes, 256);
  Expected<void *> memory = comm->allocate(arenaBytes);
  if (!memory)
    return Status(memory.status().code(),
                  "a rank needs " + std::to_string(arenaBytes) +
                      " bytes of the GPU: " + memory.status().message());
  arena = static_cast<char *>(*memory);
  DPC_TRY(clearArena());
  Expected<Pinned> host = pin(plan.bytesOf(Space::Host, stageIndex));
  if (!host)
    return host.status();
  hostArena = *host;
  std::memset(hostArena.data, fillByte(), hostArena.bytes);
  if (int64_t onDisk = plan.bytesOf(Space::Disk, stageIndex)) {
    Expected<OffloadFile> file =
        OffloadFile::create(options.offloadDir, rankIndex, onDisk);
    if (!file)
      return file.status();
    disk->file = *file;
    int64_t longest = 0;
    for (const Buffer &buffer : plan.buffers)
      if (holds(buffer.id) && buffer.space == Space::Disk)
        longest = std::max(longest, buffer.bytes);
    Expected<Pinned> made = pin(longest);
    if (!made)
      return made.status();
    disk->bounce = *made;
  }
  return comm->wait(streams[0]);
}

Expected<CudaExecutor::Pinned> CudaExecutor::pin(int64_t bytes) {
  void *memory = nullptr;
  DPC_TRY(cuda.check(
      cuda.cudaHostAlloc(&memory,
                         static_cast<size_t>(std::max<int64_t>(bytes, 64)),
                         cudaHostAllocDefault),
      "cudaHostAlloc"));
  pinned.push_back(memory);
  return Pinned{static_cast<char *>(memory), bytes};
}

Expected<cudaEvent_t> CudaExecutor::newEvent() {
  cudaEvent_t event = nullptr;
  DPC_TRY(
      cuda.check(cuda.cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreate"));
  events.push_back(event);
  return event;
}

/// Resolves everything that a step needs, so that a graph can hold it.
Status CudaExecutor::bindStep() {
  Expected<DeviceProgram> made = planDevice(plan, rankIndex, arena);
  if (!made)
    return made.status();
  program = std::move(*made);
  signals.resize(program.events);
  for (size_t i = 0; i < program.tasks.size(); ++i)
    DPC_TRY(bindTask(static_cast<int>(i)));
  if (convs)
    DPC_TRY(convs->allocate());
  if (attention)
    DPC_TRY(attention->allocate());
  auto place = [&](std::map<size_t, Pinned> &places, size_t index,
                   int64_t bytes) -> Status {
    Expected<Pinned> at = pin(bytes);
    if (at)
      places[index] = *at;
    return at.status();
  };
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &port = plan.outputs[i];
    bool isStored = std::any_of(
        program.tasks.begin(), program.tasks.end(), [&](const Task &task) {
          auto *op = std::get_if<StoreOutputOp>(&task.instruction->op);
          return op && op->output == static_cast<int>(i);
        });
    if (!isStored && holds(port.buffer) &&
        ownsShard(port.layout, plan.mesh, rankIndex, 0, stageIndex))
      DPC_TRY(place(taken, i, plan.buffers[port.buffer].bytes));
  }
  for (size_t i = 0; i < plan.scalars.size(); ++i)
    if (holds(plan.scalars[i].buffer)) {
      DPC_TRY(place(scalars, i, 4));
      if (plan.scalars[i].skips >= 0)
        DPC_TRY(place(skips, i, 4));
    }
  return Status::success();
}

Status CudaExecutor::bindConv(const ConvOp &op) {
  if (!convs) {
    auto made = context.openConvs(cuda);
    if (!made)
      return Status(made.status().code(),
                    "the plan has convolutions: " + made.status().message());
    convs = std::move(*made);
  }
  return convs->prepare(op);
}

template <typename Op> Status CudaExecutor::bindAttention(const Op &op) {
  if (!attention) {
    auto made = context.openAttention(cuda, context.device);
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
  if (task.signals >= 0) {
    Expected<cudaEvent_t> event = newEvent();
    if (!event)
      return event.status();
    signals[task.signals].push_back(*event);
  }
  if (auto *kernel = std::get_if<KernelOp>(&op)) {
    if (!context.kernels.count(kernel->symbol))
      return Status::notFound("kernel " + kernel->symbol + " is not loaded");
  } else if (auto *matmul = std::get_if<MatmulOp>(&op)) {
    return DeviceBlas::checkTypes(*matmul, type(matmul->a), type(matmul->b),
                                  type(matmul->c));
  } else if (auto *conv = std::get_if<ConvOp>(&op)) {
    return bindConv(*conv);
  } else if (auto *attends = std::get_if<AttentionOp>(&op)) {
    return bindAttention(*attends);
  } else if (auto *gradient = std::get_if<AttentionGradOp>(&op)) {
    return bindAttention(*gradient);
  } else if (std::holds_alternative<LoadInputOp>(op) ||
             std::holds_alternative<StoreOutputOp>(op)) {
    auto *load = std::get_if<LoadInputOp>(&op);
    int buffer = load ? load->buffer
                      : plan.outputs[std::get<StoreOutputOp>(op).output].buffer;
    Expected<Pinned> at = pin(plan.buffers[buffer].bytes);
    if (!at)
      return at.status();
    staged[id] = *at;
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

Status CudaExecutor::copy(void *to, const void *from, int64_t bytes,
                          cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0)
    return Status::success();
  return cuda.check(
      cuda.cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream),
      "cudaMemcpyAsync");
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

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

/// Reports first, because abort() may end the job.
void CudaExecutor::fail(const Status &status) {
  if (options.onFailure)
    options.onFailure(status);
  comm->abort();
}

Status CudaExecutor::step(const StepData &data) {
  DPC_TRY(cuda.check(cuda.cudaSetDevice(context.device), "cudaSetDevice"));
  setScalars(data.step);
  takeInputs(data);
  isTraced = trace && trace->wantsStep();
  if (isTraced)
    DPC_TRY(trace->startStep(data.step, streams[0]));
  fault.reset();
  if (numbers && !options.poison)
    DPC_TRY(checkTensors());
  DPC_TRY(launchStep());
  DPC_TRY(comm->wait(streams[0]));
  if (isTraced)
    DPC_TRY(trace->collectStep());
  {
    std::lock_guard lock(disk->mutex);
    DPC_TRY(disk->failure);
  }
  takeOutputs(data);
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

bool CudaExecutor::isCaptured() const {
  return context.graphs && comm->capturable() && stepsRun > 0 && !isTraced &&
         !numbers;
}

Status CudaExecutor::launchStep() {
  if (!isCaptured())
    return issueStep();
  if (!graph)
    DPC_TRY(captureStep());
  return cuda.check(cuda.cudaGraphLaunch(graph, streams[0]), "cudaGraphLaunch");
}

Status CudaExecutor::captureStep() {
  DPC_TRY(cuda.check(
      cuda.cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal),
      "cudaStreamBeginCapture"));
  Status issued = issueStep();
  cudaGraph_t made = nullptr;
  cudaError_t ended = cuda.cudaStreamEndCapture(streams[0], &made);
  DPC_TRY(issued);
  DPC_TRY(cuda.check(ended, "cudaStreamEndCapture"));
  Status status = cuda.check(cuda.cudaGraphInstantiate(&graph, made, 0),
                             "cudaGraphInstantiate");
  cuda.cudaGraphDestroy(made);
  return status;
}

Status CudaExecutor::issueStep() {
  signalled.assign(signals.size(), 0);
  for (auto &[i, at] : scalars)
    DPC_TRY(copy(device(plan.buffers[plan.scalars[i].buffer]), at.data, 4,
                 cudaMemcpyHostToDevice, streams[0]));
  DPC_TRY(cuda.check(cuda.cudaEventRecord(begun, streams[0]), "begin"));
  for (int i = 1; i < kNumQueues; ++i)
    if (streams[i] != streams[0])
      DPC_TRY(
          cuda.check(cuda.cudaStreamWaitEvent(streams[i], begun, 0), "begin"));
  for (const DeviceStep &step : program.steps)
    DPC_TRY(issueOne(step));
  DPC_TRY(joinStreams());
  for (auto &[i, at] : taken)
    DPC_TRY(copy(at.data, device(plan.buffers[plan.outputs[i].buffer]),
                 at.bytes, cudaMemcpyDeviceToHost, streams[0]));
  for (auto &[i, at] : skips)
    DPC_TRY(copy(at.data, device(plan.buffers[plan.scalars[i].skips]), 4,
                 cudaMemcpyDeviceToHost, streams[0]));
  return Status::success();
}

Status CudaExecutor::joinStreams() {
  for (int i = 1; i < kNumQueues; ++i) {
    if (streams[i] == streams[0])
      continue;
    DPC_TRY(cuda.check(cuda.cudaEventRecord(ended[i], streams[i]), "end"));
    DPC_TRY(
        cuda.check(cuda.cudaStreamWaitEvent(streams[0], ended[i], 0), "end"));
  }
  return Status::success();
}

Status CudaExecutor::waitFor(const Task &task) {
  cudaStream_t stream = streamOf(task.instruction->queue);
  for (const EventWait &wait : task.waits)
    if (wait.count > 0)
      DPC_TRY(cuda.check(cuda.cudaStreamWaitEvent(
                             stream, signals[wait.event][wait.count - 1], 0),
                         "waiting for an event"));
  return Status::success();
}

Status CudaExecutor::signal(const Task &task) {
  if (task.signals < 0)
    return Status::success();
  cudaEvent_t event = signals[task.signals][signalled[task.signals]++];
  return cuda.check(
      cuda.cudaEventRecord(event, streamOf(task.instruction->queue)),
      "recording an event");
}

/// Sets the 4-byte values of a step. Counters in states came back with the last
/// step.
void CudaExecutor::setScalars(int64_t number) {
  for (auto &[i, at] : scalars) {
    const ScalarInput &scalar = plan.scalars[i];
    int64_t count = number;
    if (auto it = skips.find(i); it != skips.end()) {
      std::vector<char> scratch;
      if (stepsRun == 0)
        if (auto first = readBuffer(scalar.skips, scratch))
          std::memcpy(it->second.data, *first, 4);
      count -=
          static_cast<int64_t>(loadAsDouble(it->second.data, DType::F32, 0));
    }
    double value = scalar.name == "lr" ? learningRate(plan.lrSchedule, count)
                                       : static_cast<double>(count);
    storeFromDouble(at.data, DType::F32, 0, value);
  }
}

void CudaExecutor::takeInputs(const StepData &data) {
  for (auto &[id, at] : staged) {
    const Task &task = program.tasks[id];
    auto *load = std::get_if<LoadInputOp>(&task.instruction->op);
    if (!load)
      continue;
    const Port &port = plan.inputs[load->input];
    std::memset(at.data, fillByte(), at.bytes);
    packShard(data.inputs[load->input], at.data, sizeOf(port.dtype),
              port.layout, plan.mesh, rankIndex, task.entry->microBatch);
  }
}

void CudaExecutor::takeOutputs(const StepData &data) {
  auto unpack = [&](size_t output, const char *from, int64_t microBatch) {
    const Port &port = plan.outputs[output];
    if (ownsShard(port.layout, plan.mesh, rankIndex, microBatch, stageIndex))
      unpackShard(from, (*data.outputs)[output].data.data(), sizeOf(port.dtype),
                  port.layout, plan.mesh, rankIndex, microBatch);
  };
  for (auto &[id, at] : staged) {
    const Task &task = program.tasks[id];
    if (auto *store = std::get_if<StoreOutputOp>(&task.instruction->op))
      unpack(store->output, at.data, task.entry->microBatch);
  }
  for (auto &[output, at] : taken)
    unpack(output, at.data, 0);
}

} // namespace dpc::rt
