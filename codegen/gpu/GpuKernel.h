//===- GpuKernel.h - How a kernel is spread over threads --------*- C++ -*-===//
//
// A kernel for GPUs is a sequence of launches ("stages"), each a function of
// its own; a stage sees all that the stages before it wrote. Within a stage
//
//   * a *team* is a group of threads that work on one thing together: the
//     columns of a row, a part of a sum. Teams do not talk to each other. A
//     team is a whole block, or 32 threads (a warp) of a block of several, or
//     one thread;
//   * code that is emitted for a team is *uniform*: all its threads compute the
//     same values. It loads but does not store;
//   * a *phase* is code in which the threads of a team differ. What a phase
//     stores, the whole team may read after it. Values do not leave a phase,
//     except through a `fold`;
//   * a *fold* is a phase in which each thread accumulates some of the
//     iterations of a loop; then the team combines what its threads have, in an
//     order that depends on the sizes only. The result is uniform.
//
// So one body has two lowerings:
//
//   PTX        every thread runs the uniform code; a phase is its code for the
//              own thread, with a barrier behind it; a fold ends with shuffles
//              within the warps and, through shared memory, between them;
//   emulation  a function for the CPU, with the ABI of kernels for the CPU,
//   that
//              loops over blocks and teams; a phase is a loop over the threads;
//              a fold leaves what each thread has in an array, which is
//              combined in the same order. For tests where no GPU is.
//
// Elements are given to threads in vectors: a thread computes `width`
// neighbours and loads and stores them by accesses that LLVM merges into one of
// 16 bytes where alignment allows; neighbouring threads take neighbouring
// vectors.
//
// Invariants:
//   * No atomics: a sum is combined in one order, equal on every run.
//   * What a stage stores, no other team of the stage reads.
//   * A stage writes any element of memory once, or its own team wrote it.
//
// Sums that need more teams than there are results are cut into `parts`: one
// stage computes them into scratch memory, the next one adds them up.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_GPU_GPUKERNEL_H
#define DPC_CODEGEN_GPU_GPUKERNEL_H

#include "runtime/plan/Plan.h"

#include "mlir/IR/Value.h"

#include <string>
#include <vector>

namespace dpc::codegen {

/// What kernels are emitted for; see the file comment.
enum class KernelTarget { cpu, ptx, emulation };

/// One launch of a kernel.
struct KernelStage {
  std::string symbol;
  rt::KernelLaunch launch; ///< nothing on a CPU
  /// Of one stage of several: the kernel's buffers that are its parameters, and
  /// which of these it stores to. It has all operands, and of results and
  /// scratch memory what it touches.
  std::vector<int> buffers = {}, writes = {};
};

/// The code of a kernel: a single stage on a CPU.
struct EmittedKernel {
  std::vector<KernelStage> stages;
  /// Of a buffer that stages pass values in, behind the results; 0: none.
  int64_t scratchBytes = 0;
};

/// Threads of a warp, which exchange values without memory.
inline constexpr int64_t kWarp = 32;
/// Threads of a block of an elementwise stage, or of several small teams.
inline constexpr int64_t kBlock = 256;
/// More blocks than any device runs at once; elementwise stages loop beyond.
inline constexpr int64_t kMaxBlocks = 2048;

/// The threads that work on a row, or the like, of `size` elements.
struct TeamShape {
  int64_t threads = kBlock; ///< of a team: 1, kWarp, or a multiple of it
  int64_t perBlock = 1;     ///< teams; 1 if a team has several warps
};

/// A team that has something to do for each of its threads.
TeamShape teamFor(int64_t size, int64_t width);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_GPU_GPUKERNEL_H
