//===- Sharding.h - The arithmetic of split tensors -------------*- C++ -*-===//
//
// A tensor dimension is an ordered, row-major list of *factors*, whose product
// is the size of the dimension. An ordered list of mesh axes splits each
// factor. This file has the arithmetic that needs no ops: local shapes, the
// canonical form, and the division of factors among dimensions.
//
// Splits are *nested*: a factor of n elements that is split by axes of k1 and
// k2 ranks is first cut into k1 shards of c1 = ceil(n / k1) elements. Each of
// these shards is cut into k2 shards of c2 = ceil(c1 / k2) elements. Every rank
// stores c2 elements; elements beyond n are padding. With nested splits, an
// all_gather over the last axis gives exactly the shard over the other axes. If
// a factor is cut at once into blocks of ceil(n / (k1 * k2)) elements, this
// does not hold: of 640 small cases tried, 435 gave a different shard.
//
//   n = 7, axes (2, 2):   c1 = 4, c2 = 2
//   coordinates    (0,0) (0,1) (1,0) (1,1)
//   elements        0 1   2 3   4 5   6 _      (_ = padding)
//
// In canonical form, equal placements are equal attributes:
//   * {8:dp, 4} with dp = 4 becomes {32:dp}, written {dp}: if the ranks of a
//     split factor's axes divide its size, its shards are contiguous, and it
//     merges with the unsplit factors after it;
//   * {4:tp, 16} with tp = 3 does not change: shards of 32, 32 and 0 elements
//     differ from shards of 22, 22 and 20;
//   * adjacent unsplit factors merge;
//   * if one factor remains, the attribute stores its size as 0, which means
//     the whole dimension;
//   * factors of size 1 without axes are dropped.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_SHARDING_H
#define DPC_IR_SHARDING_H

#include "ir/Dialect.h"

#include <vector>

namespace dpc {

/// The name of the mesh axis whose coordinates are micro-batches, not ranks.
inline constexpr llvm::StringLiteral kMicroBatchAxis = "mb";

/// The name of the mesh axis of pipeline stages. It splits no tensor.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";

/// True for the axes of tensor-parallel ranks: tp, or tp0, tp1, .. of a grid.
inline bool isTensorAxis(llvm::StringRef name) {
  return name.starts_with("tp");
}

/// A factor of a dimension: `size` elements, split by the mesh axes with the
/// indices `axes`.
struct Factor {
  int64_t size;
  llvm::SmallVector<int64_t, 2> axes;
  bool operator==(const Factor &) const = default;
};
/// The factors of one dimension, outermost first. The product of their sizes is
/// the dimension. A size is never 0; only DimShardingAttr uses 0 for a whole
/// dimension.
using DimFactors = llvm::SmallVector<Factor, 2>;

/// ceil(a / b) for a >= 0, b > 0.
inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The number of elements that each rank stores of a factor that has `size`
/// elements and is split by `axes`.
int64_t localFactorSize(MeshAttr mesh, int64_t size,
                        llvm::ArrayRef<int64_t> axes);

/// The product of the sizes of `axes`.
int64_t productOfAxes(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// True if the shard of some rank has padding.
bool isUneven(MeshAttr mesh, const Factor &factor);

/// The canonical factors of a dimension (see the file comment).
DimFactors canonicalize(MeshAttr mesh, DimFactors factors);

/// Divides `factors` among dimensions of the given `sizes` (row-major, same
/// product). Returns nullopt if a shard would cross the boundary of a
/// dimension.
///
///   {64:tp}, tp = 2, sizes (4, 16)     -> {4:tp} | {16}
///   {64:(a,b)}, a = 4, b = 2, (4, 16)  -> {4:a} | {16:b}
///   {64:tp}, tp = 3, sizes (4, 16)     -> nullopt (shards of 22, 22 and 20
///                                         elements would cut rows of 16)
///   {3, 4:tp, 16}, sizes (3, 64)       -> {3} | {4:tp, 16}
std::optional<llvm::SmallVector<DimFactors>>
splitFactors(MeshAttr mesh, const DimFactors &factors,
             llvm::ArrayRef<int64_t> sizes);

/// An axis over which a value is a partial sum or other partial result, and the
/// reduction that completes the value.
struct PartialAxis {
  int64_t axis;
  ReduceKind kind;
  bool operator==(const PartialAxis &) const = default;
};

/// A sharding with explicit factors.
struct ShardingSpec {
  MeshAttr mesh;
  llvm::SmallVector<DimFactors, 4> dims;
  llvm::SmallVector<PartialAxis, 2> partial;

  /// The sharding of a replicated tensor of `shape`.
  static ShardingSpec replicated(MeshAttr mesh, llvm::ArrayRef<int64_t> shape);
  /// The sharding `attr` of a tensor of `shape`.
  static ShardingSpec get(ShardingAttr attr, llvm::ArrayRef<int64_t> shape);
  /// The encoding of `type`; nullopt if it has none.
  static std::optional<ShardingSpec> get(mlir::RankedTensorType type);

  /// The canonical attribute.
  ShardingAttr toAttr() const;
  /// The shape of a rank's shard, including padding.
  llvm::SmallVector<int64_t> localShape() const;
  /// The shape of the global tensor.
  llvm::SmallVector<int64_t> globalShape() const;
  /// The reduction over `axis`; nullopt if the value is not partial over it.
  std::optional<ReduceKind> partialOver(int64_t axis) const;
  /// True if `axis` splits a factor.
  bool splitsAxis(int64_t axis) const;
  /// True if `axis` splits a factor or the value is partial over it.
  bool usesAxis(int64_t axis) const;
  /// True if the shard of some rank has padding.
  bool hasPadding() const;
};

/// The tensor type with this shape, element type and encoding. Asserts that
/// `sharding` has the rank of `shape`. RankedTensorType::get does not check
/// this, so all types with shardings should be created here.
mlir::RankedTensorType getSharded(llvm::ArrayRef<int64_t> shape,
                                  mlir::Type elementType,
                                  ShardingAttr sharding);
/// `type` with `spec` as its encoding.
mlir::RankedTensorType withSharding(mlir::RankedTensorType type,
                                    const ShardingSpec &spec);
/// `type` without an encoding.
mlir::RankedTensorType withoutSharding(mlir::RankedTensorType type);
/// The sharding of `type`; null if `type` is not a tensor or has no sharding.
ShardingAttr getSharding(mlir::Type type);
/// The type of a rank's shard: local shape, no encoding.
mlir::RankedTensorType localType(mlir::RankedTensorType type);

/// The result shardings of an op with the given operand shardings. Returns
/// nullopt and sets `why` if operands split a dimension in different ways, if
/// they split a dimension that the rule does not allow to be split, or if a
/// partial operand has a non-linear use.
///
/// Iteration dimensions that are in no operand (iota, constant) take their
/// factors from `resultHints`, if there are any.
std::optional<std::vector<ShardingSpec>>
inferResults(const ShardingRule &rule, MeshAttr mesh,
             llvm::ArrayRef<ShardingSpec> operands,
             llvm::ArrayRef<ShardingSpec> resultHints, std::string &why);

} // namespace dpc

#endif // DPC_IR_SHARDING_H
