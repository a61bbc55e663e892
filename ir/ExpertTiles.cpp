//===- ExpertTiles.cpp - Rows and buffers of dpc.expert_tiles -------------===//
#include "ir/ExpertTiles.h"
#include "ir/KernelRole.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

int64_t ExpertTilesOp::getTileRows() {
  return shapeOf(getBody().front().getArgument(0))[0];
}

int64_t dpc::expectedRows(int64_t rows, RankedTensorType global) {
  return llvm::divideCeil(rows * localType(global).getDimSize(0),
                          std::max<int64_t>(1, global.getDimSize(0)));
}

int64_t dpc::expectedRows(ExpertTilesOp op) {
  return expectedRows(shapeOf(op.getIds())[0],
                      cast<RankedTensorType>(op.getGlobal()));
}

bool dpc::addsInPlace(ExpertTilesOp op, unsigned number) {
  Value value = op.getBody().front().getTerminator()->getOperand(number);
  return op.getOutShares()[number] == 0 &&
         value.getDefiningOp<ExpertMatmulGradOp>();
}

SmallVector<Value> dpc::tileBuffers(ExpertTilesOp op) {
  Block &block = op.getBody().front();
  DenseSet<Value> inPlace;
  for (auto [number, value] :
       llvm::enumerate(block.getTerminator()->getOperands()))
    if (addsInPlace(op, number))
      inPlace.insert(value);
  SmallVector<Value> buffers{block.getArgument(0)};
  for (auto [argument, share] :
       llvm::zip_equal(block.getArguments().drop_front(), op.getInShares()))
    if (share > 0)
      buffers.push_back(argument);
  for (Operation &inner : block.without_terminator()) {
    if (isBufferView(&inner) || isa<ConstantOp>(inner))
      continue;
    for (Value result : inner.getResults())
      if (!inPlace.contains(result))
        buffers.push_back(result);
  }
  return buffers;
}
