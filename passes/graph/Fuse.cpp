//===- Fuse.cpp - dpc-fuse ------------------------------------------------===//
#include "passes/graph/FusePatterns.h"
#include "passes/graph/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCFUSE
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

bool dpc::dependsOnParameter(Value value) {
  DenseSet<Value> seen;
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp()) {
      llvm::append_range(worklist, op->getOperands());
      continue;
    }
    auto argument = cast<BlockArgument>(next);
    auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto role = func ? func.getArgAttrOfType<StringAttr>(
                           argument.getArgNumber(), attr::kRole)
                     : StringAttr();
    if (role && role.getValue() == role::kParameter)
      return true;
  }
  return false;
}

namespace {
struct FusePass : dpc::impl::DpcFuseBase<FusePass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet patterns(context);
    populateActivationPatterns(patterns);
    populateRowPatterns(patterns);
    populateRopePatterns(patterns);
    frozen = std::move(patterns);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isExternal())
      return;
    if (failed(applyPatternsGreedily(func, frozen)))
      return signalPassFailure();
    fuseAttention(func);
    dropKeyBiases(func);
    // Once more for what attention left unused, and for what it exposed.
    if (failed(applyPatternsGreedily(func, frozen)))
      signalPassFailure();
  }

  FrozenRewritePatternSet frozen;
};
} // namespace
