//===- Kernel.h - A dpc.kernel and the code of it ---------------*- C++ -*-===//
//
// emitKernel() turns the body of a dpc.kernel into functions of scf, arith,
// math and llvm ops:
//
//   ElementEmitter   emits one element of any value, from the results backwards
//                    down to loads of the operands. Data movement only changes
//                    the indices, so that fused transposes, slices, broadcasts
//                    and reshapes cost nothing but strides.
//   Nests, Rows      say which elements a kernel computes and in which order.
//   LoopTarget       says what runs the loops: one thread of a CPU, or the
//                    threads of a GPU (PTX, or their emulation on a CPU).
//
// A kernel is one of
//   * elementwise: a loop nest per result shape, flattened as far as all
//     accesses allow; in each iteration all results are computed, then stored
//     (so a result may share the memory of an operand that is read at the same
//     index);
//   * row: loops over rows; inside, values needed before the row op, the row
//     op's passes over the row, then what depends on it;
//   * reduction, embedding gradient, sum of squares: cpu/CpuReductions.cpp,
//     and gpu/GpuReductions.cpp in stages.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_KERNEL_H
#define DPC_CODEGEN_KERNEL_KERNEL_H

#include "ir/Dialect.h"
#include "ir/StridedView.h"
#include "runtime/plan/Plan.h"

#include <string>
#include <vector>

namespace dpc::codegen {

/// What runs a kernel; `emulation` is a GPU's code on a CPU (GpuKernel.h).
enum class KernelTarget { cpu, ptx, emulation };

/// A kernel and how its operands and results lie in memory.
struct KernelSpec {
  KernelOp op;
  llvm::SmallVector<StridedView> inputs;
  llvm::SmallVector<StridedView> outputs;
  /// Result i shares the memory of operand aliases[i], or -1.
  llvm::SmallVector<int64_t> aliases;
  /// The memory of such an operand is passed as another operand as well.
  bool overlaps = false;
  /// Elements of each of the tensors that one launch is for: the kernel is done
  /// to all of them (GpuGroups.cpp). Empty: to the op's own.
  llvm::SmallVector<int64_t> groupSizes = {};
};

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

/// Emits where `builder` inserts, between functions of a module: for each
/// stage, `void SYMBOL(void *const *buffers, const int64_t *scalars)`, or for
/// PTX `void SYMBOL(void *buffer0, .., int64_t scalar0, ..)`. Buffers are the
/// operands, then the results, then scratch memory if there is some. Fails with
/// a diagnostic at the op that has no code.
llvm::FailureOr<EmittedKernel> emitKernel(mlir::OpBuilder &builder,
                                          const KernelSpec &spec,
                                          llvm::StringRef symbol,
                                          KernelTarget target);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNEL_H
