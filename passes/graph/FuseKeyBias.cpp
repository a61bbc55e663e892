//===- FuseKeyBias.cpp - Biases of attention keys -------------------------===//
//
// A number per column that is added to all keys alike adds q . b to a whole row
// of scores, which softmax does not see: the bias of a key projection never
// changes the output, and its gradient is zero. Computed, that gradient is
// rounding noise, which AdamW would scale up to full steps. So the keys are
// taken from before the addition:
//
//   add(broadcast b, x w) -> [slice] -> [B, S, G, D] -> [B, G, S, D] -> k
//
// No position may be added in between (rope), nor a bias that varies with it.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/FusePatterns.h"
#include "passes/graph/GraphBuilder.h"

using namespace mlir;
using namespace dpc;

/// Whether `op` leaves rows (all dimensions but the last) as they are, up to
/// the split into heads.
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

/// The addend of `add` that is the same in every row, or null.
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
  SmallVector<Operation *> chain;
  Operation *op = attention.getK().getDefiningOp();
  while (op && keepsRows(op)) {
    chain.push_back(op);
    op = op->getOperand(0).getDefiningOp();
  }
  // Without the split into heads rows could mean anything.
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
  // It is trained all the same: weight decay applies to it.
  auto argument = dyn_cast<BlockArgument>(bias.getDefiningOp()->getOperand(0));
  auto func = attention->getParentOfType<func::FuncOp>();
  if (argument && argument.getOwner()->getParentOp() == func)
    func.setArgAttr(argument.getArgNumber(), attr::kZeroGradient,
                    builder.getUnitAttr());
}

void dpc::dropKeyBiases(func::FuncOp func) {
  func.walk([](AttentionOp attention) { ::dropKeyBias(attention); });
}
