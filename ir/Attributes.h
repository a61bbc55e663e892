//===- Attributes.h - The dpc.* attributes ----------------------*- C++ -*-===//
//
// Names of all discardable attributes that the compiler writes, and accessors
// of those that mark when and where an op runs. DpcDialect.td says which of
// them arguments and results have.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_ATTRIBUTES_H
#define DPC_IR_ATTRIBUTES_H

#include "ir/Enums.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace dpc {

namespace attr {

// Of modules and functions.

/// On the module: the model's name.
inline constexpr llvm::StringLiteral kModel = "dpc.model";
/// On the module: names of float weights that were imported as constants.
inline constexpr llvm::StringLiteral kConstants = "dpc.constants";
/// On the module (unit): its @train_step came with gradients and optimizer
/// inside, so that nobody knows which values are gradients of which forward op.
inline constexpr llvm::StringLiteral kWholeStep = "dpc.whole_step";
/// On the module (dictionary of i64): the degrees of `dp`, `tp`, `cp`, `pp` and
/// `vpp` that the shardings of the model (kUserSplit) give.
inline constexpr llvm::StringLiteral kUserDegrees = "dpc.user_degrees";
/// On step functions: the mesh.
inline constexpr llvm::StringLiteral kMesh = "dpc.mesh";
/// On step functions: the names of the rank axes from the innermost on, where
/// ranks next to each other are not those of the mesh order.
inline constexpr llvm::StringLiteral kPlacement = "dpc.placement";
/// On step functions: the micro-batches of each data-parallel rank, where these
/// are different numbers (absent: as many as `mb` says). See BatchShares.h.
inline constexpr llvm::StringLiteral kBatchShares = "dpc.batch_shares";
/// On @step and @step.s: (phase, chunk, micro-batch) triples in the order in
/// which they run; phase 1 is forward, 2 backward, 3 weight.
inline constexpr llvm::StringLiteral kSchedule = "dpc.schedule";

// Of arguments and results.

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
/// On an input: the dimension that counts samples.
inline constexpr llvm::StringLiteral kBatchDim = "dpc.batch_dim";
/// On a result (unit): the loss to train on.
inline constexpr llvm::StringLiteral kLoss = "dpc.loss";
/// The sharded type of the global tensor.
inline constexpr llvm::StringLiteral kGlobal = "dpc.global";
/// On a parameter or state: the memory it lies in, host or disk (absent: the
/// device's).
inline constexpr llvm::StringLiteral kSpace = "dpc.space";
/// On a parameter or state (unit): another stage's argument of the same name
/// is the one that is saved.
inline constexpr llvm::StringLiteral kCopy = "dpc.copy";
/// On an argument (array of i64): the dimensions that tensor axes split, one of
/// them each; no dimension where the array is empty. Absent: the search
/// decides. A model may come with such shardings (sdy.sharding of JAX,
/// ShardingSpec of ONNX).
inline constexpr llvm::StringLiteral kUserSplit = "dpc.user_split";
/// On an argument of @forward (unit): it is trained, though a rewrite found
/// that the loss does not depend on it.
inline constexpr llvm::StringLiteral kZeroGradient = "dpc.zero_gradient";

// Of ops: when and where they run.

/// See Phase.
inline constexpr llvm::StringLiteral kPhase = "dpc.phase";
/// On an op and the ops of its gradient: a number they share.
inline constexpr llvm::StringLiteral kGroup = "dpc.group";
/// On an op: its virtual pipeline stage; on @step.s: s, the rank's stage.
inline constexpr llvm::StringLiteral kStage = "dpc.stage";
/// On an op of @step.s: which of the rank's model chunks it is of (absent: 0).
inline constexpr llvm::StringLiteral kChunk = "dpc.chunk";
/// On a reshard: it happens in its own phase, although no input is read. On a
/// parameter with kSpace: so does all that is made of it.
inline constexpr llvm::StringLiteral kAtUse = "dpc.at_use";
/// On the function (a string: what to recompute, see dpc-recompute) and on the
/// ops that were cloned for it (unit).
inline constexpr llvm::StringLiteral kRecompute = "dpc.recompute";
/// On a matmul or collective of forward (unit), in programs for estimates: it
/// runs a second time in backward, although nothing reads that result.
inline constexpr llvm::StringLiteral kAgain = "dpc.again";

// Of ops: how they run.

/// On a convert between equal types (unit): no gradient passes. See
/// StopGradient.h.
inline constexpr llvm::StringLiteral kStopGradient = "dpc.stop_gradient";
/// On data movement (unit): it makes no buffer, its users read strided data. On
/// a sum over micro-batches: it shares the buffer of the matmul that adds
/// to it (GemmEpilogues.h).
inline constexpr llvm::StringLiteral kView = "dpc.view";
/// On a matmul: the order in which it writes its result's dimensions.
inline constexpr llvm::StringLiteral kOutPerm = "dpc.out_perm";
/// On a kernel that is a matmul: the name of its epilogue.
inline constexpr llvm::StringLiteral kEpilogue = "dpc.epilogue";
/// On attention (unit): queries and keys are one sequence, whose shards are
/// brought together by passing keys and values round.
inline constexpr llvm::StringLiteral kRing = "dpc.ring";
/// On attention and its gradient (unit): the plan has them as one instruction,
/// whose operands and results may be strided. Without it, where estimates keep
/// attention whole as other software has it, they are dense.
inline constexpr llvm::StringLiteral kFused = "dpc.fused";
/// On fused attention: for each result what kOutPerm is on a matmul; an empty
/// list where it is written in the usual order.
inline constexpr llvm::StringLiteral kOutPerms = "dpc.out_perms";
/// On the gradient of attention that cuDNN runs: the bytes that it needs while
/// it runs.
inline constexpr llvm::StringLiteral kWorkspace = "dpc.workspace";

/// On a matmul of bf16: the types of the codes that it multiplies instead of
/// its operands, [f8E4M3FN, f8E5M2]. On the program of a rank, only where the
/// sizes allow it; there kWorkspace is beside it.
inline constexpr llvm::StringLiteral kFp8 = "dpc.fp8";
/// On attention that runs as a ring (array of numbers): factors that its
/// positions are cut into; the last one is split.
inline constexpr llvm::StringLiteral kRingFactors = "dpc.ring_factors";
/// On a reshard and its collectives: the compression of what they send, "int8"
/// or "topk:SHARE"; the latter have `dpc.of`, the parameter, too.
inline constexpr llvm::StringLiteral kCompress = "dpc.compress";
/// On an all-reduce: those of its axes that lie inside a machine.
inline constexpr llvm::StringLiteral kInner = "dpc.inner";

} // namespace attr

