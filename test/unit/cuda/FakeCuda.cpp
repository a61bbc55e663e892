#include "test/unit/cuda/FakeCuda.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

namespace dpc::rt::test {

namespace {

struct Allocation {
  size_t bytes = 0;
  bool isPinned = false;
};

struct Kernel {
  FakeKernelFunction function = nullptr;
  int buffers = 0, scalars = 0;
};

struct World {
  std::mutex mutex;
  std::map<char *, Allocation> allocations;
  std::map<std::string, Kernel> kernels;
  std::atomic<int> delay{0};
  std::atomic<unsigned> seed{0};
  std::atomic<int> devices{1}, lateCallbacks{0}, pinned{0};
};

thread_local int currentDevice = 0;

/// Streams that this thread has destroyed but that still run.
struct Graveyard {
  std::vector<std::thread> ends;
  void add(FakeStream &stream) {
    stream.isDestroyed = true;
    ends.emplace_back([&stream] { delete &stream; });
  }
  void wait() {
    for (std::thread &end : ends)
      end.join();
    ends.clear();
  }
  ~Graveyard() { wait(); }
};
thread_local Graveyard graveyard;

World &world() {
  static World theWorld;
  return theWorld;
}

bool isInside(const void *pointer, size_t bytes, bool pinned) {
  World &w = world();
  std::lock_guard lock(w.mutex);
  auto *at = static_cast<char *>(const_cast<void *>(pointer));
  auto it = w.allocations.upper_bound(at);
  if (it == w.allocations.begin())
    return false;
  --it;
  return it->second.isPinned == pinned &&
         at + bytes <= it->first + it->second.bytes;
}

cudaError_t allocate(void **pointer, size_t bytes, bool isPinned) {
  void *made = std::aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
  if (!made)
    return cudaErrorMemoryAllocation;
  std::memset(made, 0xff, bytes); // unwritten memory is NaN
  World &w = world();
  std::lock_guard lock(w.mutex);
  w.allocations[static_cast<char *>(made)] = {bytes, isPinned};
  *pointer = made;
  return cudaSuccess;
}

/// cudaFree waits for the whole device; this fake waits for destroyed streams.
cudaError_t release(void *pointer, bool isPinned) {
  if (!pointer)
    return cudaSuccess;
  graveyard.wait();
  World &w = world();
  std::lock_guard lock(w.mutex);
  auto it = w.allocations.find(static_cast<char *>(pointer));
  if (it == w.allocations.end() || it->second.isPinned != isPinned)
    return cudaErrorInvalidValue;
  w.allocations.erase(it);
  std::free(pointer);
  return cudaSuccess;
}

bool isCapturing(cudaStream_t stream) {
  std::lock_guard lock(captureMutex());
  return streamOf(stream).capture != nullptr;
}

} // namespace

void addFakeKernel(const std::string &name, FakeKernelFunction function,
                   int buffers, int scalars) {
  std::lock_guard lock(world().mutex);
  world().kernels[name] = {function, buffers, scalars};
}

void setFakeDelay(int microseconds, unsigned seed) {
  world().seed = seed;
  world().delay = microseconds;
}

void setFakeDevices(int count) { world().devices = count; }

int lateFakeCallbacks() { return world().lateCallbacks; }

int pinnedFakeAllocations() { return world().pinned; }

int currentFakeDevice() { return currentDevice; }

size_t fakeAllocations() {
  std::lock_guard lock(world().mutex);
  return world().allocations.size();
}

FakeStream &streamOf(cudaStream_t stream) { return as<FakeStream>(stream); }

std::shared_ptr<FakeEvent> eventOf(cudaEvent_t event) {
  return as<std::shared_ptr<FakeEvent>>(event);
}

FakeStream::~FakeStream() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void FakeStream::push(std::function<void()> work, double microseconds) {
  {
    std::lock_guard lock(mutex);
    queue.emplace_back(std::move(work), microseconds);
  }
  changed.notify_all();
}

bool FakeStream::idle() {
  std::lock_guard lock(mutex);
  return queue.empty() && !busy;
}

void FakeStream::loop() {
  std::minstd_rand random(world().seed++);
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || !queue.empty(); });
    if (queue.empty())
      return;
    auto [work, microseconds] = std::move(queue.front());
    queue.pop_front();
    busy = true;
    lock.unlock();
    if (int delay = world().delay)
      std::this_thread::sleep_for(
          std::chrono::microseconds(random() % (delay + 1)));
    clock += microseconds;
    work();
    work = nullptr;
    lock.lock();
    busy = false;
  }
}

