//===- GemmEpilogues.h - Matmuls with epilogues -----------------*- C++ -*-===//
//
// On GPUs, a GEMM can compute an epilogue that would otherwise be a separate
// kernel. dpc-fuse-epilogues puts a matmul and its epilogue into one
// dpc.kernel:
//
//   body       the matmul of the first two operands, followed by the epilogue
//   kEpilogue  the name of the epilogue in plans (runtime/plan/PlanEpilogue.h)
//   operands   the two operands of the matmul, and optionally the operand of
//              the epilogue: a bias that is added to every row, the argument of
//              the gradient of gelu, or a matmul operand reshaped for its row
//              sums
//   results    the result of the epilogue, and optionally the argument of gelu
//              or the row sums
//
// A matmul that adds its result to the sum over micro-batches has only one
// user, a dpc.accumulate with kView. The matmul and the sum share a buffer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

/// The indices of the optional operand and result of a kernel with an epilogue.
inline constexpr unsigned kEpilogueOperand = 2, kEpilogueResult = 1;

/// Returns the name of the epilogue of `op`, or "".
inline llvm::StringRef epilogueOf(mlir::Operation *op) {
  auto name = op->getAttrOfType<mlir::StringAttr>(attr::kEpilogue);
  return name ? name.getValue() : llvm::StringRef();
}

/// Returns `op` if it is a matmul, the matmul of a kernel with an epilogue, or
/// null.
inline MatmulOp matmulOf(mlir::Operation *op) {
  if (auto matmul = mlir::dyn_cast<MatmulOp>(op))
    return matmul;
  bool hasEpilogue = mlir::isa<KernelOp>(op) && op->hasAttr(attr::kEpilogue);
  return hasEpilogue ? mlir::cast<MatmulOp>(op->getRegion(0).front().front())
                     : MatmulOp();
}

/// Returns the sum over micro-batches to which the matmul `op` adds its result,
/// or null.
inline AccumulateOp sumInPlace(mlir::Operation *op) {
  mlir::Value result = op->getResult(0);
  auto sum = result.hasOneUse()
                 ? mlir::dyn_cast<AccumulateOp>(*result.getUsers().begin())
                 : AccumulateOp();
  return sum && sum->hasAttr(attr::kView) ? sum : AccumulateOp();
}

} // namespace dpc
