//===- PartitionOps.cpp - Ops whose clone needs more than local types -----===//
#include "ir/TensorUtils.h"
#include "passes/local/Partition.h"

#include "passes/graph/Fp8.h"

#include <numeric>

using namespace mlir;

namespace dpc {

static bool isDimSplit(Type type, int64_t dim) {
  auto tensor = cast<RankedTensorType>(type);
  return llvm::any_of(ShardingSpec::get(tensor)->dims[dim],
                      [](const Factor &f) { return !f.axes.empty(); });
}

/// If the local `op` needs to know where its shard begins, returns the sharded
/// tensor and its dimension; otherwise, returns a null tensor.
static std::pair<Value, int64_t> positionOf(Operation *op) {
  if (auto iota = dyn_cast<IotaOp>(op))
    return {iota.getResult(), iota.getDim()};
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return {embedding.getTable(), 0};
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return {product.getW(), 0};
  if (isa<EmbeddingGradOp, ExpertMatmulGradOp>(op))
    return {op->getResult(0), 0};
  if (auto sums = dyn_cast<CrossEntropySumsOp>(op))
    return {sums.getLogits(), 1};
  if (auto grad = dyn_cast<CrossEntropyGradOp>(op))
    return {grad.getLogits(), 1};
  return {{}, 0};
}

void Partitioner::setGlobalType(Operation *op, Operation *local) {
  // Ring attention depends on the positions of the keys on the rank.
  if (op->hasAttr(attr::kRing) && isDimSplit(op->getOperand(0).getType(), 2))
    local->setAttr(attr::kGlobal, TypeAttr::get(op->getOperand(0).getType()));
  auto [value, dim] = positionOf(op);
  if (value && isDimSplit(value.getType(), dim))
    local->setAttr("global", TypeAttr::get(value.getType()));
}

/// Converts global offsets to local offsets. For example, if q, k and v have 64
/// columns each and are split over 4 ranks, k starts at column 16 of the local
/// [q | k | v] instead of 64 (see ir/rules/Movement).
static SmallVector<int64_t> localOffsets(RankedTensorType large,
                                         RankedTensorType localLarge,
                                         RankedTensorType small,
                                         ArrayRef<int64_t> offsets,
                                         ArrayRef<int64_t> strides) {
  SmallVector<int64_t> result(offsets);
  for (int64_t d = 0, e = large.getRank(); d < e; ++d) {
    if (strides[d] != 1 || offsets[d] == 0)
      continue;
    int64_t part = std::gcd(std::gcd(large.getDimSize(d), small.getDimSize(d)),
                            offsets[d]);
    int64_t parts = large.getDimSize(d) / part;
    result[d] = offsets[d] / part * (localLarge.getDimSize(d) / parts);
  }
  return result;
}

void Partitioner::makeBoxLocal(Operation *op, Operation *local) {
  if (auto slice = dyn_cast<SliceOp>(op)) {
    auto large = tensorType(slice.getX());
    auto small = tensorType(slice.getResult());
    cast<SliceOp>(local).setOffsets(localOffsets(large, localType(large), small,
                                                 slice.getOffsets(),
                                                 slice.getStrides()));
  } else if (auto pad = dyn_cast<PadOp>(op)) {
    auto small = tensorType(pad.getX());
    auto large = tensorType(pad.getResult());
    cast<PadOp>(local).setLow(localOffsets(large, localType(large), small,
                                           pad.getLow(), pad.getStrides()));
  }
}

LogicalResult Partitioner::partitionConstant(ConstantOp op) {
  auto type = tensorType(op.getResult());
  RankedTensorType local = localTypeOf(type);
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue())) {
    Value value = ConstantOp::create(builder, op.getLoc(), local,
                                     splat.resizeSplat(local));
    mapping.map(op.getResult(), value);
    return success();
  }
  Value whole = ConstantOp::create(builder, op.getLoc(), withoutSharding(type),
                                   op.getValue());
  std::string why;
  auto steps = planReshard(
      ShardingSpec::replicated(mesh, type.getShape()), *ShardingSpec::get(type),
      sizeInBytes(RankedTensorType::get({}, type.getElementType())), why);
  if (!steps)
    return op.emitError("cannot split the constant: ") << why;
  mapping.map(op.getResult(),
              emitSteps(*steps, whole, op.getLoc(), local.getShape()));
  return success();
}

LogicalResult Partitioner::partition(Operation *op) {
  for (Type type : op->getResultTypes())
    if (!getSharding(type))
      return op->emitError("result of type ")
             << type << " has no sharding; run dpc-shard first";
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return partitionReshard(reshard);
  if (auto constant = dyn_cast<ConstantOp>(op))
    return partitionConstant(constant);
  if (auto norm = dyn_cast<GlobalNormOp>(op))
    return partitionGlobalNorm(norm);
  if (op->getNumRegions() || !isa<ShardingRuleOpInterface>(op))
    return op->emitError("cannot be partitioned: the op has no sharding rule");
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, mapping.lookup(operand));
  maskOperands(op, operands);
  Operation *local = builder.clone(*op, operands);
  for (auto [from, to] : llvm::zip(op->getResults(), local->getResults())) {
    to.setType(localTypeOf(from.getType()));
    mapping.map(from, to);
  }
  setGlobalType(op, local);
  makeBoxLocal(op, local);
  if (auto matmul = dyn_cast<MatmulOp>(local))
    settleFp8(matmul);
  return success();
}

} // namespace dpc
