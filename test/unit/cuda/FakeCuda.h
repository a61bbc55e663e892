//===- FakeCuda.h - a CUDA runtime in host memory ---------------*- C++ -*-===//
//
// FakeCuda.cpp and FakeGraph.cpp define the functions of CudaApi.h with their C
// names. Device memory is host memory. A stream is a thread that runs its work
// in order, so ThreadSanitizer detects races between streams. Misuse that real
// CUDA would not report is an error here: an asynchronous copy from or to host
// memory that is not pinned, or a pointer outside every allocation. A kernel is
// a function of this process with the parameters of a plan's kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

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

template <typename Body> void onThreads(size_t count, Body &&body) {
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&body, i] { body(i); });
}

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

CudaApi fakeCudaApi();

using FakeKernelFunction = void (*)(void *const *buffers,
                                    const int64_t *scalars);
/// Adds a kernel to every library, whatever its contents.
void addFakeKernel(const std::string &name, FakeKernelFunction function,
                   int buffers, int scalars);

/// Delays every piece of work on a stream by a random time, at most
/// `microseconds`, so that streams without events run in many orders.
void setFakeDelay(int microseconds, unsigned seed);

/// How long copies, kernels and fills take on the simulated clock of a stream,
/// which events with timing read.
inline constexpr double kFakeMicroseconds = 1;

void setFakeDevices(int count);

/// Returns how many stream callbacks ran after cudaStreamDestroy(). The memory
/// that they use may already be freed.
int lateFakeCallbacks();

/// Returns how often pinned memory was allocated since the program started.
int pinnedFakeAllocations();

/// Returns how many device and pinned allocations are not freed.
size_t fakeAllocations();

struct FakeCapture;

int currentFakeDevice();

class FakeStream {
public:
  FakeStream() : thread([this] { loop(); }) {}
  ~FakeStream();
  void push(std::function<void()> work, double microseconds = 0);
  bool idle();
  /// Only the stream's thread accesses the clock.
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
  std::thread thread; ///< last, because it uses the other members
};

/// Counts the calls of cudaEventRecord for this event (issued), and the calls
/// that the stream has reached.
class FakeEvent {
public:
  uint64_t issue();
  void reach(uint64_t record, double clock);
  /// Waits until the stream has reached call `record` of cudaEventRecord.
  /// Returns the stream's clock at the latest call that was reached.
  double wait(uint64_t record);
  double time();
  uint64_t issued();
  bool reached(uint64_t record);

  bool hasTiming = false;
  const int device = currentFakeDevice();
  std::weak_ptr<FakeCapture> capture; ///< guarded by captureMutex()
  size_t capturedRecord = 0;
  std::map<size_t, size_t> covers; ///< steps before the record, by lane

private:
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t issuedCount = 0, reachedCount = 0;
  double reachedTime = 0;
};

/// A lane is the work of one stream.
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
    std::map<size_t, size_t> covers; ///< steps before the end, by lane
  };
  std::vector<Lane> lanes; ///< [0] is the stream that began the capture
  size_t records = 0;
};

std::mutex &captureMutex();
FakeStream &streamOf(cudaStream_t stream);
std::shared_ptr<FakeEvent> eventOf(cudaEvent_t event);

/// Submits `work` to a stream, or to the graph that the stream captures.
void enqueueOn(cudaStream_t stream, std::function<void()> work,
               double microseconds = kFakeMicroseconds);

} // namespace dpc::rt::test
