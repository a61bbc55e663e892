//===- Simplify.cpp - dpc-simplify ----------------------------------------===//
#include "passes/graph/Passes.h"
#include "passes/graph/SimplifyPatterns.h"

#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCSIMPLIFY
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

/// Phases in program order.
static constexpr StringLiteral kPhases[] = {"forward", "backward", "update"};

/// Index into kPhases; the number of phases for an op that has none.
static size_t phaseIndex(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(attr::kPhase);
  return phase ? llvm::find(kPhases, phase.getValue()) - std::begin(kPhases)
               : std::size(kPhases);
}

/// Gives ops that rewrites made the phase of their earliest user, in functions
/// whose ops have phases.
static void completePhases(func::FuncOp func) {
  Builder builder(func.getContext());
  Block &body = func.front();
  bool hasPhases = llvm::any_of(
      body, [](Operation &op) { return phaseIndex(&op) < std::size(kPhases); });
  if (!hasPhases)
    return;
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (phaseIndex(&op) < std::size(kPhases))
      continue;
    size_t earliest = std::size(kPhases) - 1;
    for (Operation *user : op.getUsers())
      earliest = std::min(earliest, phaseIndex(user));
    op.setAttr(attr::kPhase, builder.getStringAttr(kPhases[earliest]));
  }
}

namespace {

/// Hands phase and group of a replaced op on to the op that replaces it.
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
    populateSimplifyPatterns(patterns);
    frozen = std::move(patterns);
    return success();
  }

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isExternal())
      return;
    // Equal masks must be one value before anything asks what they hold, and
    // rewriting makes new equal values.
    DominanceInfo dominance(func);
    IRRewriter rewriter(func.getContext());
    eliminateCommonSubExpressions(rewriter, dominance, func);
    AttributeKeeper keeper;
    GreedyRewriteConfig config;
    config.setListener(&keeper);
    if (failed(applyPatternsGreedily(func, frozen, config))) {
      func.emitError("simplification did not come to an end");
      return signalPassFailure();
    }
    eliminateCommonSubExpressions(rewriter, dominance, func);
    completePhases(func);
  }

  FrozenRewritePatternSet frozen;
};
} // namespace
