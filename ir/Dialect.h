//===- Dialect.h - The dpc dialect ------------------------------*- C++ -*-===//
//
// Declares everything TableGen makes of Dpc.td. See ir/README.md for the map.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_DIALECT_H
#define DPC_IR_DIALECT_H

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

/// How an op of the local altitude becomes instructions.
enum class LoweringKind {
  matmul,
  elementwise,
  kernel,
  collective,
  transfer,
  view
};

namespace detail {
/// Bytes of all ranked tensor operands and results of `op`, as typed.
double operandAndResultBytes(mlir::Operation *op);
/// Checks encodings of operands and results against the op's sharding rule.
llvm::LogicalResult verifyShardings(mlir::Operation *op);
} // namespace detail

namespace OpTrait {
/// Operand and result encodings follow the op's sharding rule; an op has
/// encodings everywhere or nowhere.
template <typename ConcreteType>
class ShardingVerified
    : public mlir::OpTrait::TraitBase<ConcreteType, ShardingVerified> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) {
    return detail::verifyShardings(op);
  }
};
} // namespace OpTrait

/// Bytes of one tensor of `type` (i1 counts as a byte).
int64_t sizeInBytes(mlir::RankedTensorType type);

} // namespace dpc

#include "ir/ShardingRule.h"

#include "ir/DpcInterfaces.h.inc"

#define GET_OP_CLASSES
#include "ir/DpcOps.h.inc"

#endif // DPC_IR_DIALECT_H
