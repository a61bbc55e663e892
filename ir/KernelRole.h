//===- KernelRole.h - How ops take part in generated kernels ----*- C++ -*-===//
//
// An op names its role in TableGen (Dpc_KernelRole); the trait KernelRoleIs
// answers FusionOpInterface from it. Ops whose answers depend on more than the
// role override single methods (KernelRole.cpp).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_KERNELROLE_H
#define DPC_IR_KERNELROLE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

namespace dpc {

/// What an op is to kernel formation.
enum class KernelRole {
  mover,       ///< reshape, transpose, slice, broadcast: may be a view
  source,      ///< small constant or iota: copied into every kernel
  elementwise, ///< one element of each operand per element
  row,         ///< needs whole rows, takes elementwise neighbors
  reduction,   ///< reduce: takes elementwise producers
  alone,       ///< a kernel of its own
  none         ///< no kernel: matmul, collective, large constant, ..
};

/// The role of `op`; `none` without FusionOpInterface.
KernelRole kernelRole(mlir::Operation *op);

/// True for data movement whose result lies in its operand's buffer: reshapes,
/// and others with `dpc.view`.
bool isMovedView(mlir::Operation *op);

/// The same, and for sums over micro-batches with `dpc.view`.
bool isBufferView(mlir::Operation *op);

namespace OpTrait {

/// See the file comment. `cheap` is the answer of isCheap.
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
