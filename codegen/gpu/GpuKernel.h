//===- GpuKernel.h - The stages, teams and phases of a kernel ---*- C++ -*-===//
//
// A kernel for GPUs is a sequence of launches, called stages. Each is a
// separate function and sees all memory that earlier stages wrote. Terms:
//
// * A *team* is a group of threads that work together, for example on the
//   columns of a row or on one part of a reduction. Teams do not communicate. A
//   team is a block, one of several warps (32 threads) of a block, or a thread.
// * Code emitted for a team is *uniform*: all its threads compute the same
//   values. Uniform code loads but does not store.
// * A *phase* is code in which the threads of a team differ. After a phase, the
//   whole team may read the memory that the phase stored to. Values leave a
//   phase only through a fold.
// * A *fold* is a phase in which each thread accumulates some iterations of a
//   loop. The team then combines the values of its threads, in an order that
//   depends only on the sizes. The result is uniform.
//
// Each kernel can be lowered in two ways:
//
// * PTX: Every thread runs the uniform code. A phase is the code of one thread,
//   with a barrier after it. A fold ends with shuffles within warps, and
//   combines warps through shared memory.
// * Emulation, for tests without a GPU: One function, with the ABI of kernels
//   for CPUs, loops over blocks and teams. A phase is a loop over threads. A
//   fold stores the value of each thread in an array and combines the array in
//   the same order as PTX.
//
// Threads compute vectors of `width` adjacent elements. LLVM merges their loads
// and stores into accesses of 16 bytes where the alignment allows it. Adjacent
// threads take adjacent vectors.
//
// Invariants:
// * There are no atomics, so each run combines values in the same order.
// * A team does not read what other teams of its stage store.
// * A stage writes each element once, unless the same team writes it again.
//
// A reduction with fewer results than teams is split in `parts`: one stage
// stores the parts in scratch memory, and the next stage combines them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/gpu/GpuThreads.h"

namespace dpc::codegen {

struct GpuKernel {
  ElementEmitter &b;
  GpuThreads &threads;
  EmittedKernel result;
  std::vector<mlir::func::FuncOp> functions; ///< of `result.stages`
  /// The results that earlier stages stored and that later stages read.
  SmallVector<unsigned> storedResults;
};

/// A part of the scratch memory: elements of `type`, starting at byte `offset`.
struct Scratch {
  int64_t offset = 0;
  Type type;
};
Value loadScratch(ElementEmitter &b, const Scratch &part, Value position);
void storeScratch(ElementEmitter &b, Value value, const Scratch &part,
                  Value position);

EmittedKernel emitForGpu(ElementEmitter &b);

/// Emits a stage. The argument of `body` is the index of the team.
void emitStage(GpuKernel &k, int64_t teams, TeamShape shape,
               const LoopBody &body);
/// Asks the assembler for more registers per thread in this stage.
void keepValues(GpuKernel &k);

/// In GpuNests.cpp:
void emitElementwiseStage(GpuKernel &k, ArrayRef<unsigned> results);
void emitFillStage(GpuKernel &k, unsigned result, double value);

/// In GpuGroups.cpp:
mlir::func::FuncOp createGroupFunction(ElementEmitter &b,
                                       const std::string &name);
void emitGroupStage(GpuKernel &k);

/// In GpuReductions.cpp:
void emitRowStages(GpuKernel &k, Operation *rowOp);
void emitReductionStages(GpuKernel &k);

} // namespace dpc::codegen
