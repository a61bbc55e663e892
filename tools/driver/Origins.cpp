//===- Origins.cpp - What a value was made from ---------------------------===//
#include "tools/driver/Origins.h"

using namespace mlir;

namespace dpc {

Value originOf(Value value) {
  while (Operation *made = value.getDefiningOp()) {
    if (!isa<ReshapeOp, TransposeOp, ConvertOp, BroadcastOp, SliceOp>(made))
      break;
    value = made->getOperand(0);
  }
  return value;
}

bool isWeight(Value value) { return isa<BlockArgument>(originOf(value)); }

MatmulOp weightProduct(Value value) {
  auto product = madeBy<MatmulOp>(value);
  return product && isWeight(product.getB()) ? product : MatmulOp();
}

} // namespace dpc
