//===- Wait.h - waiting for a word to change --------------------*- C++ -*-===//
#pragma once

#include <atomic>
#include <cstdint>

namespace dpc::rt {

/// A counter whose changes threads can wait for. A waiting thread spins
/// briefly, then sleeps in the kernel. The spin is short because, if ranks
/// outnumber cores, it may keep the awaited thread from running.
class WaitWord {
public:
  uint32_t load() const { return value.load(std::memory_order_acquire); }
  /// Adds 1 and wakes the sleeping threads.
  void increment();
  /// Sets the counter to 0. No thread may be waiting.
  void reset() { value.store(0, std::memory_order_release); }
  /// Wakes the sleeping threads, which then test their conditions again.
  void wakeAll();

  /// Sleeps for at most `microseconds` while the counter equals `old`. May
  /// return early.
  void sleepWhile(uint32_t old, int64_t microseconds);

  /// Waits until done() returns true. Calls done() after each change of the
  /// counter, and at least every 20 ms.
  template <typename Done> void waitUntil(Done &&done) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (done())
        return;
      pause();
    }
    while (true) {
      uint32_t old = load();
      if (done())
        return;
      sleepWhile(old, kSleepMicroseconds);
    }
  }

private:
  static constexpr int kSpins = 200;
  static constexpr int64_t kSleepMicroseconds = 20000;
  static void pause();

  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

/// Returns the time of a monotonic clock, in seconds.
double nowSeconds();

} // namespace dpc::rt