/// Values of `dpc.role`.
namespace role {
inline constexpr llvm::StringLiteral kParameter = "parameter";
inline constexpr llvm::StringLiteral kBuffer = "buffer";
inline constexpr llvm::StringLiteral kState = "state";
inline constexpr llvm::StringLiteral kInput = "input";
inline constexpr llvm::StringLiteral kScalar = "scalar";
} // namespace role

// Phases, chunks and stages.

/// The phase that `op` is marked with; nullopt without a mark, and where it is
/// none of the known phases.
inline std::optional<Phase> markedPhase(mlir::Operation *op) {
  auto name = op->getAttrOfType<mlir::StringAttr>(attr::kPhase);
  return name ? symbolizePhase(name.getValue()) : std::nullopt;
}

/// The phase of `op`; ops without a mark are forward.
inline Phase phaseOf(mlir::Operation *op) {
  return markedPhase(op).value_or(Phase::forward);
}

inline mlir::StringAttr phaseAttr(mlir::MLIRContext *context, Phase phase) {
  return mlir::StringAttr::get(context, stringifyPhase(phase));
}

inline void setPhase(mlir::Operation *op, Phase phase) {
  op->setAttr(attr::kPhase, phaseAttr(op->getContext(), phase));
}

/// True for phases that run once per micro-batch.
inline bool isInLoop(Phase phase) {
  return phase != Phase::setup && phase != Phase::update;
}

/// The chunk of the stage's part of the model that `op` belongs to; 0 without a
/// mark.
inline int64_t chunkOf(mlir::Operation *op) {
  auto chunk = op->getAttrOfType<mlir::IntegerAttr>(attr::kChunk);
  return chunk ? chunk.getInt() : 0;
}

/// The virtual stage that `op` is marked with, or the stage whose step function
/// `op` is; nullopt without a mark.
inline std::optional<int64_t> stageOf(mlir::Operation *op) {
  auto stage = op->getAttrOfType<mlir::IntegerAttr>(attr::kStage);
  return stage ? std::optional<int64_t>(stage.getInt()) : std::nullopt;
}

/// The marks of phase and chunk. Ops with equal marks run together.
using PhaseKey = std::pair<mlir::Attribute, mlir::Attribute>;
inline PhaseKey phaseKey(mlir::Operation *op) {
  return {op->getAttr(attr::kPhase), op->getAttr(attr::kChunk)};
}

inline bool isSamePhase(mlir::Operation *a, mlir::Operation *b) {
  return phaseKey(a) == phaseKey(b);
}

/// Copies those of the attributes `names` that `from` has to `to`.
inline void copyAttributes(mlir::Operation *from, mlir::Operation *to,
                           llvm::ArrayRef<llvm::StringLiteral> names) {
  for (llvm::StringRef name : names)
    if (mlir::Attribute value = from->getAttr(name))
      to->setAttr(name, value);
}

/// The same for an op that is not yet created.
inline void copyAttributes(mlir::Operation *from, mlir::NamedAttrList &to,
                           llvm::ArrayRef<llvm::StringLiteral> names) {
  for (llvm::StringRef name : names)
    if (mlir::Attribute value = from->getAttr(name))
      to.set(name, value);
}

/// Gives `op` the phase and chunk of `at`, or takes its marks away where `at`
/// has none.
inline void moveToPhase(mlir::Operation *op, mlir::Operation *at) {
  for (llvm::StringRef name : {attr::kPhase, attr::kChunk})
    if (mlir::Attribute value = at->getAttr(name))
      op->setAttr(name, value);
    else
      op->removeAttr(name);
}

} // namespace dpc

#endif // DPC_IR_ATTRIBUTES_H
