//===- Dialect.h - The dpc dialect ------------------------------*- C++ -*-===//
#pragma once

#include "ir/Attributes.h"
#include "ir/KernelRole.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_ATTRDEF_CLASSES
#include "ir/DpcAttrs.h.inc"

#include "ir/DpcDialect.h.inc"

namespace dpc {

/// How an op of the local altitude is lowered; see LoweringOpInterface.
enum class LoweringKind {
  matmul,
  elementwise,
  kernel,
  collective,
  transfer,
  view
};

namespace detail {
double operandAndResultBytes(mlir::Operation *op);
/// Checks that either no operand or result of `op` has an encoding, or that all
/// have one and follow the sharding rule of `op`.
llvm::LogicalResult verifyShardings(mlir::Operation *op);
} // namespace detail

namespace OpTrait {
/// Runs verifyShardings.
template <typename ConcreteType>
class ShardingVerified
    : public mlir::OpTrait::TraitBase<ConcreteType, ShardingVerified> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return detail::verifyShardings(op);
  }
};
} // namespace OpTrait

/// Returns the bytes of a tensor; an i1 element takes one byte.
int64_t sizeInBytes(mlir::RankedTensorType type);

} // namespace dpc

#include "ir/ShardingRule.h"

#include "ir/DpcInterfaces.h.inc"

#define GET_OP_CLASSES
#include "ir/DpcOps.h.inc"
