#include "test/unit/cuda/KernelBlock.h"

#include <cstring>
#include <deque>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace dpc::rt::test {

namespace {

struct Copy {
  void *to;
  const void *from;

  void run() const {
    if (from)
      std::memcpy(to, from, 16);
    else
      std::memset(to, 0, 16);
  }
};

struct Thread {
  enum class State { Runs, WaitsForWarp, WaitsForBlock, Ended };

  State state = State::Runs;
  ucontext_t context = {};
  std::unique_ptr<char[]> stack;
  std::deque<std::vector<Copy>> groups; ///< of copies; the last one is open
};

constexpr size_t kStackBytes = 128 * 1024, kWarp = 32;

/// The block that runs.
struct Block {
  std::vector<Thread> threads;
  ucontext_t scheduler = {};
  BlockOrder order;
  const std::function<void()> *kernel = nullptr;
};
Block block;

Thread &self() { return block.threads[threadOfKernel.x]; }

void runThread() {
  (*block.kernel)();
  self().state = Thread::State::Ended;
}

void wait(Thread::State state) {
  Thread &thread = self();
  thread.state = state;
  swapcontext(&thread.context, &block.scheduler);
}

void begin(Thread &thread) {
  thread.state = Thread::State::Runs;
  thread.groups.assign(1, {});
  if (!thread.stack)
    thread.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  thread.context.uc_link = &block.scheduler;
  makecontext(&thread.context, runThread, 0);
}

/// Runs the warp until all its threads wait for the block or have ended.
/// Returns false if only some of them wait for the warp.
bool runWarp(size_t warp) {
  auto first = static_cast<unsigned>(warp * kWarp);
  size_t waiting = 0;
  do {
    waiting = 0;
    for (unsigned t = first; t < first + kWarp; ++t) {
      Thread &thread = block.threads[t];
      if (thread.state == Thread::State::WaitsForWarp)
        thread.state = Thread::State::Runs;
      if (thread.state != Thread::State::Runs)
        continue;
      threadOfKernel.x = t;
      swapcontext(&block.scheduler, &thread.context);
      waiting += thread.state == Thread::State::WaitsForWarp;
    }
  } while (waiting == kWarp);
  return waiting == 0;
}

std::string runBlock() {
  size_t warps = block.threads.size() / kWarp, ended = 0;
  for (Thread &thread : block.threads)
    begin(thread);
  while (ended < block.threads.size()) {
    for (size_t i = 0; i < warps; ++i)
      if (!runWarp(block.order.lastWarpFirst ? warps - 1 - i : i))
        return "threads of a warp wait at different places";
    ended = 0;
    for (Thread &thread : block.threads)
      if (thread.state == Thread::State::Ended)
        ++ended;
      else
        thread.state = Thread::State::Runs;
    if (ended > 0 && ended < block.threads.size())
      return "some threads ended, others wait for the block";
  }
  return "";
}

} // namespace

std::string runKernel(unsigned blocks, unsigned threads, BlockOrder order,
                      const std::function<void()> &kernel) {
  block.order = order;
  block.kernel = &kernel;
  block.threads.resize(threads);
  for (blockOfKernel.x = 0; blockOfKernel.x < blocks; ++blockOfKernel.x)
    if (std::string fault = runBlock(); !fault.empty())
      return fault;
  return "";
}

void waitForWarp() { wait(Thread::State::WaitsForWarp); }
void waitForBlock() { wait(Thread::State::WaitsForBlock); }

void beginCopy(void *to, const void *from) {
  Copy copy = {to, from};
  if (block.order.copiesEarly)
    copy.run();
  else
    self().groups.back().push_back(copy);
}

void commitGroup() { self().groups.emplace_back(); }

void waitForGroups(size_t pending) {
  for (auto &groups = self().groups; groups.size() > pending + 1;
       groups.pop_front())
    for (const Copy &copy : groups.front())
      copy.run();
}

} // namespace dpc::rt::test
