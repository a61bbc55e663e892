//===- FuseEpilogues.cpp - dpc-fuse-epilogues -----------------------------===//
//
// Fuses GEMMs with their epilogues on GPUs. A GEMM computes an epilogue at
// almost no cost, while a separate kernel reads and writes the whole result:
//
//   y = gelu(x w + b)     and the argument of gelu, if the program keeps it
//   dx = (dy w) gelu'(x)  and the sum of its rows, a bias gradient
//   dw = dy' x            and the sum of dy's rows, a bias gradient
//   dw += dy' x           over micro-batches, in f32
//
// A kernel that computes only an epilogue is merged into its matmul. A kernel
// that sums an operand of the matmul may come before the matmul; the readers of
// its sums then move after the matmul.
//
//===----------------------------------------------------------------------===//
#include "passes/local/FuseEpilogues.h"
#include "ir/GemmEpilogues.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCFUSEEPILOGUES
#include "passes/local/Passes.h.inc"

namespace {

class EpilogueKernel {
public:
  EpilogueKernel(MatmulOp matmul, FusedEpilogue &fused)
      : matmul(matmul), fused(fused), builder(matmul) {}
  void build() {
    if (fused.bias)
      makeViewsReady(fused.bias);
    if (fused.aux)
      makeViewsReady(fused.aux);
    body = new Block;
    builder.setInsertionPointToEnd(body);
    addMatmul();
    for (Operation *part : fused.parts)
      addPart(cast<KernelOp>(part));
    if (fused.widening) { // clone the narrowing conversion
      IRMapping sums;
      Block &block = fused.widening.getBody().front();
      sums.map(block.getArgument(0), map.lookup(fused.sums));
      Operation *narrow = builder.clone(block.front(), sums);
      map.map(fused.sums, narrow->getResult(0));
    }
    KernelOp kernel = create();
    fused.result.replaceAllUsesWith(kernel.getResult(0));
    if (fused.widening)
      narrowSums(kernel.getResult(kEpilogueResult));
    else if (kernel.getNumResults() > kEpilogueResult)
      (fused.sums ? fused.sums : fused.aux)
          .replaceAllUsesWith(kernel.getResult(kEpilogueResult));
    Operation *last = kernel;
    for (Operation *op : fused.waiting) {
      op->moveAfter(last);
      last = op;
    }
    for (Operation *part : llvm::reverse(fused.parts))
      part->erase();
    matmul.erase();
  }

private:
  void makeViewsReady(Value value) {
    Operation *view = value.getDefiningOp();
    if (!view || !isMovedView(view) || view->isBeforeInBlock(matmul))
      return;
    makeViewsReady(view->getOperand(0));
    view->moveBefore(matmul);
  }

  Value argumentFor(Value value) {
    if (Value known = map.lookupOrNull(value))
      return known;
    Value argument = body->addArgument(value.getType(), value.getLoc());
    inputs.push_back(value);
    map.map(value, argument);
    return argument;
  }

  /// The first two operands of the kernel are the factors, even if equal.
  void addMatmul() {
    for (Value factor : matmul->getOperands()) {
      Value argument = body->addArgument(factor.getType(), factor.getLoc());
      inputs.push_back(factor);
      map.map(factor, argument);
    }
    auto inner = cast<MatmulOp>(builder.clone(*matmul));
    for (unsigned i = 0; i < inner->getNumOperands(); ++i)
      inner->setOperand(i, body->getArgument(i));
    inner->removeAttr(attr::kPhase);
    inner->removeAttr(attr::kChunk);
    map.map(matmul.getResult(), inner.getResult());
  }

  void addPart(KernelOp part) {
    Block &from = part.getBody().front();
    IRMapping inside;
    for (auto [argument, input] :
         llvm::zip_equal(from.getArguments(), part.getInputs()))
      inside.map(argument, argumentFor(input));
    for (Operation &op : from.without_terminator())
      builder.clone(op, inside);
    for (auto [result, value] : llvm::zip_equal(
             part.getOutputs(), from.getTerminator()->getOperands()))
      map.map(result, inside.lookup(value));
  }

  KernelOp create() {
    SmallVector<Value> yielded = {map.lookup(fused.result)};
    if (fused.sums)
      yielded.push_back(map.lookup(fused.sums));
    else if (fused.aux && fused.epilogue != "gelu_grad")
      yielded.push_back(map.lookup(fused.aux));
    YieldOp::create(builder, matmul.getLoc(), yielded);
    builder.setInsertionPoint(matmul);
    auto kernel = KernelOp::create(builder, matmul.getLoc(),
                                   TypeRange(ValueRange(yielded)), inputs);
    kernel.getBody().push_back(body);
    kernel->setAttr(attr::kEpilogue, builder.getStringAttr(fused.epilogue));
    copyAttributes(matmul, kernel, {attr::kPhase, attr::kChunk});
    return kernel;
  }

  /// Makes `fused.widening` read `sums`, which already have the narrow type,
  /// and removes its narrowing conversion.
  void narrowSums(Value sums) {
    Block &block = fused.widening.getBody().front();
    Operation *convert = &block.front();
    BlockArgument argument = block.getArgument(0);
    fused.widening->setOperand(0, sums);
    argument.setType(sums.getType());
    convert->getResult(0).replaceAllUsesWith(argument);
    convert->erase();
  }

  MatmulOp matmul;
  FusedEpilogue &fused;
  OpBuilder builder;
  Block *body = nullptr;
  SmallVector<Value> inputs;
  IRMapping map;
};

} // namespace

/// Epilogues of results are fused first, so that the matmul that produces a
/// gradient sums its rows, not the matmul that reads the gradient.
void fuseEpilogues(func::FuncOp step) {
  Block &block = step.getBody().front();
  sumNarrowValues(block);
  for (auto find : {epilogueAfter, epilogueBeside})
    for (auto matmul : llvm::make_early_inc_range(block.getOps<MatmulOp>()))
      if (std::optional<FusedEpilogue> fused = find(matmul)) {
        if (fused->adds)
          fused->adds->setAttr(attr::kView, UnitAttr::get(step.getContext()));
        if (!fused->parts.empty())
          EpilogueKernel(matmul, *fused).build();
      }
}

namespace {
struct FuseEpiloguesPass : impl::DpcFuseEpiloguesBase<FuseEpiloguesPass> {
  void runOnOperation() override { onEachStep(getOperation(), fuseEpilogues); }
};
} // namespace

} // namespace dpc
