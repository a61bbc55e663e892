//===- KernelBlock.h - blocks of a CUDA kernel on the host ------*- C++ -*-===//
//
// A kernel whose source is compiled for the host runs block by block. Each
// thread of a block is a context with its own stack, and all contexts run on
// one thread of the host. A warp runs until all its threads wait for the block
// or have ended; then the next warp runs. Thus a missing __syncthreads() shows
// in the results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <functional>
#include <string>

namespace dpc::rt::test {

struct KernelIndex {
  unsigned x = 0;
};
inline KernelIndex threadOfKernel, blockOfKernel;

/// How a block runs. Results must not depend on it.
struct BlockOrder {
  bool lastWarpFirst = false;
  /// Asynchronous copies are done when they begin, otherwise when the thread
  /// waits for them.
  bool copiesEarly = false;
};

/// Runs all blocks. Returns "", or a fault: threads of a warp that wait at
/// different places, or a block whose threads wait for each other.
std::string runKernel(unsigned blocks, unsigned threads, BlockOrder order,
                      const std::function<void()> &kernel);

/// Functions for the running thread.
void waitForWarp();
void waitForBlock();
/// Begins to copy 16 bytes; `from` is null for zeros.
void beginCopy(void *to, const void *from);
void commitGroup();
/// Waits until at most `pending` groups of copies are not finished.
void waitForGroups(size_t pending);

/// Returns the values that the 32 threads of the warp pass. They stay valid
/// until the next call but one.
template <typename T> const T *valuesOfWarp(const T &value) {
  constexpr unsigned kThreads = 1024;
  static T values[2][kThreads];
  static unsigned calls[kThreads];
  unsigned thread = threadOfKernel.x;
  T *now = values[calls[thread]++ % 2];
  now[thread] = value;
  waitForWarp();
  return now + thread / 32 * 32;
}

} // namespace dpc::rt::test
