//===- Partition.cpp - dpc-partition --------------------------------------===//
#include "passes/local/Partition.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Passes.h"
#include "passes/shard/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCPARTITION
#include "passes/local/Passes.h.inc"

namespace {

/// Gives new ops the phase and stage of their original op, unless they have
/// one. A mask has no stage, because readers in several stages may share it.
class PhaseListener : public OpBuilder::Listener {
public:
  Attribute phase, atUse, stage;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    Attribute home = isa<MaskOp>(op) ? Attribute() : stage;
    edits.apply(op, {phase, home, atUse}, [&](NamedAttrList &list) {
      if (phase && !list.get(attr::kPhase))
        list.set(attr::kPhase, phase);
      if (home && !list.get(attr::kStage))
        list.set(attr::kStage, home);
      if (atUse)
        list.set(attr::kAtUse, atUse);
    });
  }

private:
  AttributeEdits edits;
};

} // namespace

Partitioner::Partitioner(func::FuncOp sharded, MeshAttr mesh)
    : sharded(sharded), mesh(mesh), builder(sharded.getContext()) {}

RankedTensorType Partitioner::localTypeOf(Type type) {
  RankedTensorType &local = localTypes[type];
  if (!local)
    local = localType(cast<RankedTensorType>(type));
  return local;
}

static SmallVector<Attribute> withGlobals(Builder &builder, ArrayAttr old,
                                          TypeRange types) {
  SmallVector<Attribute> result;
  for (auto [i, type] : llvm::enumerate(types)) {
    NamedAttrList list(old ? cast<DictionaryAttr>(old[i])
                           : builder.getDictionaryAttr({}));
    list.set(attr::kGlobal, TypeAttr::get(type));
    result.push_back(list.getDictionary(builder.getContext()));
  }
  return result;
}

LogicalResult Partitioner::makeSignature() {
  auto makeLocal = [&](TypeRange types, StringRef what,
                       SmallVector<Type> &locals) -> LogicalResult {
    for (auto [i, type] : llvm::enumerate(types)) {
      ShardingAttr sharding = getSharding(type);
      if (!sharding || sharding.getMesh() != mesh)
        return sharded.emitError() << what << " " << i << " of type " << type
                                   << " has no sharding over " << mesh;
      locals.push_back(localTypeOf(type));
    }
    return success();
  };
  SmallVector<Type> arguments, results;
  if (failed(makeLocal(sharded.getArgumentTypes(), "argument", arguments)) ||
      failed(makeLocal(sharded.getResultTypes(), "result", results)))
    return failure();
  builder.setInsertionPointAfter(sharded);
  step = func::FuncOp::create(builder, sharded.getLoc(), "step",
                              builder.getFunctionType(arguments, results));
  step->setDiscardableAttrs(sharded->getDiscardableAttrDictionary());
  step->setAttr(attr::kMesh, mesh);
  step.setArgAttrsAttr(builder.getArrayAttr(withGlobals(
      builder, sharded.getArgAttrsAttr(), sharded.getArgumentTypes())));
  step.setResAttrsAttr(builder.getArrayAttr(withGlobals(
      builder, sharded.getResAttrsAttr(), sharded.getResultTypes())));
  Block *body = step.addEntryBlock();
  for (auto [from, to] :
       llvm::zip(sharded.getArguments(), body->getArguments()))
    mapping.map(from, to);
  builder.setInsertionPointToStart(body);
  return success();
}

FailureOr<func::FuncOp> Partitioner::run() {
  if (failed(makeSignature()))
    return failure();
  PhaseListener listener;
  builder.setListener(&listener);
  StringAttr phase = builder.getStringAttr(attr::kPhase);
  StringAttr atUse = builder.getStringAttr(attr::kAtUse);
  StringAttr stage = builder.getStringAttr(attr::kStage);
  for (Operation &op : sharded.getBody().front()) {
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      SmallVector<Value> values;
      for (Value value : ret.getOperands())
        values.push_back(mapping.lookup(value));
      listener.phase = {};
      func::ReturnOp::create(builder, ret.getLoc(), values);
      break;
    }
    listener.phase = op.getDiscardableAttr(phase);
    listener.atUse = op.getDiscardableAttr(atUse);
    listener.stage = op.getDiscardableAttr(stage);
    if (failed(partition(&op))) {
      step.erase();
      return failure();
    }
  }
  builder.setListener(nullptr);
  eraseDeadOps(step.getBody().front());
  if (failed(assignPhases(step))) {
    step.erase();
    return failure();
  }
  return step;
}

bool eraseDeadOps(Block &block) {
  bool found = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) {
      op.erase();
      found = true;
    }
  return found;
}

namespace {

struct PartitionPass : impl::DpcPartitionBase<PartitionPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp sharded = findProgram(module);
    if (!sharded || sharded.isExternal()) {
      module.emitError("no function @train_step or @forward to partition");
      return signalPassFailure();
    }
    MeshAttr mesh = findMesh(sharded);
    if (!mesh) {
      sharded.emitError("has no tensor with #dpc.sharding: assign shardings "
                        "first");
      return signalPassFailure();
    }
    if (auto old = module.lookupSymbol<func::FuncOp>("step")) {
      old.emitError("@step exists already");
      return signalPassFailure();
    }
    if (failed(Partitioner(sharded, mesh).run()))
      return signalPassFailure();
    if (dropSharded)
      sharded.erase();
  }

  static MeshAttr findMesh(func::FuncOp func) {
    for (TypeRange types :
         {TypeRange(func.getArgumentTypes()), TypeRange(func.getResultTypes())})
      for (Type type : types)
        if (ShardingAttr sharding = getSharding(type))
          return sharding.getMesh();
    return {};
  }
};

} // namespace
} // namespace dpc
