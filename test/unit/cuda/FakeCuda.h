//===- FakeCuda.h - a CUDA runtime in host memory ---------------*- C++ -*-===//
//
// FakeCuda.cpp and FakeGraph.cpp define the functions of CudaApi.h with their C
// names. "Device" memory is host memory. A stream is a thread that does its
// work in order, so two streams without an event between them really race, and
// ThreadSanitizer sees it. Errors that real CUDA would ignore are errors here:
// an asynchronous copy from or to host memory that is not pinned, a pointer
// outside every allocation, waiting on a captured stream, a capture whose
// branches do not join. A kernel is a function of this process with the ABI of
// the plans' kernels.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_UNIT_CUDA_FAKECUDA_H
#define DPC_TEST_UNIT_CUDA_FAKECUDA_H

#include "runtime/cuda/CudaApi.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dpc::rt::test {

/// Runs body(0) to body(count - 1), each on its own thread.
template <typename Body> void onThreads(size_t count, Body &&body) {
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&body, i] { body(i); });
}

/// Objects behind the opaque handles of the fakes.
template <typename T, typename Handle> T &as(Handle handle) {
  return *reinterpret_cast<T *>(handle);
}
template <typename T, typename Handle, typename... Arguments>
void make(Handle *handle, Arguments &&...arguments) {
  *handle =
      reinterpret_cast<Handle>(new T{std::forward<Arguments>(arguments)...});
}
template <typename T, typename Handle> void destroy(Handle handle) {
  delete reinterpret_cast<T *>(handle);
}

/// The table of fake functions.
CudaApi fakeCudaApi();

using FakeKernelFunction = void (*)(void *const *buffers,
                                    const int64_t *scalars);
/// Makes `function` the kernel `name` of every library, whatever its contents.
void addFakeKernel(const std::string &name, FakeKernelFunction function,
                   int buffers, int scalars);

/// From now on every stream sleeps before each piece of work, from 0 to
/// `microseconds`, in a random sequence of `seed`; 0 stops it. Two streams
/// without an event between them then run in many orders.
void setFakeDelay(int microseconds, unsigned seed);

/// Gives streams simulated clocks: a piece of work takes its nominal time
/// (kFakeMicroseconds for copies, kernels and fills), and a wait ends no
/// earlier than the work that it waits for. Events with timing read these
/// clocks.
inline constexpr double kFakeMicroseconds = 1;

/// Sets the number of GPUs. Each thread has one current GPU, initially the
/// first.
void setFakeDevices(int count);

/// The number of stream callbacks that ran when their stream was destroyed;
/// memory that they use may be freed.
int lateFakeCallbacks();

/// The number of allocations of pinned memory since the start of the program.
int pinnedFakeAllocations();

/// The number of allocations that are not freed, device and pinned.
size_t fakeAllocations();

struct FakeCapture;

/// For this thread.
int currentFakeDevice();

/// A thread that does its work in order.
class FakeStream {
public:
  FakeStream() : thread([this] { loop(); }) {}
  ~FakeStream();
  void push(std::function<void()> work, double microseconds = 0);
  bool idle();
  /// Used by its thread during its work.
  double clock = 0;
  const int device = currentFakeDevice();
  std::atomic<bool> isDestroyed = false;

  std::shared_ptr<FakeCapture> capture; ///< guarded by captureMutex()
  size_t lane = 0;                      ///< in `capture`

private:
  void loop();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<std::function<void()>, double>> queue;
  bool busy = false, stopping = false;
  std::thread thread; ///< last: it uses the other members
};

/// A fake CUDA event. Counts the calls of cudaEventRecord on it, and how many
/// of them the stream has reached.
class FakeEvent {
public:
  uint64_t issue();
  void reach(uint64_t record, double clock);
  /// Waits until the stream has reached `record`. Returns the stream's clock at
  /// the newest record that it has reached.
  double wait(uint64_t record);
  double time();
  uint64_t issued();
  bool reached(uint64_t record);

  bool hasTiming = false;
  const int device = currentFakeDevice();
  std::weak_ptr<FakeCapture> capture; ///< guarded by captureMutex()
  size_t capturedRecord = 0;
  std::map<size_t, size_t> covers; ///< by lane: work before the record

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issuedCount = 0, reachedCount = 0;
  double reachedTime = 0;
};

/// The recorded work of captured streams.
struct FakeCapture {
  struct Step {
    enum class Kind { Work, Record, Wait } kind = Kind::Work;
    std::function<void()> work;
    size_t record = 0;
    double microseconds = 0;
  };
  struct Lane {
    FakeStream *stream = nullptr;
    std::vector<Step> steps;
    std::map<size_t, size_t> covers; ///< by lane: work before its end
  };
  std::vector<Lane> lanes; ///< the first is the origin's
  size_t records = 0;
};

std::mutex &captureMutex();
FakeStream &streamOf(cudaStream_t stream);
std::shared_ptr<FakeEvent> eventOf(cudaEvent_t event);

/// Runs `work` on a stream, or adds it to the captured graph.
void enqueueOn(cudaStream_t stream, std::function<void()> work,
               double microseconds = kFakeMicroseconds);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_CUDA_FAKECUDA_H
