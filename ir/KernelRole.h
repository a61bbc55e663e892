//===- KernelRole.h - The parts of ops in generated kernels -----*- C++ -*-===//
//
// TableGen gives an op its role (Dpc_KernelRole). The trait KernelRoleIs
// implements FusionOpInterface by the role, and KernelRole.cpp has the methods
// that some ops override.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_KERNELROLE_H
#define DPC_IR_KERNELROLE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace dpc {

/// The role of an op in kernel formation.
enum class KernelRole {
  mover,       ///< reshape, transpose, slice, broadcast: can be a view
  source,      ///< small constant or iota: copied into every kernel
  elementwise, ///< reads one element of each operand per element
  row,         ///< needs whole rows; fuses with adjacent elementwise ops
  reduction,   ///< reduce: fuses with elementwise producers
  alone,       ///< a separate kernel
  none         ///< not in a kernel: matmul, collective, large constant, ..
};

/// The role of `op`; `none` if it has no FusionOpInterface.
KernelRole kernelRole(mlir::Operation *op);

/// True for data movement whose result is in the buffer of its operand:
/// reshapes, and others with `dpc.view`.
bool isMovedView(mlir::Operation *op);

/// True also for sums over micro-batches with `dpc.view`.
bool isBufferView(mlir::Operation *op);

namespace OpTrait {

/// Implements FusionOpInterface for ops of `role`; isCheap() returns `cheap`.
template <KernelRole role, bool cheap> struct KernelRoleIs {
  template <typename ConcreteType>
  class Impl : public mlir::OpTrait::TraitBase<ConcreteType, Impl> {
  public:
    KernelRole getKernelRole() { return role; }
    bool isCheap() { return cheap; }
    bool readsSameElement(mlir::OpOperand &) { return true; }
    llvm::ArrayRef<int64_t> getIterationShape() {
      constexpr bool readsRows =
          role == KernelRole::row || role == KernelRole::reduction;
      mlir::Operation *op = this->getOperation();
      mlir::Type type =
          readsRows ? op->getOperand(0).getType() : op->getResult(0).getType();
      return mlir::cast<mlir::RankedTensorType>(type).getShape();
    }
  };
};

} // namespace OpTrait

} // namespace dpc

#endif // DPC_IR_KERNELROLE_H
