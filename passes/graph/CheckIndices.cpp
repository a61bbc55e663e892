//===- CheckIndices.cpp - dpc-check-indices -------------------------------===//
#include "ir/IndexUse.h"
#include "ir/NodeName.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/graph/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCCHECKINDICES
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

/// Builds the number of elements of `indices` that are not accepted, an f32
/// scalar.
static Value countFaults(GraphBuilder g, Value indices,
                         const AcceptedIndices &accepted) {
  auto isAt = [&](CompareKind kind, int64_t bound) {
    Value hit = g.compare(kind, indices, g.constantLike(indices, bound));
    return g.convert(hit, g.builder.getF32Type());
  };
  // No index is both below and above.
  Value faults = g.add(isAt(CompareKind::lt, 0),
                       isAt(CompareKind::gt, accepted.count - 1));
  if (accepted.ignored)
    faults = g.mul(faults, isAt(CompareKind::ne, *accepted.ignored));
  return g.reduceAll(ReduceKind::sum, faults);
}

static std::string textOf(OpOperand &use, const AcceptedIndices &accepted) {
  Operation *op = use.getOwner();
  std::string text = isa<CrossEntropyOp>(op) || accepted.ignored
                         ? "labels of "
                         : "indices of ";
  text += nodeOf(op) + " (accepted: 0 to " + std::to_string(accepted.count - 1);
  if (accepted.ignored)
    text += " and " + std::to_string(*accepted.ignored);
  return text + ")";
}

namespace {

struct CheckIndices : dpc::impl::DpcCheckIndicesBase<CheckIndices> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.getName() != kForwardFunction)
      return;
    func.walk([&](Operation *op) {
      for (OpOperand &use : op->getOpOperands())
        if (!isKnownAccepted(use))
          add(use, *acceptedBy(use));
    });
  }

private:
  /// Several ops may read the same indices, such as the parts of a loss.
  void add(OpOperand &use, AcceptedIndices accepted);

  SmallVector<std::pair<Value, AcceptedIndices>> done;
};

} // namespace

void CheckIndices::add(OpOperand &use, AcceptedIndices accepted) {
  if (llvm::is_contained(done, std::pair(use.get(), accepted)))
    return;
  done.emplace_back(use.get(), accepted);
  func::FuncOp func = getOperation();
  OpBuilder builder(use.getOwner());
  Value faults =
      countFaults({builder, use.getOwner()->getLoc()}, use.get(), accepted);
  unsigned index = func.getNumResults();
  builder.setInsertionPoint(func.front().getTerminator());
  func.front().getTerminator()->insertOperands(index, faults);
  auto named = [&](StringRef name, const std::string &text) {
    return builder.getNamedAttr(name, builder.getStringAttr(text));
  };
  (void)func.insertResult(
      index, faults.getType(),
      builder.getDictionaryAttr(
          {named(attr::kName, "dpc.faults" + std::to_string(done.size())),
           named(attr::kFaults, textOf(use, accepted))}));
}
