//===- Fuse.cpp - dpc-fuse ------------------------------------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Passes.h"
#include "passes/graph/Patterns.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCFUSE
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

bool dpc::dependsOnParameter(Value value) {
  return llvm::any_of(
      dependencies({value}, [](Operation *) { return true; }),
      [](Value source) { return roleOf(source) == role::kParameter; });
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
    alignExpertIds(func);
    // Removes ops that attention left unused: more idioms match without them.
    if (failed(applyPatternsGreedily(func, frozen)))
      signalPassFailure();
  }

  FrozenRewritePatternSet frozen;
};
} // namespace
