//===- FuseKeyBias.cpp - Biases of attention keys -------------------------===//
//
// A bias b that is added to all keys adds q . b to all scores of a row, which
// does not change their softmax. So the bias of a key projection never changes
// the output, and its exact gradient is zero. The computed gradient is rounding
// noise, which AdamW scales up to full steps. Therefore attention reads the
// keys before the bias is added:
//
//   add(broadcast b, x w) -> [slice] -> [B, S, G, D] -> [B, G, S, D] -> k
//
// The rewrite is invalid if the bias depends on the position, or if an op
// between the addition and the attention does, such as rope. It is invalid with
// sinks, whose scores the bias does not change.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// Returns true if `op` does not move data between rows (all dimensions but the
/// last), except that it may split the last dimension into heads.
static bool keepsRows(Operation *op) {
  if (auto slice = dyn_cast<SliceOp>(op))
    return shapeOf(slice.getX()).drop_back() ==
           shapeOf(slice.getResult()).drop_back();
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(reshape.getX());
    ArrayRef<int64_t> to = shapeOf(reshape.getResult());
    return from.size() == 3 && to.size() == 4 &&
           from.drop_back() == to.drop_back(2);
  }
  auto transpose = dyn_cast<TransposeOp>(op);
  return transpose && transpose.getPerm() == ArrayRef<int64_t>{0, 2, 1, 3};
}

static Value rowConstant(BinaryOp add) {
  for (Value operand : add->getOperands()) {
    auto broadcast = operand.getDefiningOp<BroadcastOp>();
    int64_t last = shapeOf(operand).size() - 1;
    if (broadcast && broadcast.getDims() == ArrayRef<int64_t>{last})
      return operand;
  }
  return {};
}

static void dropKeyBias(AttentionOp attention) {
  if (attention.getSinks())
    return;
  SmallVector<Operation *> chain;
  Operation *op = attention.getK().getDefiningOp();
  while (op && keepsRows(op)) {
    chain.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  // Only a split into heads proves that the rows are positions.
  bool splits = llvm::count_if(chain, llvm::IsaPred<ReshapeOp>) == 1 &&
                llvm::count_if(chain, llvm::IsaPred<TransposeOp>) == 1 &&
                isa<TransposeOp>(chain.front());
  auto add = dyn_cast_or_null<BinaryOp>(op);
  if (!splits || !add || add.getKind() != BinaryKind::add)
    return;
  Value bias = rowConstant(add);
  if (!bias)
    return;
  Value keys = add.getA() == bias ? add.getB() : add.getA();
  OpBuilder builder(attention);
  for (Operation *link : llvm::reverse(chain)) {
    IRMapping map;
    map.map(link->getOperand(0), keys);
    keys = builder.clone(*link, map)->getResult(0);
  }
  attention.getKMutable().assign(keys);
  // Weight decay still changes the bias, so it must remain trained.
  auto argument = dyn_cast<BlockArgument>(bias.getDefiningOp()->getOperand(0));
  auto func = attention->getParentOfType<func::FuncOp>();
  if (argument && argument.getOwner()->getParentOp() == func)
    func.setArgAttr(argument.getArgNumber(), attr::kZeroGradient,
                    builder.getUnitAttr());
}

void dpc::dropKeyBiases(func::FuncOp func) {
  func.walk([](AttentionOp attention) { ::dropKeyBias(attention); });
}
