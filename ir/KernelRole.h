//===- KernelRole.h - The parts of ops in generated kernels -----*- C++ -*-===//
//
// TableGen gives an op its role (Dpc_KernelRole). The trait KernelRoleIs
// implements FusionOpInterface according to the role. Some ops override methods
// of the interface in KernelRole.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace dpc {

enum class KernelRole {
  mover, ///< reshape, transpose, slice, broadcast: can be a view
  /// small constant or iota: every kernel that reads it computes it
  source,
  elementwise, ///< an element of the result reads one element of each operand
  row,         ///< needs whole rows; fuses with adjacent elementwise ops
  reduction,   ///< reduce: fuses with elementwise producers
  alone,       ///< a separate kernel
  none ///< never part of a kernel: matmul, collective, large constant, ..
};

/// Returns the role of `op`, or `none` if it has no FusionOpInterface.
KernelRole kernelRole(mlir::Operation *op);

/// Returns true for data movement whose result shares its operand's buffer:
/// reshapes, and other movers with `dpc.view`.
bool isMovedView(mlir::Operation *op);

/// Returns true if the result shares the buffer of operand 0: isMovedView, or a
/// sum over micro-batches with `dpc.view`.
bool isBufferView(mlir::Operation *op);

namespace OpTrait {

/// Implements FusionOpInterface for ops with `role`. isCheap() returns `cheap`.
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
