//===- GemmEpilogues.h - Products that do more than multiply ----*- C++ -*-===//
//
// On GPUs a product does in passing what else would be kernels of their own:
// dpc-end-products makes a dpc.kernel of all that one instruction does.
//
//   body      the matmul first, of the first two operands; then what ends it
//   kEpilogue what that is to the runtime (runtime/plan/PlanEpilogue.h)
//   operands  both factors; what the epilogue reads (a bias, repeated in every
//             row, or what gelu's gradient is taken at), or a factor in the
//             shape in which its rows are summed
//   results   what becomes of the product; what gelu was applied to, or sums of
//             rows
//
// A product that adds its result to those of the micro-batches before is read
// by a dpc.accumulate with kView alone: both lie where the sum lies.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_GEMMEPILOGUES_H
#define DPC_IR_GEMMEPILOGUES_H

#include "ir/Dialect.h"

namespace dpc {

namespace attr {
/// On a kernel that is a product: the name of its epilogue.
inline constexpr llvm::StringLiteral kEpilogue = "dpc.epilogue";
} // namespace attr

/// Where a kernel with kEpilogue has what.
inline constexpr unsigned kEndOperand = 2, kEndResult = 1;

/// The epilogue of a kernel that is a product; empty for others.
inline llvm::StringRef epilogueOf(mlir::Operation *op) {
  auto name = op->getAttrOfType<mlir::StringAttr>(attr::kEpilogue);
  return name ? name.getValue() : llvm::StringRef();
}

/// The product that `op` is, alone or with what ends it; or null.
inline MatmulOp productOf(mlir::Operation *op) {
  if (auto product = mlir::dyn_cast<MatmulOp>(op))
    return product;
  bool isEnded = mlir::isa<KernelOp>(op) && op->hasAttr(attr::kEpilogue);
  return isEnded ? mlir::cast<MatmulOp>(op->getRegion(0).front().front())
                 : MatmulOp();
}

/// The sum over micro-batches that the product `op` adds its result to, or
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
