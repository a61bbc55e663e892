//===- Kernel.h - Emits the code of a dpc.kernel ----------------*- C++ -*-===//
//
// emitKernel() turns the body of a dpc.kernel into functions of scf, arith,
// math and llvm ops. Its parts are:
// * ElementEmitter emits one element of any value. It starts from a result and
//   follows the operands back to loads. Data movement only changes indices, so
//   fused transposes, slices, broadcasts and reshapes cost no code.
// * Nests and RowKernels choose the elements to compute, and their order.
// * LoopTarget runs the loops: in one thread of a CPU, or in the threads of a
//   GPU (as PTX, or emulated on a CPU).
//
// There are three kinds of kernels:
// * Elementwise: one loop nest for each result shape, flattened as far as all
//   accesses allow. Each iteration computes all results and then stores them,
//   so a result may share the memory of an operand that is read at the same
//   index.
// * Row: loops over rows. Each iteration computes the operands of the row op,
//   runs the passes of the row op over the row, and computes the results that
//   depend on the row op.
// * Reduction, embedding gradient, sum of squares: cpu/CpuReductions.cpp, and
//   in several stages gpu/GpuReductions.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"
#include "ir/StridedView.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::codegen {

/// The processor that runs a kernel. `emulation` runs the code for a GPU on a
/// CPU (GpuKernel.h).
enum class KernelTarget { cpu, ptx, emulation };

/// A kernel, and the memory layout of its operands and results.
struct KernelSpec {
  KernelOp op;
  llvm::SmallVector<StridedView> inputs;
  llvm::SmallVector<StridedView> outputs;
  /// aliases[i]: the operand whose memory result i shares, or -1.
  llvm::SmallVector<int64_t> aliases;
  /// True if memory that a result shares with an operand is also passed as
  /// another operand.
  bool overlaps = false;
  /// If one launch applies the kernel to a group of tensors, the number of
  /// elements of each tensor (GpuGroups.cpp); otherwise empty.
  llvm::SmallVector<int64_t> groupSizes = {};
};

struct KernelStage {
  std::string symbol;
  rt::KernelLaunch launch; ///< unused on a CPU
  /// Used if a kernel has several stages. `buffers` are the buffers that the
  /// stage takes as parameters: all operands, and the results and scratch
  /// memory that it accesses. `writes` are the buffers that the stage stores
  /// to.
  std::vector<int> buffers = {}, writes = {};
};

/// The code of a kernel. On a CPU, a kernel has one stage.
struct EmittedKernel {
  std::vector<KernelStage> stages;
  /// The size of the scratch buffer, which follows the results and passes
  /// values between stages.
  int64_t scratchBytes = 0;
};

/// Emits the functions of a kernel at the insertion point of `builder`, which
/// is between functions of a module. Each stage has the signature `void
/// SYMBOL(void *const *buffers, const int64_t *scalars)`, or for PTX `void
/// SYMBOL(void *buffer0, ..., int64_t scalar0, ...)`. The buffers are the
/// operands, the results and, if any, the scratch memory. Fails with a
/// diagnostic at the op that has no code.
llvm::FailureOr<EmittedKernel> emitKernel(mlir::OpBuilder &builder,
                                          const KernelSpec &spec,
                                          llvm::StringRef symbol,
                                          KernelTarget target);

} // namespace dpc::codegen
