//===- Shrink.cpp - dpc-shrink --------------------------------------------===//
#include "passes/shrink/Shrink.h"

#include "ir/Dialect.h"
#include "passes/shrink/Passes.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace dpc;

namespace dpc {
#define GEN_PASS_DEF_DPCSHRINK
#include "passes/shrink/Passes.h.inc"
} // namespace dpc

static SmallVector<SmallVector<int64_t>> shapesOf(func::FuncOp func) {
  SmallVector<SmallVector<int64_t>> shapes;
  for (Type type : func.getArgumentTypes())
    shapes.emplace_back(cast<RankedTensorType>(type).getShape());
  return shapes;
}

FailureOr<ShrinkSummary> dpc::shrinkProgram(func::FuncOp forward,
                                            const ShrinkOptions &options) {
  ShrinkSummary summary;
  summary.repeats = cutRepeats(forward, options.layers);
  SmallVector<SmallVector<int64_t>> before = shapesOf(forward);
  if (failed(shrinkSizes(forward, options)) || failed(verify(forward)))
    return failure();
  for (auto [olds, news] : llvm::zip(before, shapesOf(forward)))
    for (auto [old, size] : llvm::zip(olds, news))
      if (old != size)
        summary.sizes[old].insert(size);
  return summary;
}

namespace {

struct ShrinkPass : public dpc::impl::DpcShrinkBase<ShrinkPass> {
  using DpcShrinkBase::DpcShrinkBase;

  void runOnOperation() override {
    ShrinkOptions options{layers, size, batch, oldParts, newParts};
    if (layers < 1 || size < 1 || oldParts < 1 || newParts < 1 || batch < 0) {
      getOperation().emitError(
          "dpc-shrink: expected layers, size, old-parts and new-parts of at "
          "least 1, and batch of at least 0");
      return signalPassFailure();
    }
    if (failed(shrinkProgram(getOperation(), options)))
      signalPassFailure();
  }
};

} // namespace
