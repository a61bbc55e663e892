//===- Inputs.cpp - What is known about a program's inputs ----------------===//
#include "tools/dpc-opt/Inputs.h"

#include "ir/Dialect.h"

using namespace mlir;
using namespace dpc;

static int64_t dimOf(Value value, int64_t dim) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dim);
}

/// The smallest size that `value` indexes, directly or through data movement;
/// 0 when it indexes nothing.
static int64_t indexedSize(Value value) {
  int64_t limit = 0;
  auto note = [&](int64_t size) {
    if (size > 0)
      limit = limit ? std::min(limit, size) : size;
  };
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    unsigned index = use.getOperandNumber();
    if (auto embedding = dyn_cast<EmbeddingOp>(user); embedding && index == 1)
      note(dimOf(embedding.getTable(), 0));
    else if (auto loss = dyn_cast<CrossEntropyOp>(user); loss && index == 1)
      note(dimOf(loss.getLogits(), 1));
    else if (auto sums = dyn_cast<CrossEntropySumsOp>(user); sums && index == 2)
      note(dimOf(sums.getLogits(), 1));
    else if (isa<ReshapeOp, TransposeOp, SliceOp, ConvertOp, BroadcastOp>(user))
      note(indexedSize(user->getResult(0)));
  }
  return limit;
}

void dpc::setInputLimits(func::FuncOp program, rt::Plan &plan) {
  for (BlockArgument arg : program.getArguments()) {
    auto name =
        program.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kName);
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!name || !type || !type.getElementType().isInteger())
      continue;
    for (rt::Port &port : plan.inputs)
      if (port.name == name.getValue())
        port.limit = indexedSize(arg);
  }
}
