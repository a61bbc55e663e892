//===- Simplify.cpp - dpc-simplify ----------------------------------------===//
#include "passes/graph/Passes.h"
#include "passes/graph/Patterns.h"

#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCSIMPLIFY
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

/// If any op has a phase, gives each other op that of its earliest user.
static void completePhases(func::FuncOp func) {
  Block &body = func.front();
  if (llvm::none_of(body, [](Operation &op) { return markedPhase(&op); }))
    return;
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (markedPhase(&op))
      continue;
    Phase earliest = Phase::update;
    for (Operation *user : op.getUsers())
      earliest = std::min(earliest, markedPhase(user).value_or(Phase::update));
    setPhase(&op, earliest);
  }
}

namespace {

/// Copies phase and group from a replaced op to its replacement.
struct AttributeKeeper : RewriterBase::Listener {
  void notifyOperationReplaced(Operation *op, ValueRange replacement) override {
    for (Value value : replacement)
      if (Operation *made = value.getDefiningOp())
        for (StringRef name : {attr::kPhase, attr::kGroup})
          if (Attribute attr = op->getAttr(name); attr && !made->hasAttr(name))
            made->setAttr(name, attr);
  }
};

struct SimplifyPass : dpc::impl::DpcSimplifyBase<SimplifyPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet patterns(context);
    populateArithmeticPatterns(patterns);
    populateMovementPatterns(patterns);
    populateExpertPatterns(patterns);
    frozen = std::move(patterns);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isExternal())
      return;
    // CSE runs before the patterns, so that each mask is inspected only once,
    // and again after the patterns, which create equal values.
    DominanceInfo dominance(func);
    IRRewriter rewriter(func.getContext());
    eliminateCommonSubExpressions(rewriter, dominance, func);
    AttributeKeeper keeper;
    GreedyRewriteConfig config;
    config.setListener(&keeper);
    if (failed(applyPatternsGreedily(func, frozen, config))) {
      func.emitError("simplification does not terminate");
      return signalPassFailure();
    }
    eliminateCommonSubExpressions(rewriter, dominance, func);
    completePhases(func);
  }

  FrozenRewritePatternSet frozen;
};
} // namespace
