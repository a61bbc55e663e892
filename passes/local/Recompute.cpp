//===- Recompute.cpp - dpc-recompute --------------------------------------===//
//
// Values that the forward phase computes and the backward phase reads take most
// of the memory of a step. RecomputeBlocks.cpp and RecomputeSelective.cpp
// choose the values to *keep*. The others are recomputed: before each reader in
// the backward phase, the forward ops between kept values and the operands of
// the reader are cloned. Each op is cloned at most once.
//
// Ops that read only parameters are always recomputed, but reuse the
// all_gathers of parameters that the backward phase has anyway.
//
//===----------------------------------------------------------------------===//
#include "passes/local/Recompute.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCRECOMPUTE
#include "passes/local/Passes.h.inc"

namespace {

class Rematerializer {
public:
  Rematerializer(const ForwardPhase &forward, DenseSet<Value> kept)
      : forward(forward), kept(std::move(kept)) {
    this->kept.insert(forward.fixed.begin(), forward.fixed.end());
  }
  void run(Block &block) {
    SmallVector<Operation *> readers;
    int64_t next = 0;
    for (Operation &op : block) {
      place[&op] = next += 2;
      if (isBackward(&op) && !op.hasTrait<mlir::OpTrait::IsTerminator>())
        readers.push_back(&op);
    }
    for (Operation *reader : readers) {
      SmallVector<Operation *> ops;
      for (Value operand : reader->getOperands())
        need(operand, ops);
      llvm::sort(ops, [&](Operation *a, Operation *b) {
        return forward.position(a) < forward.position(b);
      });
      for (Operation *op : ops)
        repeat(op, reader);
      for (OpOperand &operand : reader->getOpOperands())
        operand.set(again.lookupOrDefault(operand.get()));
    }
  }

private:
  bool isAvailable(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!isForward(op) || again.contains(value) || !isRepeatable(op))
      return true;
    return !forward.isFree(op) && kept.contains(withoutReshapes(value));
  }

  void need(Value value, SmallVectorImpl<Operation *> &ops) {
    SmallVector<Value> values = {value};
    while (!values.empty()) {
      Value next = values.pop_back_val();
      if (isAvailable(next) || !queued.insert(next.getDefiningOp()).second)
        continue;
      ops.push_back(next.getDefiningOp());
      llvm::append_range(values, next.getDefiningOp()->getOperands());
    }
  }

  void repeat(Operation *op, Operation *reader) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(again.lookupOrDefault(operand));
    if (share(op, operands, reader))
      return;
    OpBuilder builder(reader);
    op->removeAttr(attr::kAgain);
    Operation *clone = builder.clone(*op, again);
    clone->setAttr(attr::kRecompute, builder.getUnitAttr());
    runWith(clone, reader);
  }

  /// Tries to reuse an equal op of the backward phase for an op that reads only
  /// parameters. If the equal op is later, it moves before `reader`. If it is
  /// earlier and has no more readers, it is not reused, because its result
  /// would stay in memory longer.
  bool share(Operation *op, ValueRange operands, Operation *reader) {
    Operation *twin = forward.isFree(op) ? twinOf(op, operands) : nullptr;
    if (!twin || twin == reader)
      return false;
    if (isBehind(twin, reader)) {
      twin->moveBefore(reader);
      runWith(twin, reader);
    } else if (!isReadLater(twin, reader)) {
      return false;
    }
    again.map(op->getResults(), twin->getResults());
    return true;
  }

  const ForwardPhase &forward;
  DenseSet<Value> kept;
  IRMapping again;
  DenseSet<Operation *> queued;
  /// The order of the ops, which stays valid when ops are inserted. Original
  /// ops have even numbers, and an op inserted before a reader has the odd
  /// number before it.
  DenseMap<Operation *, int64_t> place;

  bool isBehind(Operation *op, Operation *reader) const {
    return place.lookup(op) > place.lookup(reader);
  }
  void runWith(Operation *op, Operation *reader) {
    moveToPhase(op, reader);
    place[op] = place.lookup(reader) - 1;
  }
  /// True if `reader` or a later op reads `op`, perhaps through data movement.
  bool isReadLater(Operation *op, Operation *reader) const {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      if (user == reader || isBehind(user, reader))
        return true;
      return isa<ReshapeOp, TransposeOp, SliceOp, ConcatOp>(user) &&
             isReadLater(user, reader);
    });
  }
};

struct RecomputePass : impl::DpcRecomputeBase<RecomputePass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh) && failed(recompute(func)))
        return signalPassFailure();
  }

  LogicalResult recompute(func::FuncOp func) {
    auto wanted = func->getAttrOfType<StringAttr>(attr::kRecompute);
    StringRef kind = !mode.empty() ? StringRef(mode)
                     : wanted      ? wanted.getValue()
                                   : "none";
    if (kind != "none" && kind != "selective" && kind != "full")
      return func.emitError("recompute mode is '")
             << kind << "', expected none, selective or full";
    if (kind == "none")
      return success();
    func->setAttr(attr::kRecompute, StringAttr::get(&getContext(), kind));
    ForwardPhase forward(func);
    if (forward.runs.empty())
      return success();
    DenseSet<Value> kept =
        kind != "full" ? keepForSelective(forward, gather, gatherTokens)
        : layers
            ? keepForLayers(forward, func, whole)
            : keepForFull(forward, func, {omittedLayers, alive, blockLayers});
    Rematerializer(forward, std::move(kept)).run(func.getBody().front());
    eraseDeadOps(func.getBody().front());
    return success();
  }
};

} // namespace
} // namespace dpc
