//===- Attributes.h - The dpc.* attributes ----------------------*- C++ -*-===//
//
// The names of all discardable attributes that the compiler sets, and accessors
// for the phase, chunk and stage of an op. DpcDialect.td lists the attributes
// of arguments and results.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/Operation.h"

#include "ir/DpcEnums.h.inc"

namespace dpc {

namespace attr {

// On modules and functions.

inline constexpr llvm::StringLiteral kModel = "dpc.model";
/// On the module: the names of float weights that were constants in the model.
inline constexpr llvm::StringLiteral kConstants = "dpc.constants";
/// On an imported module: what the import for inference changed, as text.
inline constexpr llvm::StringLiteral kEvaluation = "dpc.evaluation";
/// On an imported module: which ops its file has in evaluation mode, as text,
/// if it has none in training mode.
inline constexpr llvm::StringLiteral kEvaluationMode = "dpc.evaluation_mode";
/// On the module: the names of weights in the model that are not arguments,
/// because the program does not read them or contains them as constants.
inline constexpr llvm::StringLiteral kUnreadWeights = "dpc.unread_weights";
/// On the module (unit): the imported @train_step already has gradients and an
/// optimizer. dpc does not know which forward op each gradient belongs to.
inline constexpr llvm::StringLiteral kWholeStep = "dpc.whole_step";
/// On the module (dictionary of i64): the degrees of `dp`, `tp`, `cp`, `pp` and
/// `vpp` that the model's own shardings (kUserSplit) use.
inline constexpr llvm::StringLiteral kUserDegrees = "dpc.user_degrees";
inline constexpr llvm::StringLiteral kMesh = "dpc.mesh";
/// On step functions: the names of the rank axes, innermost first. Absent if
/// ranks are placed in the order of the mesh.
inline constexpr llvm::StringLiteral kPlacement = "dpc.placement";
/// On step functions: the number of micro-batches of each data-parallel rank
/// (BatchShares.h). Absent: each rank has as many as the size of `mb`.
inline constexpr llvm::StringLiteral kBatchShares = "dpc.batch_shares";
/// On @step and @step.s: (phase, chunk, micro-batch) triples in the order in
/// which they run. Phase 1 is forward, 2 is backward and 3 is weight.
inline constexpr llvm::StringLiteral kSchedule = "dpc.schedule";
/// On step functions: how many passes over the micro-batches compute only sums
/// (PartitionTotals.cpp). Absent: 0.
inline constexpr llvm::StringLiteral kTotalsPasses = "dpc.totals_passes";
/// On step functions: the value of a strategy key that only the cost model
/// reads (KeyInfo::isMarked).
inline std::string ofKey(llvm::StringRef key) { return ("dpc." + key).str(); }

/// On the module (array of f64): for n = 1, 2, .., the rows of the fullest of
/// the ranks with n experts each, relative to n average experts. A model with
/// mixtures of several sizes has only the loads of the largest mixture.
inline constexpr llvm::StringLiteral kExpertLoads = "dpc.expert_loads";

// On arguments and results.

inline constexpr llvm::StringLiteral kName = "dpc.name";
inline constexpr llvm::StringLiteral kRole = "dpc.role";
inline constexpr llvm::StringLiteral kOf = "dpc.of";
inline constexpr llvm::StringLiteral kSlot = "dpc.slot";
inline constexpr llvm::StringLiteral kSource = "dpc.source";
/// On a weight: its other names in the model (tied weights).
inline constexpr llvm::StringLiteral kAliases = "dpc.aliases";
/// On a buffer (unit): files of weights lack it (rt::Tensor::isUnsaved).
inline constexpr llvm::StringLiteral kUnsaved = "dpc.unsaved";
/// On a weight (unit): a parameter of the model that is not trained, because
/// of requires_grad=False or --frozen.
inline constexpr llvm::StringLiteral kFrozen = "dpc.frozen";
/// On a state: the initial value of all its elements. Absent: 0. On a scale or
/// bias of a norm: the value that --init=random gives it.
inline constexpr llvm::StringLiteral kInit = "dpc.init";
/// On a scalar argument: the name of the state that counts skipped steps. In
/// step n, the argument has its scheduled value for step n minus this count.
inline constexpr llvm::StringLiteral kSkips = "dpc.skips";
inline constexpr llvm::StringLiteral kTies = "dpc.ties";
/// On an input or result: the dimension that counts samples.
inline constexpr llvm::StringLiteral kBatchDim = "dpc.batch_dim";
/// On a result of @forward that counts faults in its inputs, which must be 0:
/// what it counts, as text (dpc-check-indices). It is no output of the model.
inline constexpr llvm::StringLiteral kFaults = "dpc.faults";
/// On a result (unit): the result is the loss.
inline constexpr llvm::StringLiteral kLoss = "dpc.loss";
/// On an argument or result of the local altitude: the sharded type of the
/// whole tensor. On ring attention: the sharded type of its first operand.
inline constexpr llvm::StringLiteral kGlobal = "dpc.global";
/// On a parameter or state: its memory space, host or disk. Absent: the memory
/// of the device.
inline constexpr llvm::StringLiteral kSpace = "dpc.space";
/// On a parameter or state (unit): another stage has an argument with the same
/// name, and checkpoints contain only the argument of that stage.
inline constexpr llvm::StringLiteral kCopy = "dpc.copy";
/// On an argument (array of i64): for each tensor axis, the dimension that the
/// axis splits. An empty array means that no axis splits the argument. Absent:
/// the search decides. Frontends set it from sdy.sharding (JAX) and
/// ShardingSpec (ONNX).
inline constexpr llvm::StringLiteral kUserSplit = "dpc.user_split";
/// On an argument of @forward (unit): the argument is trained, although the
/// loss no longer depends on it after a rewrite.
inline constexpr llvm::StringLiteral kZeroGradient = "dpc.zero_gradient";

/// The phase; see Phase.
inline constexpr llvm::StringLiteral kPhase = "dpc.phase";
/// On an op and the ops of its gradient: the id of their group.
inline constexpr llvm::StringLiteral kGroup = "dpc.group";
/// On an op: its virtual pipeline stage. On @step.s: s, the stage of its ranks.
inline constexpr llvm::StringLiteral kStage = "dpc.stage";
/// On an op of @step.s: the index of its model chunk on the rank. Absent: 0.
/// Each pass over the micro-batches has its own chunks, numbered in the order
/// of the passes. On an op of @step: the index of its pass.
inline constexpr llvm::StringLiteral kChunk = "dpc.chunk";
/// On a reshard: the reshard normally runs in the phase that `dpc.phase` names,
/// although it depends on no input. On a parameter with kSpace: each op that
/// depends only on this parameter runs in the phase that the op's `dpc.phase`
/// names.
inline constexpr llvm::StringLiteral kAtUse = "dpc.at_use";
/// On the function (string): the values to recompute (see dpc-recompute). On an
/// op (unit): the op is a recomputation.
inline constexpr llvm::StringLiteral kRecompute = "dpc.recompute";
/// On the function (integer): the most layers in a block of full recomputation.
/// Absent without full recomputation or equal layers.
inline constexpr llvm::StringLiteral kBlockLayers = "dpc.block_layers";
/// On a forward matmul or collective (unit), only in programs for estimates:
/// the backward pass also runs the op, and no op reads the second result.
inline constexpr llvm::StringLiteral kAgain = "dpc.again";

// On ops: the data that the model accepts (setInputUses reads them).

/// On a comparison of an iota with indices (unit): the model accepts only the
/// positions of the iota, and kIgnored. On a cross_entropy (unit): the model
/// ignores no label, and `ignore_index` is not accepted.
inline constexpr llvm::StringLiteral kBounded = "dpc.bounded";
/// On a cross_entropy_sums or a comparison with kBounded: the label whose rows
/// the loss ignores. Absent: the loss ignores no label.
inline constexpr llvm::StringLiteral kIgnored = "dpc.ignored";

/// On an elementwise op (integer): the operand that holds the targets of a
/// binary cross entropy, which are probabilities.
inline constexpr llvm::StringLiteral kTargets = "dpc.targets";

// On ops: their gradients.

/// On a maximum or minimum (integer): the operand that gets the whole gradient
/// where both are equal. Absent: each gets half, as with torch.maximum.
inline constexpr llvm::StringLiteral kTieGradient = "dpc.tie_gradient";

// On ops: how they run.

inline constexpr llvm::StringLiteral kStopGradient = "dpc.stop_gradient";
/// On data movement (unit): the op has no buffer, and its users read strided
/// data. On a sum over micro-batches: the sum and the matmul that adds to it
/// share a buffer (GemmEpilogues.h).
inline constexpr llvm::StringLiteral kView = "dpc.view";
/// On a matmul: the order in which it writes the dimensions of its result.
inline constexpr llvm::StringLiteral kOutPerm = "dpc.out_perm";
/// On a kernel with a matmul: the name of its epilogue.
inline constexpr llvm::StringLiteral kEpilogue = "dpc.epilogue";
/// On attention (unit): queries and keys have the same sequence, the sequence
/// is split, and ranks exchange keys and values in a ring.
inline constexpr llvm::StringLiteral kRing = "dpc.ring";
/// On ops between two products of experts, and on the first one (unit): if the
/// experts are split, each row of the result is valid on the rank of its expert
/// only (passes/shard/ExpertRows.h).
inline constexpr llvm::StringLiteral kRouted = "dpc.routed";
/// On attention and its gradient (unit): the op becomes one instruction, whose
/// operands and results may be strided. Estimates for other software may
/// keep attention without this attribute, whose operands and results are dense.
inline constexpr llvm::StringLiteral kFused = "dpc.fused";
/// On fused attention: the kOutPerm of each result; an empty list means the
/// default order.
inline constexpr llvm::StringLiteral kOutPerms = "dpc.out_perms";
/// On an attention gradient that cuDNN computes: the bytes of its workspace.
inline constexpr llvm::StringLiteral kWorkspace = "dpc.workspace";
/// On a bf16 matmul: the 8-bit types to which its operands are converted,
/// [f8E4M3FN, f8E5M2]. At the local altitude, only matmuls whose sizes fp8
/// supports have this attribute, together with kWorkspace.
inline constexpr llvm::StringLiteral kFp8 = "dpc.fp8";
/// On attention that runs as a ring (array of i64): the factors of the sequence
/// dimension, of which the last one is split.
inline constexpr llvm::StringLiteral kRingFactors = "dpc.ring_factors";
/// On a reshard and its collectives: the compression of the communicated data,
/// "int8" or "topk:SHARE". Ops with "topk:SHARE" also have `dpc.of`, which
/// names the parameter.
inline constexpr llvm::StringLiteral kCompress = "dpc.compress";
/// On an all_reduce: the subset of its axes whose ranks share a machine.
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

/// Returns the phase mark of `op`, or nullopt if the mark is missing or
/// unknown.
inline std::optional<Phase> markedPhase(mlir::Operation *op) {
  auto name = op->getAttrOfType<mlir::StringAttr>(attr::kPhase);
  return name ? symbolizePhase(name.getValue()) : std::nullopt;
}

/// Returns the phase of `op`; ops without a mark are forward.
inline Phase phaseOf(mlir::Operation *op) {
  return markedPhase(op).value_or(Phase::forward);
}

inline mlir::StringAttr phaseAttr(mlir::MLIRContext *context, Phase phase) {
  return mlir::StringAttr::get(context, stringifyPhase(phase));
}

inline void setPhase(mlir::Operation *op, Phase phase) {
  op->setAttr(attr::kPhase, phaseAttr(op->getContext(), phase));
}

/// Returns true for phases that run once per micro-batch.
inline bool isInLoop(Phase phase) {
  return phase != Phase::setup && phase != Phase::update;
}

/// Returns the model chunk of `op`, 0 without a mark.
inline int64_t chunkOf(mlir::Operation *op) {
  auto chunk = op->getAttrOfType<mlir::IntegerAttr>(attr::kChunk);
  return chunk ? chunk.getInt() : 0;
}

/// Returns the virtual stage of an op or the stage of a step function, or
/// nullopt without a mark.
inline std::optional<int64_t> stageOf(mlir::Operation *op) {
  auto stage = op->getAttrOfType<mlir::IntegerAttr>(attr::kStage);
  return stage ? std::optional<int64_t>(stage.getInt()) : std::nullopt;
}

/// The phase and chunk marks of an op. Ops with equal marks run together.
using PhaseKey = std::pair<mlir::Attribute, mlir::Attribute>;
inline PhaseKey phaseKey(mlir::Operation *op) {
  return {op->getAttr(attr::kPhase), op->getAttr(attr::kChunk)};
}

inline bool isSamePhase(mlir::Operation *a, mlir::Operation *b) {
  return phaseKey(a) == phaseKey(b);
}

inline void copyAttributes(mlir::Operation *from, mlir::Operation *to,
                           llvm::ArrayRef<llvm::StringLiteral> names) {
  for (llvm::StringRef name : names)
    if (mlir::Attribute value = from->getAttr(name))
      to->setAttr(name, value);
}

/// Copies the attributes `names` from `from` to the attribute list `to`.
inline void copyAttributes(mlir::Operation *from, mlir::NamedAttrList &to,
                           llvm::ArrayRef<llvm::StringLiteral> names) {
  for (llvm::StringRef name : names)
    if (mlir::Attribute value = from->getAttr(name))
      to.set(name, value);
}

/// Copies the phase and chunk marks of `at` to `op`. If `at` lacks one of these
/// marks, the mark of `op` is removed.
inline void moveToPhase(mlir::Operation *op, mlir::Operation *at) {
  for (llvm::StringRef name : {attr::kPhase, attr::kChunk})
    if (mlir::Attribute value = at->getAttr(name))
      op->setAttr(name, value);
    else
      op->removeAttr(name);
}

} // namespace dpc
