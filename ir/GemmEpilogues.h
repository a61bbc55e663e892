//===- GemmEpilogues.h - Matmuls with epilogues -----------------*- C++ -*-===//
//
// On GPUs a GEMM computes an epilogue that would otherwise be a kernel of its
// own. dpc-fuse-epilogues makes one dpc.kernel of all that one call computes:
//
//   body      the matmul of the first two operands, then the epilogue
//   kEpilogue the epilogue's name in plans (runtime/plan/PlanEpilogue.h)
//   operands  both factors; the operand of the epilogue (a bias, repeated in
//             every row, or the argument of gelu's gradient), or a factor in
//             the shape in which its rows are summed
//   results   the product after the epilogue; the argument of gelu, or sums of
//             rows
//
// A matmul that adds its result to the sum over micro-batches has one reader, a
// dpc.accumulate with kView: both share the buffer of the sum.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_GEMMEPILOGUES_H
#define DPC_IR_GEMMEPILOGUES_H

#include "ir/Dialect.h"

namespace dpc {

/// The positions of the epilogue's operand and result in such a kernel.
inline constexpr unsigned kEpilogueOperand = 2, kEpilogueResult = 1;

/// The epilogue of a kernel that is a matmul; empty for others.
inline llvm::StringRef epilogueOf(mlir::Operation *op) {
  auto name = op->getAttrOfType<mlir::StringAttr>(attr::kEpilogue);
  return name ? name.getValue() : llvm::StringRef();
}

/// The matmul that `op` is, alone or with an epilogue; null for other ops.
inline MatmulOp matmulOf(mlir::Operation *op) {
  if (auto matmul = mlir::dyn_cast<MatmulOp>(op))
    return matmul;
  bool hasEpilogue = mlir::isa<KernelOp>(op) && op->hasAttr(attr::kEpilogue);
  return hasEpilogue ? mlir::cast<MatmulOp>(op->getRegion(0).front().front())
                     : MatmulOp();
}

/// The sum over micro-batches to which the matmul `op` adds its result, or
/// null.
inline AccumulateOp sumInPlace(mlir::Operation *op) {
  mlir::Value result = op->getResult(0);
  auto sum = result.hasOneUse()
                 ? mlir::dyn_cast<AccumulateOp>(*result.getUsers().begin())
                 : AccumulateOp();
  return sum && sum->hasAttr(attr::kView) ? sum : AccumulateOp();
}

} // namespace dpc

#endif // DPC_IR_GEMMEPILOGUES_H
