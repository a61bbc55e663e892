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
//              that loops over blocks and teams; a phase is a loop over the
//              threads; a fold leaves what each thread has in an array, which
//              is combined in the same order. For tests where no GPU is.
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

#include "codegen/gpu/GpuThreads.h"

namespace dpc::codegen {

/// A kernel whose stages are being emitted, in the order of their launches.
struct GpuKernel {
  ElementEmitter &b;
  GpuThreads &threads;
  EmittedKernel result;
  std::vector<mlir::func::FuncOp> functions; ///< of `result.stages`
  /// Results that earlier stages stored; later ones read them.
  llvm::SmallVector<unsigned> storedResults;
};

/// A piece of scratch memory: elements of `type` from `offset` bytes on.
struct Scratch {
  int64_t offset = 0;
  mlir::Type type;
};
mlir::Value loadScratch(ElementEmitter &b, const Scratch &part,
                        mlir::Value position);
void storeScratch(ElementEmitter &b, mlir::Value value, const Scratch &part,
                  mlir::Value position);

/// Emits all stages of a kernel.
EmittedKernel emitForGpu(ElementEmitter &b);

/// Emits a stage of `teams` teams; `body` gets the number of a team.
void emitStage(GpuKernel &k, int64_t teams, TeamShape shape,
               const LoopBody &body);
/// Tells the assembler to leave the stage's threads more registers.
void keepValues(GpuKernel &k);

/// Stages in which each thread of a grid has elements of a nest (GpuNests.cpp).
void emitElementwiseStage(GpuKernel &k, llvm::ArrayRef<unsigned> results);
void emitFillStage(GpuKernel &k, unsigned result, double value);

/// The stage of a group of tensors (GpuGroups.cpp).
mlir::func::FuncOp createGroupFunction(ElementEmitter &b,
                                       const std::string &name);
void emitGroupStage(GpuKernel &k);

/// Stages of row ops and of sums (GpuReductions.cpp).
void emitRowStages(GpuKernel &k, mlir::Operation *rowOp);
void emitReductionStages(GpuKernel &k);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_GPU_GPUKERNEL_H
