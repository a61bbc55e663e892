//===- VerifySharded.cpp - dpc-verify-sharded -----------------------------===//
#include "ir/Sharding.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

namespace dpc {
#define GEN_PASS_DEF_DPCVERIFYSHARDED
#include "passes/shard/Passes.h.inc"
} // namespace dpc

static bool isSharded(func::FuncOp func) {
  auto encoded = [](Type type) { return static_cast<bool>(getSharding(type)); };
  bool found = llvm::any_of(func.getArgumentTypes(), encoded);
  func.walk([&](Operation *op) {
    found |= llvm::any_of(op->getResultTypes(), encoded);
  });
  return found;
}

static LogicalResult verifyValue(Operation *at, Type type, MeshAttr &mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  ShardingAttr sharding = getSharding(tensor);
  if (!sharding)
    return at->emitError("(C1) value has no sharding: ") << type;
  if (!mesh)
    mesh = sharding.getMesh();
  if (mesh != sharding.getMesh())
    return at->emitError("(C1) value is over another mesh than ")
           << mesh << ": " << type;
  auto emitError = [&] { return at->emitError("(C2) "); };
  return sharding.verifyEncoding(tensor.getShape(), tensor.getElementType(),
                                 emitError);
}

static LogicalResult verifyFunction(func::FuncOp func) {
  MeshAttr mesh;
  if (func.getBody().empty())
    return success();
  for (auto [type, arg] : llvm::zip(func.getArgumentTypes(),
                                    func.getBody().front().getArguments())) {
    if (type != arg.getType())
      return func.emitError("(C4) signature has type ")
             << type << ", block argument has type " << arg.getType();
    if (failed(verifyValue(func, type, mesh)))
      return failure();
  }
  WalkResult result = func.walk([&](Operation *op) {
    if (op != func.getOperation() &&
        !isa<DpcDialect, func::FuncDialect>(op->getDialect())) {
      op->emitError("(C3) '")
          << op->getName() << "' is not allowed at the sharded altitude";
      return WalkResult::interrupt();
    }
    for (Type type : op->getResultTypes())
      if (failed(verifyValue(op, type, mesh)))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

namespace {

struct VerifyShardedPass
    : public dpc::impl::DpcVerifyShardedBase<VerifyShardedPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (isSharded(func) && failed(verifyFunction(func)))
        return signalPassFailure();
  }
};

} // namespace
