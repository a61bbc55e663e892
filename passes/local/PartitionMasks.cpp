//===- PartitionMasks.cpp - Operands whose padding is read ----------------===//
//
// Masks operands whose padding an op would read. Padding may contain any value,
// including NaN. It is harmless where an op maps padding to padding, but not
// where the op reduces an unevenly split dimension, that is, an iteration
// dimension that a result lacks. Then all float operands with this dimension
// are masked, because 0 * NaN is NaN. An fp8 GEMM also reads the padding of its
// operands, to find the largest element.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/local/Partition.h"

#include "ir/ScalarSemantics.h"
#include "passes/graph/Fp8.h"

#include <cstring>

using namespace mlir;

namespace dpc {

/// Returns the fill value that leaves the reductions of `op` unchanged.
static double fillFor(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return neutralOf(reduce.getKind());
  if (isa<CrossEntropySumsOp>(op)) // exp(-inf - max) is 0
    return neutralOf(ReduceKind::max);
  return 0;
}

/// Returns the iteration dimensions that at least one result of `rule` lacks.
static llvm::SmallDenseSet<int64_t> reducedDims(const ShardingRule &rule) {
  llvm::SmallDenseSet<int64_t> reduced;
  for (const TensorMap &map : rule.results)
    for (int64_t dim = 0, e = rule.dims.size(); dim < e; ++dim)
      if (llvm::none_of(map, [&](const DimMap &dims) {
            return llvm::is_contained(dims, dim);
          }))
        reduced.insert(dim);
  return reduced;
}

/// True if an operand with the sharding `spec` and the map `map` has padding
/// along an iteration dimension in `reduced`.
static bool readsPadding(const ShardingRule &rule, const TensorMap &map,
                         const ShardingSpec &spec,
                         const llvm::SmallDenseSet<int64_t> &reduced) {
  for (auto [dims, factors] : llvm::zip(map, spec.dims)) {
    SmallVector<int64_t> sizes;
    for (int64_t dim : dims)
      sizes.push_back(rule.dims[dim].size);
    auto parts = splitFactors(spec.mesh, factors, sizes);
    if (!parts)
      continue; // the op's verifier allows no split of this dimension
    for (auto [dim, part] : llvm::zip(dims, *parts))
      if (reduced.contains(dim) && llvm::any_of(part, [&](const Factor &f) {
            return isUneven(spec.mesh, f);
          }))
        return true;
  }
  return false;
}

Value Partitioner::mask(Value sharded, double fill) {
  int64_t bits;
  static_assert(sizeof(bits) == sizeof(fill));
  std::memcpy(&bits, &fill, sizeof(bits));
  Value &masked = masks[{sharded, bits}];
  if (!masked) {
    Value local = mapping.lookup(sharded);
    masked = MaskOp::create(builder, sharded.getLoc(), local.getType(), local,
                            builder.getF64FloatAttr(fill),
                            TypeAttr::get(sharded.getType()));
  }
  return masked;
}

bool Partitioner::hasPadding(Type type) {
  auto [it, isNew] = padded.try_emplace(type, false);
  if (isNew)
    it->second = ShardingSpec::get(cast<RankedTensorType>(type))->hasPadding();
  return it->second;
}

bool Partitioner::isFp8OnRank(Operation *op) {
  auto matmul = dyn_cast<MatmulOp>(op);
  auto local = [&](Value operand) {
    return tensorType(mapping.lookup(operand));
  };
  return matmul &&
         fp8SizesOf(matmul, local(matmul.getA()), local(matmul.getB()),
                    localTypeOf(matmul.getResult().getType()));
}

void Partitioner::maskOperands(Operation *op, IRMapping &operands) {
  // An embedding skips ids outside its shard and never reads padding rows.
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled || isa<EmbeddingOp, GlobalNormOp>(op))
    return;
  if (llvm::none_of(op->getOperandTypes(),
                    [&](Type type) { return hasPadding(type); }))
    return;
  ShardingRule rule = ruled.getShardingRule();
  llvm::SmallDenseSet<int64_t> reduced = reducedDims(rule);
  if (isFp8OnRank(op))
    reduced.insert_range(llvm::seq<int64_t>(0, rule.dims.size()));
  // Matrices of experts on other ranks are not read.
  reduced.erase(rule.experts);
  if (reduced.empty())
    return;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto type = tensorType(operand);
    // Labels and ids may keep their padding, because it only selects masked
    // gradients. A reduction of integers would read the padding.
    if (!isa<FloatType>(type.getElementType()) && !isa<ReduceOp>(op))
      continue;
    if (readsPadding(rule, rule.operands[i], *ShardingSpec::get(type), reduced))
      operands.map(operand, mask(operand, fillFor(op)));
  }
}

} // namespace dpc
