//===- Movement.cpp - Sharding rules of data movement ---------------------===//
//
// Slices, pads and concatenations see a dimension as [parts, inner] where inner
// is the greatest common divisor of all sizes and offsets involved: which part
// an element is in must be known on every rank, but inside a part the dimension
// may be split. Splitting a fused qkv of 3 x 64 gives inner = 64.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

#include <numeric>

using namespace mlir;
using namespace dpc;

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  SmallVector<int64_t> result;
  for (int64_t size : shapeOf(getResult()))
    result.push_back(rule.addDim(size));
  TensorMap operand;
  for (auto [size, dim] : llvm::zip(shapeOf(getX()), getDims())) {
    bool repeated = size != shapeOf(getResult())[dim];
    operand.push_back(repeated ? DimMap{} : DimMap{result[dim]});
  }
  rule.operands.push_back(operand);
  rule.results.push_back(oneToOne(result));
  return rule;
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  SmallVector<int64_t> operand, result;
  for (int64_t size : shapeOf(getX()))
    operand.push_back(rule.addDim(size));
  for (int64_t dim : getPerm())
    result.push_back(operand[dim]);
  rule.operands.push_back(oneToOne(operand));
  rule.results.push_back(oneToOne(result));
  return rule;
}

namespace {

/// Common refinement of two shapes with the same number of elements.
class Refinement {
public:
  Refinement(ArrayRef<int64_t> from, ArrayRef<int64_t> to, ShardingRule &rule)
      : from(from), to(to), rule(rule), fromMap(from.size()), toMap(to.size()) {
  }

  void run();
  TensorMap fromDims() { return fromMap; }
  TensorMap toDims() { return toMap; }

private:
  ArrayRef<int64_t> from, to;
  ShardingRule &rule;
  TensorMap fromMap, toMap;

  void addPrivate(TensorMap &map, ArrayRef<int64_t> shape, size_t &at,
                  int64_t left, int64_t count);
};

/// Closes a group that cannot be aligned: what is left of dimension `at` and
/// the following ones, `count` elements in all, become whole dimensions.
void Refinement::addPrivate(TensorMap &map, ArrayRef<int64_t> shape, size_t &at,
                            int64_t left, int64_t count) {
  while (true) {
    if (left > 1)
      map[at].push_back(rule.addDim(left, /*whole=*/true));
    count /= left;
    ++at;
    if (count <= 1)
      return;
    left = shape[at];
  }
}

void Refinement::run() {
  // Without elements there is nothing to align.
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return;
  size_t i = 0, j = 0;
  int64_t a = 1, b = 1; // what is left of from[i - 1] and to[j - 1]
  while (true) {
    while (a == 1 && i < from.size())
      a = from[i++];
    while (b == 1 && j < to.size())
      b = to[j++];
    if (a == 1 || b == 1)
      return;
    int64_t common = std::gcd(a, b);
    if (common > 1) { // {6, 4} -> {4, 6}: 2 is common, the rest is not
      int64_t dim = rule.addDim(common);
      fromMap[i - 1].push_back(dim);
      toMap[j - 1].push_back(dim);
      a /= common;
      b /= common;
      continue;
    }
    // The smallest stretch that covers whole dimensions of both sides.
    int64_t countA = a, countB = b;
    size_t endA = i, endB = j;
    while (countA != countB)
      if (countA < countB)
        countA *= from[endA++];
      else
        countB *= to[endB++];
    size_t atA = i - 1, atB = j - 1;
    addPrivate(fromMap, from, atA, a, countA);
    addPrivate(toMap, to, atB, b, countB);
    i = endA;
    j = endB;
    a = b = 1;
  }
}

} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  Refinement refinement(shapeOf(getX()), shapeOf(getResult()), rule);
  refinement.run();
  rule.operands.push_back(refinement.fromDims());
  rule.results.push_back(refinement.toDims());
  return rule;
}

/// [size / inner parts (whole), inner] with a shared inner dimension.
static DimMap partsOf(ShardingRule &rule, int64_t size, int64_t inner,
                      int64_t innerDim) {
  DimMap map;
  if (size != inner)
    map.push_back(rule.addDim(size / inner, /*whole=*/true));
  if (inner > 1)
    map.push_back(innerDim);
  return map;
}

/// Maps a dimension of `large` elements of which `small`, from `offset` on and
/// `stride` apart, are taken.
static void mapBox(ShardingRule &rule, int64_t large, int64_t small,
                   int64_t offset, int64_t stride, DimMap &largeMap,
                   DimMap &smallMap) {
  int64_t inner = stride == 1 ? std::gcd(std::gcd(large, small), offset) : 1;
  if (inner == 0)
    return;
  int64_t innerDim = inner > 1 || large == small ? rule.addDim(inner) : -1;
  largeMap = partsOf(rule, large, inner, innerDim);
  smallMap = partsOf(rule, small, inner, innerDim);
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  ArrayRef<int64_t> large = shapeOf(getX()), small = shapeOf(getResult());
  TensorMap operand(large.size()), result(small.size());
  for (size_t i = 0; i < large.size(); ++i)
    mapBox(rule, large[i], small[i], getOffsets()[i], getStrides()[i],
           operand[i], result[i]);
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return rule;
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule;
  // Zeros are the neutral element of a sum, not of max or min.
  rule.linear = {{0}};
  ArrayRef<int64_t> small = shapeOf(getX()), large = shapeOf(getResult());
  TensorMap operand(small.size()), result(large.size());
  for (size_t i = 0; i < large.size(); ++i)
    mapBox(rule, large[i], small[i], getLow()[i], getStrides()[i], result[i],
           operand[i]);
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return rule;
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule;
  size_t dim = getDim();
  ArrayRef<int64_t> shape = shapeOf(getResult());
  int64_t inner = shape[dim];
  SmallVector<int64_t, 2> all;
  for (auto [i, part] : llvm::enumerate(getParts())) {
    inner = std::gcd(inner, shapeOf(part)[dim]);
    all.push_back(i);
  }
  rule.linear.push_back(all);
  TensorMap common(shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != dim)
      common[i] = {rule.addDim(shape[i])};
  int64_t innerDim = inner > 1 ? rule.addDim(inner) : -1;
  for (Value part : getParts()) {
    TensorMap map = common;
    if (inner)
      map[dim] = partsOf(rule, shapeOf(part)[dim], inner, innerDim);
    rule.operands.push_back(map);
  }
  if (inner)
    common[dim] = partsOf(rule, shape[dim], inner, innerDim);
  rule.results.push_back(common);
  return rule;
}
