//===- VerifyLocal.cpp - dpc-verify-local ---------------------------------===//
#include "ir/ExpertTiles.h"
#include "ir/TensorUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"
#include "passes/local/ScheduleTable.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCVERIFYLOCAL
#include "passes/local/Passes.h.inc"

namespace {

/// Checks the constraints C1 to C6 of Passes.td in one function.
class LocalVerifier {
public:
  explicit LocalVerifier(func::FuncOp func)
      : func(func), orders(func.getContext()) {}

  LogicalResult run() {
    mesh = func->getAttrOfType<MeshAttr>(attr::kMesh);
    if (!mesh)
      return func.emitError("'dpc.mesh' is not a #dpc.mesh");
    if (failed(checkGlobals(/*arguments=*/true)) ||
        failed(checkGlobals(/*arguments=*/false)))
      return failure();
    WalkResult result = func.walk([&](Operation *op) {
      return failed(checkTypes(op)) || failed(checkAxes(op))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return failure(result.wasInterrupted() || failed(checkPhases()) ||
                   failed(checkSpaces()));
  }

private:
  LogicalResult checkGlobals(bool arguments) {
    TypeRange types = arguments ? TypeRange(func.getArgumentTypes())
                                : TypeRange(func.getResultTypes());
    for (auto [i, type] : llvm::enumerate(types)) {
      auto global = arguments
                        ? func.getArgAttrOfType<TypeAttr>(i, attr::kGlobal)
                        : dyn_cast_or_null<TypeAttr>(
                              func.getResultAttr(i, attr::kGlobal));
      const char *what = arguments ? "argument " : "result ";
      if (!global || !getSharding(global.getValue()))
        return func.emitError("(C5) ") << what << i << " has no 'dpc.global'";
      Type local = localType(cast<RankedTensorType>(global.getValue()));
      if (local != type)
        return func.emitError("(C5) ")
               << what << i << " has type " << type << "; expected " << local
               << ", the local type of its 'dpc.global'";
    }
    return success();
  }

  LogicalResult checkTypes(Operation *op) {
    auto isEncoded = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.getEncoding();
    };
    for (Type type : op->getResultTypes())
      if (isEncoded(type))
        return op->emitError("(C1) result of type ")
               << type << " has an encoding";
    for (Region &region : op->getRegions())
      for (Type type : region.getArgumentTypes())
        if (isEncoded(type))
          return op->emitError("(C1) block argument of type ")
                 << type << " has an encoding";
    return success();
  }

  LogicalResult checkAxes(Operation *op) {
    ArrayAttr axes = isa<RankSliceOp>(op) ? op->getAttrOfType<ArrayAttr>("axes")
                                          : communicationAxes(op);
    if (!axes)
      return success();
    int64_t last = -1;
    for (auto axis : axes.getAsRange<StringAttr>()) {
      std::optional<int64_t> index = mesh.findAxis(axis.getValue());
      if (!index)
        return op->emitError("(C2) axis ") << axis << " is not in " << mesh;
      if (*index <= last)
        return op->emitError("(C2) axes ")
               << axes << " are not in the order of " << mesh;
      last = *index;
      if (axis.getValue() == kMicroBatchAxis && !isa<RankSliceOp>(op))
        return op->emitError(
            "(C2) axis 'mb' has micro-batches, not ranks: the value spans all "
            "samples of a rank; plan with one micro-batch a step (a --strategy "
            "without micro_batch)");
    }
    return checkPieces(op, axes);
  }

  LogicalResult checkPieces(Operation *op, ArrayAttr axes) {
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    ValueRange stacks = collective ? collective.getStacks() : ValueRange();
    if (isa<RankSliceOp>(op))
      stacks = op->getOperands();
    int64_t ranks = ranksOver(mesh, axes);
    for (Value stack : stacks) {
      int64_t pieces = tensorType(stack).getDimSize(0);
      if (pieces != ranks)
        return op->emitError("(C2) stack has ")
               << pieces << " pieces, but the axes have " << ranks << " ranks";
    }
    return success();
  }

  LogicalResult checkPhases() {
    int64_t current = 0;
    for (Operation &op : func.getBody().front().without_terminator()) {
      auto phase = op.getAttrOfType<StringAttr>(attr::kPhase);
      if (!markedPhase(&op))
        return op.emitError("(C3) 'dpc.phase' is ")
               << (phase ? "'" + phase.getValue().str() + "'" : "missing")
               << ", expected setup, forward, backward, weight or update";
      if (orders.of(&op) < current)
        return op.emitError("(C3) phase '")
               << phase.getValue() << "' comes after a later phase";
      current = orders.of(&op);
      if (failed(checkReads(&op)))
        return failure();
    }
    return success();
  }

  /// True if the schedule runs all micro-batches of the phase and chunk of `a`
  /// before the first one of the phase and chunk of `b`.
  bool endsBefore(Operation *a, Operation *b) {
    bool hasBegun = false, isKnown = false;
    auto runs = [](const cost::ScheduleStep &entry, Operation *op) {
      return static_cast<int64_t>(entry.phase) ==
                 static_cast<int64_t>(phaseOf(op)) &&
             entry.chunk == chunkOf(op);
    };
    for (const cost::ScheduleStep &entry : tableOf(func)) {
      hasBegun |= runs(entry, b);
      if (!runs(entry, a))
        continue;
      isKnown = true;
      if (hasBegun)
        return false;
    }
    return isKnown;
  }

  LogicalResult checkReads(Operation *op) {
    Phase phase = phaseOf(op);
    int64_t order = orders.of(op);
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      // Accumulated values are complete only after the last micro-batch.
      if (isa<AccumulateOp>(producer) && phase != Phase::update &&
          !endsBefore(producer, op))
        return op->emitError(
            "(C4) reads an accumulated value before the last micro-batch has "
            "been added");
      if (orders.of(producer) <= order)
        continue;
      if (auto from = producer->getAttrOfType<StringAttr>(attr::kPhase))
        return op->emitError("(C4) phase '")
               << stringifyPhase(phase) << "' reads a value of phase '"
               << from.getValue() << "'";
    }
    if (isa<AccumulateOp>(op) && !isInLoop(phase))
      return op->emitError("(C4) accumulates outside the micro-batch loop");
    return success();
  }

  /// Arguments outside device memory may only be fetched, stored or returned.
  LogicalResult checkSpaces() {
    for (BlockArgument arg : func.getArguments()) {
      auto space =
          func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kSpace);
      if (!space)
        continue;
      for (OpOperand &use : arg.getUses()) {
        Operation *user = use.getOwner();
        bool isTarget = isa<StoreOp>(user) && use.getOperandNumber() == 1;
        if (!isTarget && !isa<FetchOp, func::ReturnOp>(user))
          return user->emitError("(C6) reads argument ")
                 << arg.getArgNumber() << ", which is in " << space.getValue()
                 << " memory, without dpc.fetch";
      }
    }
    return success();
  }

  func::FuncOp func;
  MeshAttr mesh;
  RunOrders orders;
};

struct VerifyLocalPass : impl::DpcVerifyLocalBase<VerifyLocalPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh) && failed(LocalVerifier(func).run()))
        signalPassFailure();
  }
};

} // namespace
} // namespace dpc