uint64_t FakeEvent::issue() {
  std::lock_guard lock(mutex);
  return ++issuedCount;
}
uint64_t FakeEvent::issued() {
  std::lock_guard lock(mutex);
  return issuedCount;
}
void FakeEvent::reach(uint64_t record, double clock) {
  {
    std::lock_guard lock(mutex);
    reachedTime = record >= reachedCount ? clock : reachedTime;
    reachedCount = std::max(reachedCount, record);
  }
  changed.notify_all();
}
double FakeEvent::wait(uint64_t record) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return reachedCount >= record; });
  return reachedTime;
}
double FakeEvent::time() {
  std::lock_guard lock(mutex);
  return reachedTime;
}
bool FakeEvent::reached(uint64_t record) {
  std::lock_guard lock(mutex);
  return reachedCount >= record;
}

CudaApi fakeCudaApi() {
  CudaApi api;
  api.link();
  return api;
}

} // namespace dpc::rt::test

using namespace dpc::rt::test;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
extern "C" {

cudaError_t cudaDriverGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
  *count = world().devices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= world().devices)
    return cudaErrorInvalidDevice;
  currentDevice = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a fake");
  properties->multiProcessorCount = 3;
  return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the fake";
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  return allocate(pointer, bytes, false);
}
cudaError_t cudaFree(void *pointer) { return release(pointer, false); }
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) {
  ++world().pinned;
  return allocate(pointer, bytes, true);
}
cudaError_t cudaFreeHost(void *pointer) { return release(pointer, true); }
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  *available = *total = size_t(4) << 30;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  make<FakeStream>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  graveyard.add(streamOf(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (isCapturing(stream))
    return cudaErrorStreamCaptureUnsupported;
  return streamOf(stream).idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  auto made = std::make_shared<FakeEvent>();
  made->hasTiming = (flags & cudaEventDisableTiming) == 0;
  make<std::shared_ptr<FakeEvent>>(event, made);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  std::shared_ptr<FakeEvent> from = eventOf(begin), to = eventOf(end);
  if (!from->hasTiming || !to->hasTiming || from->issued() == 0 ||
      to->issued() == 0)
    return cudaErrorInvalidResourceHandle;
  {
    std::lock_guard lock(captureMutex());
    for (const auto &event : {from, to})
      if (event->capture.lock()) // events in a graph have no time
        return cudaErrorInvalidResourceHandle;
  }
  if (!from->reached(from->issued()) || !to->reached(to->issued()))
    return cudaErrorNotReady;
  *milliseconds = static_cast<float>((to->time() - from->time()) * 1e-3);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  destroy<std::shared_ptr<FakeEvent>>(event);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::shared_ptr<FakeEvent> e = eventOf(event);
  return e->reached(e->issued()) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  bool fromHost = kind == cudaMemcpyHostToDevice,
       toHost = kind == cudaMemcpyDeviceToHost;
  if (kind != cudaMemcpyDeviceToDevice && !fromHost && !toHost)
    return cudaErrorInvalidMemcpyDirection;
  if (!isInside(from, bytes, fromHost) || !isInside(to, bytes, toHost))
    return cudaErrorInvalidValue;
  enqueueOn(stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t stream) {
  if (!isInside(to, bytes, false))
    return cudaErrorInvalidValue;
  enqueueOn(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *data) {
  enqueueOn(stream, [=, &own = streamOf(stream)] {
    world().lateCallbacks += own.isDestroyed;
    function(data);
  });
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                cudaJitOption *, void **, unsigned,
                                cudaLibraryOption *, void **, unsigned) {
  *library = reinterpret_cast<cudaLibrary_t>(const_cast<void *>(code));
  return code ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t,
                                 const char *name) {
  std::lock_guard lock(world().mutex);
  auto it = world().kernels.find(name);
  if (it == world().kernels.end())
    return cudaErrorSymbolNotFound;
  *kernel = reinterpret_cast<cudaKernel_t>(&it->second);
  return cudaSuccess;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute,
                                            int, int) {
  return cudaSuccess;
}
/// CUDA reads the arguments before this call returns.
cudaError_t cudaLaunchKernel(const void *function, dim3 blocks, dim3 threads,
                             void **arguments, size_t, cudaStream_t stream) {
  const auto &kernel = *static_cast<const Kernel *>(function);
  if (blocks.x == 0 || threads.x == 0 || threads.x > 1024)
    return cudaErrorInvalidConfiguration;
  if (streamOf(stream).device != currentDevice)
    return cudaErrorInvalidResourceHandle;
  std::vector<void *> buffers;
  std::vector<int64_t> scalars;
  buffers.reserve(kernel.buffers);
  scalars.reserve(kernel.scalars);
  for (int i = 0; i < kernel.buffers; ++i)
    buffers.push_back(*static_cast<void **>(arguments[i]));
  for (int i = 0; i < kernel.scalars; ++i)
    scalars.push_back(*static_cast<int64_t *>(arguments[kernel.buffers + i]));
  enqueueOn(stream, [run = kernel.function, buffers, scalars] {
    run(buffers.data(), scalars.data());
  });
  return cudaSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
