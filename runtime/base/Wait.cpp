#include "runtime/base/Wait.h"

#include <chrono>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace dpc::rt {

static_assert(sizeof(std::atomic<uint32_t>) == 4, "futex words are 32 bits");

static void futex(std::atomic<uint32_t> *word, int op, uint32_t operand,
                  const timespec *timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(word), op, operand, timeout,
          nullptr, 0);
}

void WaitWord::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void WaitWord::increment() {
  // Both operations are sequentially consistent: either the waiting thread sees
  // the new value, or this thread sees the sleeping thread.
  value.fetch_add(1);
  if (sleepers.load() > 0)
    wakeAll();
}

void WaitWord::wakeAll() {
  futex(&value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

void WaitWord::sleepWhile(uint32_t old, int64_t microseconds) {
  sleepers.fetch_add(1);
  if (value.load() == old) {
    timespec timeout{microseconds / 1000000, microseconds % 1000000 * 1000};
    futex(&value, FUTEX_WAIT_PRIVATE, old, &timeout);
  }
  sleepers.fetch_sub(1);
}

double nowSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace dpc::rt
