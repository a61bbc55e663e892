//===- Movement.cpp - Sharding rules of data movement ---------------------===//
//
// The rules of slices, pads and concatenations treat a dimension as [parts,
// inner], where inner is the greatest common divisor of all sizes and offsets.
// Every rank must know the part that an element belongs to, so only the inner
// dimension may be split. A fused qkv of 3 x 64 columns has inner = 64.
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
  SmallVector<int64_t> result = rule.addDims(shapeOf(getResult()));
  TensorMap operand;
  for (auto [size, dim] : llvm::zip(shapeOf(getX()), getDims())) {
    bool repeated = size != shapeOf(getResult())[dim];
    operand.push_back(repeated ? DimMap{} : DimMap{result[dim]});
  }
  return rule.with({operand}, {oneToOne(result)});
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  SmallVector<int64_t> operand = rule.addDims(shapeOf(getX()));
  auto result =
      llvm::map_to_vector(getPerm(), [&](int64_t dim) { return operand[dim]; });
  return rule.with({oneToOne(operand)}, {oneToOne(result)});
}

namespace {

/// Finds the iteration dimensions of a reshape: the largest factors from which
/// the dimensions of both shapes can be composed.
struct Refinement {
  ArrayRef<int64_t> from, to;
  ShardingRule &rule;
  TensorMap fromMap = TensorMap(from.size()), toMap = TensorMap(to.size());

  void run();
  void addPrivate(TensorMap &map, ArrayRef<int64_t> shape, size_t at,
                  int64_t left, int64_t count);
};

/// Adds iteration dimensions that cannot be split, for a group of `count`
/// elements that shares no factor with the other shape. The group consists of
/// the inner `left` elements of dimension `at` and the dimensions after `at`.
void Refinement::addPrivate(TensorMap &map, ArrayRef<int64_t> shape, size_t at,
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
  // An empty tensor has no elements to align.
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return;
  size_t i = 0, j = 0;
  int64_t a = 1, b = 1; // the unmatched parts of from[i - 1] and to[j - 1]
  while (true) {
    while (a == 1 && i < from.size())
      a = from[i++];
    while (b == 1 && j < to.size())
      b = to[j++];
    if (a == 1 || b == 1)
      return;
    int64_t common = std::gcd(a, b);
    if (common > 1) {
      int64_t dim = rule.addDim(common);
      fromMap[i - 1].push_back(dim);
      toMap[j - 1].push_back(dim);
      a /= common;
      b /= common;
      continue;
    }
    // Extend both sides to the smallest groups with equally many elements.
    int64_t countA = a, countB = b;
    size_t endA = i, endB = j;
    while (countA != countB)
      if (countA < countB)
        countA *= from[endA++];
      else
        countB *= to[endB++];
    addPrivate(fromMap, from, i - 1, a, countA);
    addPrivate(toMap, to, j - 1, b, countB);
    i = endA;
    j = endB;
    a = b = 1;
  }
}

} // namespace

ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  Refinement refinement{shapeOf(getX()), shapeOf(getResult()), rule};
  refinement.run();
  return rule.with({refinement.fromMap}, {refinement.toMap});
}

/// Maps a dimension to [size / inner, inner]. Only `innerDim` may be split.
static DimMap partsOf(ShardingRule &rule, int64_t size, int64_t inner,
                      int64_t innerDim) {
  DimMap map;
  if (size != inner)
    map.push_back(rule.addDim(size / inner, /*whole=*/true));
  if (inner > 1)
    map.push_back(innerDim);
  return map;
}

/// Adds iteration dimensions for a box that is cut from a large tensor: element
/// j along dimension i of the box is element offsets[i] + j * strides[i] of the
/// large tensor. Returns the maps of the large tensor and of the box.
static std::pair<TensorMap, TensorMap>
mapBox(ShardingRule &rule, ArrayRef<int64_t> large, ArrayRef<int64_t> small,
       ArrayRef<int64_t> offsets, ArrayRef<int64_t> strides) {
  TensorMap largeMap(large.size()), smallMap(small.size());
  for (size_t i = 0; i < large.size(); ++i) {
    int64_t common = std::gcd(std::gcd(large[i], small[i]), offsets[i]);
    int64_t inner = strides[i] == 1 ? common : 1;
    if (inner == 0)
      continue;
    bool isShared = inner > 1 || large[i] == small[i];
    int64_t innerDim = isShared ? rule.addDim(inner) : -1;
    largeMap[i] = partsOf(rule, large[i], inner, innerDim);
    smallMap[i] = partsOf(rule, small[i], inner, innerDim);
  }
  return {largeMap, smallMap};
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule;
  rule.movesData = true;
  auto [operand, result] = mapBox(rule, shapeOf(getX()), shapeOf(getResult()),
                                  getOffsets(), getStrides());
  return rule.with({operand}, {result});
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule;
  auto [result, operand] = mapBox(rule, shapeOf(getResult()), shapeOf(getX()),
                                  getLow(), getStrides());
  // Zero padding does not change a sum, but may change a max or min.
  return rule.with({operand}, {result}, {{0}});
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
