//===- Dialect.h - The dpc dialect ------------------------------*- C++ -*-===//
//
// Declares everything TableGen makes of Dpc.td. See ir/README.md for the map.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_DIALECT_H
#define DPC_IR_DIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/DpcEnums.h.inc"

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

/// Names of the function argument and result attributes (see DpcDialect.td).
namespace attr {
inline constexpr llvm::StringLiteral kName = "dpc.name";
inline constexpr llvm::StringLiteral kRole = "dpc.role";
inline constexpr llvm::StringLiteral kOf = "dpc.of";
inline constexpr llvm::StringLiteral kSlot = "dpc.slot";
inline constexpr llvm::StringLiteral kSource = "dpc.source";
/// On a state: the number that all of its elements start from (absent: 0).
inline constexpr llvm::StringLiteral kInit = "dpc.init";
/// On a scalar argument: name of a state that counts the steps so far at which
/// nothing was updated; the scalar is that of the step number without them.
inline constexpr llvm::StringLiteral kSkips = "dpc.skips";
inline constexpr llvm::StringLiteral kTies = "dpc.ties";
inline constexpr llvm::StringLiteral kPhase = "dpc.phase";
/// On an op and the ops of its gradient: a number they share.
inline constexpr llvm::StringLiteral kGroup = "dpc.group";
/// On an input: the dimension that counts samples.
inline constexpr llvm::StringLiteral kBatchDim = "dpc.batch_dim";
/// On a result (unit): the loss to train on.
inline constexpr llvm::StringLiteral kLoss = "dpc.loss";
/// On the module: the model's name.
inline constexpr llvm::StringLiteral kModel = "dpc.model";
/// On the module: names of float weights that were imported as constants.
inline constexpr llvm::StringLiteral kConstants = "dpc.constants";
/// On @step: its mesh; on its arguments and results: the sharded type.
inline constexpr llvm::StringLiteral kMesh = "dpc.mesh";
/// On step functions: the names of the rank axes from the innermost on, where
/// ranks next to each other are not those of the mesh order.
inline constexpr llvm::StringLiteral kPlacement = "dpc.placement";
/// On step functions: the micro-batches of each data-parallel rank, where these
/// are unlike numbers (absent: as many as `mb` says). See BatchShares.h.
inline constexpr llvm::StringLiteral kBatchShares = "dpc.batch_shares";
inline constexpr llvm::StringLiteral kGlobal = "dpc.global";
/// On data movement (unit): it makes no buffer, its users read strided data. On
/// a sum over micro-batches: it shares the buffer of the matmul that adds
/// to it (GemmEpilogues.h).
inline constexpr llvm::StringLiteral kView = "dpc.view";
/// On a matmul: the order in which it writes its result's dimensions.
inline constexpr llvm::StringLiteral kOutPerm = "dpc.out_perm";
/// On a parameter or state: the memory it lies in, host or disk (absent: the
/// device's).
inline constexpr llvm::StringLiteral kSpace = "dpc.space";
/// On a reshard: it happens in its own phase, although no input is read. On a
/// parameter with kSpace: so does all that is made of it.
inline constexpr llvm::StringLiteral kAtUse = "dpc.at_use";
/// On attention (unit): queries and keys are one sequence, whose shards are
/// brought together by passing keys and values round.
inline constexpr llvm::StringLiteral kRing = "dpc.ring";
/// On an op: its virtual pipeline stage; on @step.s: s, the rank's stage.
inline constexpr llvm::StringLiteral kStage = "dpc.stage";
/// On an op of @step.s: which of the rank's model chunks it is of (absent: 0).
inline constexpr llvm::StringLiteral kChunk = "dpc.chunk";
/// On a parameter or state (unit): another stage's argument of the same name
/// is the one that is saved.
inline constexpr llvm::StringLiteral kCopy = "dpc.copy";
/// On @step and @step.s: (phase, chunk, micro-batch) triples in the order in
/// which they run; phase 1 is forward, 2 backward, 3 weight.
inline constexpr llvm::StringLiteral kSchedule = "dpc.schedule";
} // namespace attr

/// Values of `dpc.role`.
namespace role {
inline constexpr llvm::StringLiteral kParameter = "parameter";
inline constexpr llvm::StringLiteral kBuffer = "buffer";
inline constexpr llvm::StringLiteral kState = "state";
inline constexpr llvm::StringLiteral kInput = "input";
inline constexpr llvm::StringLiteral kScalar = "scalar";
} // namespace role

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
