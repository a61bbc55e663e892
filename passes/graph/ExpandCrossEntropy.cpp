//===- ExpandCrossEntropy.cpp - dpc-expand-cross-entropy ------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/graph/Passes.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCEXPANDCROSSENTROPY
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

static void expand(CrossEntropyOp op) {
  OpBuilder builder(op);
  GraphBuilder g(builder, op.getLoc());
  Operation *before = op->getPrevNode();
  Value logits = op.getLogits(), labels = op.getLabels();
  auto rowType = tensorType(op.getLse());
  Value rowMax = g.convert(g.reduce(ReduceKind::max, logits, {1}),
                           rowType.getElementType());
  auto sums = CrossEntropySumsOp::create(builder, op.getLoc(), rowType, rowType,
                                         logits, rowMax, labels, TypeAttr());
  if (!op->hasAttr(attr::kBounded))
    sums->setAttr(attr::kIgnored, op.getIgnoreIndexAttr());
  Value lse = g.add(g.unary(UnaryKind::log, sums.getSumexp()), rowMax);
  Value ignored = g.compare(
      CompareKind::eq, labels,
      g.constantLike(labels, static_cast<int64_t>(op.getIgnoreIndex())));
  Value loss =
      g.select(ignored, g.constantLike(lse, 0.0), g.sub(lse, sums.getPicked()));
  markLike(op, before);
  op.getLse().replaceAllUsesWith(lse);
  op.getLoss().replaceAllUsesWith(loss);
  op.erase();
}

namespace {
struct ExpandCrossEntropyPass
    : dpc::impl::DpcExpandCrossEntropyBase<ExpandCrossEntropyPass> {
  void runOnOperation() override {
    getOperation().walk([](CrossEntropyOp op) { expand(op); });
  }
};
} // namespace
