#include "runtime/cuda/CudaProbe.h"

#include "runtime/base/OneLine.h"
#include "runtime/cuda/DeviceBlas.h"
#include "runtime/cuda/DeviceKernels.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <random>
#include <thread>

namespace dpc::rt {

namespace {

/// The time for which a call is repeated: long enough that the GPU lowers its
/// clocks under load and that the host's overhead is negligible.
constexpr double kSecondsOfRun = 0.02;
constexpr int kMostRuns = 2000, kMostRoutines = 16;

/// Waits without a timeout, because measurements take milliseconds.
Status waitFor(const CudaApi &cuda, cudaStream_t stream) {
  for (;;) {
    cudaError_t state = cuda.cudaStreamQuery(stream);
    if (state != cudaErrorNotReady)
      return cuda.check(state, "cudaStreamQuery");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

class CudaProbe : public DeviceProbe {
public:
  CudaProbe(const CudaApis &apis, int index, int64_t mostBytes)
      : apis(apis), index(index), mostBytes(mostBytes) {}
  ~CudaProbe() override;

  Status open();
  const DeviceFacts &facts() const override { return known; }
  Expected<double> gemm(const GemmShape &shape) override;
  Expected<double> stream(int64_t bytes) override;
  Expected<double> hostCopy(int64_t bytes, bool toDevice) override;
  Expected<double> launch() override;

private:
  Status readFacts();
  Status takeRoom();
  Status chooseRoutine(DeviceGemm gemm);
  /// Returns the GEMM with the addresses of the i-th copy of its matrices.
  DeviceGemm copyOf(const MatmulOp &op, DType type, int64_t i) const;
  template <typename F> Expected<double> secondsOf(int runs, F &&run);
  template <typename F> Expected<double> steadySecondsOf(F &&run);
  Expected<double> graphSeconds(int launches);

  CudaApis apis;
  const CudaApi &cuda = apis.cuda;
  int index;
  int64_t mostBytes;
  DeviceFacts known;
  cudaStream_t queue = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  std::unique_ptr<DeviceKernels> own;
  std::unique_ptr<DeviceBlas> blas;
  char *room = nullptr, *pinned = nullptr;
  int64_t roomBytes = 0, pinnedBytes = 0;
  std::deque<MatmulOp> ops; ///< the address of an op is its key in `blas`
};

} // namespace

CudaProbe::~CudaProbe() {
  blas = nullptr;
  own = nullptr;
  if (room)
    cuda.cudaFree(room);
  if (pinned)
    cuda.cudaFreeHost(pinned);
  for (cudaEvent_t event : {begin, end})
    if (event)
      cuda.cudaEventDestroy(event);
  if (queue)
    cuda.cudaStreamDestroy(queue);
}

Status CudaProbe::open() {
  DPC_TRY(cuda.setDevice(index));
  DPC_TRY(
      cuda.check(cuda.cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking),
                 "cudaStreamCreate"));
  for (cudaEvent_t *event : {&begin, &end})
    DPC_TRY(assign(*event, cuda.newEvent(cudaEventDefault)));
  DPC_TRY(assign(own, DeviceKernels::load(cuda, apis.kernels)));
  DPC_TRY(assign(blas, DeviceBlas::create(cuda, apis.blas, *own)));
  DPC_TRY(readFacts());
  return takeRoom();
}

Status CudaProbe::readFacts() {
  cudaDeviceProp properties = {};
  DPC_TRY(cuda.check(cuda.cudaGetDeviceProperties(&properties, index),
                     "cudaGetDeviceProperties"));
  properties.name[sizeof properties.name - 1] = 0;
  known.name = oneLine(properties.name);
  known.multiprocessors = properties.multiProcessorCount;
  known.libraries =
      "cuBLASLt " + std::to_string(apis.blas.cublasLtGetVersion());
  size_t free = 0, total = 0;
  DPC_TRY(cuda.check(cuda.cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  known.memoryBytes = static_cast<int64_t>(total);
  known.reservedBytes = static_cast<int64_t>(total - free);
  return Status::success();
}

Status CudaProbe::takeRoom() {
  int64_t half = (known.memoryBytes - known.reservedBytes) / 2;
  roomBytes = std::min(mostBytes, half);
  DPC_TRY(assign(room, cuda.allocate(roomBytes, "memory for measurements")));
  return fillWithNumbers(cuda, room, roomBytes, queue);
}

/// Returns the seconds per call by the device's clock.
template <typename F> Expected<double> CudaProbe::secondsOf(int runs, F &&run) {
  DPC_TRY(cuda.record(begin, queue));
  for (int i = 0; i < runs; ++i)
    DPC_TRY(run(i));
  DPC_TRY(cuda.record(end, queue));
  DPC_TRY(waitFor(cuda, queue));
  double milliseconds = 0;
  DPC_TRY(assign(milliseconds, cuda.millisecondsBetween(begin, end)));
  return milliseconds * 1e-3 / runs;
}

/// Returns the seconds per call after a warm-up.
template <typename F> Expected<double> CudaProbe::steadySecondsOf(F &&run) {
  Expected<double> first = secondsOf(3, run);
  if (!first)
    return first;
  double runs = kSecondsOfRun / std::max(*first, 1e-9);
  return secondsOf(static_cast<int>(std::clamp(runs, 3.0, double(kMostRuns))),
                   run);
}

static int64_t roundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

DeviceGemm CudaProbe::copyOf(const MatmulOp &op, DType type, int64_t i) const {
  int64_t a = roundUp(op.m * op.k * sizeOf(type)),
          b = roundUp(op.k * op.n * sizeOf(type)),
          c = roundUp(op.m * op.n * sizeOf(type));
  int64_t copies = std::max<int64_t>(1, roomBytes / (a + b + c));
  char *at = room + i % copies * (a + b + c);
  return {&op, type, type, type, at, at + a, at + a + b};
}

/// Chooses the fastest of cuBLASLt's first routines, like GemmChoices.
Status CudaProbe::chooseRoutine(DeviceGemm gemm) {
  std::vector<cublasLtMatmulAlgo_t> candidates;
  DPC_TRY(assign(candidates, blas->candidates(gemm, kMostRoutines)));
  double best = std::numeric_limits<double>::infinity();
  const cublasLtMatmulAlgo_t *fastest = nullptr;
  for (const cublasLtMatmulAlgo_t &how : candidates) {
    if (!blas->accepts(gemm, how))
      continue;
    DPC_TRY(blas->choose(gemm, how));
    auto run = [&](int i) {
      return blas->run(copyOf(*gemm.op, gemm.cType, i), queue);
    };
    if (Expected<double> first = secondsOf(1, run);
        !first || *first > 3 * best) // the first call also loads the code
      continue;
    Expected<double> seconds = secondsOf(3, run);
    if (seconds && *seconds < best) {
      best = *seconds;
      fastest = &how;
    }
  }
  return fastest ? blas->choose(gemm, *fastest)
                 : Status::unsupported("cuBLASLt has no routine for a GEMM");
}

Expected<double> CudaProbe::gemm(const GemmShape &shape) {
  auto isSame = [&](const MatmulOp &op) {
    return op.m == shape.m && op.n == shape.n && op.k == shape.k &&
           op.transA == shape.transA && op.transB == shape.transB &&
           op.compute == shape.type;
  };
  auto it = std::find_if(ops.begin(), ops.end(), isSame);
  bool isNew = it == ops.end();
  if (isNew) {
    MatmulOp op;
    op.m = shape.m;
    op.n = shape.n;
    op.k = shape.k;
    op.transA = shape.transA;
    op.transB = shape.transB;
    op.lda = shape.transA ? shape.m : shape.k;
    op.ldb = shape.transB ? shape.k : shape.n;
    op.ldc = shape.n;
    op.compute = shape.type;
    ops.push_back(op);
    it = std::prev(ops.end());
  }
  const MatmulOp &op = *it;
  int64_t bytes =
      (op.m * op.k + op.k * op.n + op.m * op.n) * sizeOf(shape.type) + 3 * 256;
  if (bytes > roomBytes)
    return Status::unsupported("a GEMM of " + std::to_string(bytes) +
                               " bytes does not fit on this device");
  if (isNew)
    DPC_TRY(chooseRoutine(copyOf(op, shape.type, 0)));
  return steadySecondsOf(
      [&](int i) { return blas->run(copyOf(op, shape.type, i), queue); });
}

Expected<double> CudaProbe::stream(int64_t bytes) {
  bytes = std::min(bytes, roomBytes);
  return steadySecondsOf([&](int) {
    return cuda.copy(room + bytes / 2, room, bytes / 2,
                     cudaMemcpyDeviceToDevice, queue);
  });
}

Expected<double> CudaProbe::hostCopy(int64_t bytes, bool toDevice) {
  bytes = std::min(bytes, roomBytes);
  if (bytes > pinnedBytes) {
    if (pinned)
      cuda.cudaFreeHost(std::exchange(pinned, nullptr));
    DPC_TRY(assign(pinned, cuda.allocatePinned(bytes)));
    pinnedBytes = bytes;
  }
  return steadySecondsOf([&](int) {
    return toDevice
               ? cuda.copy(room, pinned, bytes, cudaMemcpyHostToDevice, queue)
               : cuda.copy(pinned, room, bytes, cudaMemcpyDeviceToHost, queue);
  });
}

/// Returns the time of a graph with `launches` small kernels in sequence.
Expected<double> CudaProbe::graphSeconds(int launches) {
  cudaGraphExec_t made = nullptr;
  DPC_TRY(assign(made, cuda.capture(queue, [&] {
    Status status;
    for (int i = 0; i < launches && status.ok(); ++i)
      status = own->fill(room, 1, 8, 0, queue);
    return status;
  })));
  Expected<double> seconds = steadySecondsOf([&](int) {
    return cuda.check(cuda.cudaGraphLaunch(made, queue), "cudaGraphLaunch");
  });
  cuda.cudaGraphExecDestroy(made);
  return seconds;
}

/// Returns the seconds per kernel launch: the time of a long graph minus the
/// time of a short one, so that the cost of launching a graph cancels out.
Expected<double> CudaProbe::launch() {
  constexpr int few = 64, many = 512;
  Expected<double> less = graphSeconds(few);
  if (!less)
    return less;
  Expected<double> more = graphSeconds(many);
  if (!more)
    return more;
  return (*more - *less) / (many - few);
}

Expected<std::unique_ptr<DeviceProbe>>
makeCudaProbe(const CudaApis &apis, int index, int64_t mostBytes) {
  auto probe = std::make_unique<CudaProbe>(apis, index, mostBytes);
  DPC_TRY(probe->open());
  return std::unique_ptr<DeviceProbe>(std::move(probe));
}

Status fillWithNumbers(const CudaApi &cuda, char *room, int64_t bytes,
                       cudaStream_t stream) {
  constexpr int64_t block = int64_t(1) << 20;
  int64_t filled = std::min(bytes, block);
  char *memory = nullptr;
  DPC_TRY(assign(memory, cuda.allocatePinned(block)));
  std::minstd_rand random(1);
  for (int64_t i = 0; i < block / 2; ++i)
    reinterpret_cast<uint16_t *>(memory)[i] =
        static_cast<uint16_t>((random() >> 8 & 0x83ff) | 0x3c00);
  Status status =
      cuda.copy(room, memory, filled, cudaMemcpyHostToDevice, stream);
  for (; status.ok() && filled < bytes;
       filled += std::min(filled, bytes - filled))
    status = cuda.copy(room + filled, room, std::min(filled, bytes - filled),
                       cudaMemcpyDeviceToDevice, stream);
  if (status.ok())
    status = waitFor(cuda, stream);
  cuda.cudaFreeHost(memory);
  return status;
}

} // namespace dpc::rt
