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
  return expectedRows(shapeOf(op.getIds())[0] * exchangedRanks(op),
                      cast<RankedTensorType>(op.getGlobal()));
}

int64_t dpc::exchangeRounds(double rows, int64_t tileRows, int64_t ranks) {
  auto whole = static_cast<int64_t>(std::llround(rows));
  return whole <= tileRows ? 1 : llvm::divideCeil(whole, tileRows - ranks / 2);
}

int64_t dpc::expectedTiles(ExpertTilesOp op, double load) {
  double rows = static_cast<double>(expectedRows(op)) * load;
  return op.getExchange()
             ? exchangeRounds(rows, op.getTileRows(), exchangedRanks(op))
             : llvm::divideCeil(std::llround(rows), op.getTileRows());
}

ArrayAttr dpc::expertAxes(RankedTensorType global) {
  std::optional<ShardingSpec> spec = ShardingSpec::get(global);
  SmallVector<int64_t> axes;
  for (const Factor &factor : spec->dims.front())
    llvm::append_range(axes, factor.axes);
  llvm::sort(axes);
  SmallVector<StringRef> names;
  for (int64_t axis : axes)
    names.push_back(spec->mesh.getNames()[axis].getValue());
  return Builder(global.getContext()).getStrArrayAttr(names);
}

int64_t dpc::exchangedRanks(ExpertTilesOp op) {
  if (!op.getExchange())
    return 1;
  MeshAttr mesh = getSharding(op.getGlobal()).getMesh();
  int64_t ranks = 1;
  for (auto axis : op.getExchange()->getAsRange<StringAttr>())
    ranks *= mesh.axisSize(axis.getValue());
  return ranks;
}

ArrayAttr dpc::communicationAxes(Operation *op) {
  if (auto tiles = dyn_cast<ExpertTilesOp>(op))
    return tiles.getExchangeAttr();
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective ? collective.getAxes() : ArrayAttr();
}

bool dpc::communicates(Operation *op) {
  return isa<CommunicationOpInterface>(op) || communicationAxes(op);
}

SmallVector<Value> dpc::travelingTiles(ExpertTilesOp op) {
  Block &block = op.getBody().front();
  SmallVector<Value> tiles{block.getArgument(0)};
  for (auto [tile, share] :
       llvm::zip_equal(block.getArguments().drop_front(), op.getInShares()))
    if (share > 0)
      tiles.push_back(tile);
  for (auto [tile, share] :
       llvm::zip_equal(block.getTerminator()->getOperands(), op.getOutShares()))
    if (share > 0)
      tiles.push_back(tile);
  return tiles;
}

int64_t dpc::stagedBytes(ExpertTilesOp op) {
  int64_t bytes = 0;
  if (op.getExchange())
    for (Value tile : travelingTiles(op))
      bytes = std::max(bytes, sizeInBytes(tensorType(tile)));
  return bytes;
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
