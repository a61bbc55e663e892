//===- FusedAttention.h - Attention that stays one op -----------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_FUSEDATTENTION_H
#define DPC_PASSES_LOCAL_FUSEDATTENTION_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir {
class Operation;
} // namespace mlir

namespace dpc {

/// What runs an attention as one instruction.
enum class FusedKernels {
  none,
  cudnn, ///< cuDNN, on GPUs
  loops, ///< The loops of runtime/kernels/Attention.h, on CPUs.
};

/// Why `op`, a local attention or its gradient, cannot be one instruction for
/// `kernels`, and what could; "" where it can.
std::string whyNotFused(mlir::Operation *op, FusedKernels kernels);

/// Notes on a gradient that cuDNN runs how many bytes it needs meanwhile.
void markWorkspace(mlir::Operation *op);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FUSEDATTENTION_H
