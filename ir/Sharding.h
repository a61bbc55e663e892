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
#pragma once

#include "ir/Dialect.h"

#include <vector>

namespace dpc {

inline constexpr llvm::StringLiteral kMicroBatchAxis = "mb";

/// The name of the mesh axis of pipeline stages. It splits no tensor.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";

/// The name of the mesh axis that splits experts, and the batch elsewhere.
inline constexpr llvm::StringLiteral kExpertAxis = "ep";

/// Returns true for tensor-parallel axes: `tp`, or `tp0`, `tp1`, .. of a grid.
inline bool isTensorAxis(llvm::StringRef name) {
  return name.starts_with("tp");
}

/// A factor with `size` elements. `axes` are the indices of the mesh axes that
/// split it.
struct Factor {
  int64_t size;
  llvm::SmallVector<int64_t, 2> axes;
  bool operator==(const Factor &) const = default;
};
/// The factors of one dimension, outermost first. A size is never 0; only
/// DimShardingAttr uses 0 for a whole dimension.
using DimFactors = llvm::SmallVector<Factor, 2>;

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Returns how many elements each rank stores of a factor with `size` elements
/// that `axes` split.
int64_t localFactorSize(MeshAttr mesh, int64_t size,
                        llvm::ArrayRef<int64_t> axes);

int64_t productOfAxes(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// Returns true if some rank's shard of `factor` has padding.
bool isUneven(MeshAttr mesh, const Factor &factor);

/// Returns the canonical form of `factors` (see the file comment).
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

/// In ShardingAttr::getPartialKinds, marks an axis over which the value is
/// routed. Other numbers are a ReduceKind.
inline constexpr int64_t kRoutedKind = -1;

/// Returns "routed" or the name of the reduction.
llvm::StringRef partialKindName(int64_t kind);

/// A sharding with explicit factors.
struct ShardingSpec {
  MeshAttr mesh;
  llvm::SmallVector<DimFactors, 4> dims;
  llvm::SmallVector<PartialAxis, 2> partial;
  /// Axes over which the value is routed: each row is valid only on the rank
  /// that has its expert, and has arbitrary elements on the others.
  llvm::SmallVector<int64_t, 1> routed;

  static ShardingSpec replicated(MeshAttr mesh, llvm::ArrayRef<int64_t> shape);
  /// Expands `attr`, the sharding of a tensor with this shape.
  static ShardingSpec get(ShardingAttr attr, llvm::ArrayRef<int64_t> shape);
  /// Expands the encoding of `type`; nullopt if `type` has no encoding.
  static std::optional<ShardingSpec> get(mlir::RankedTensorType type);

  /// The canonical attribute.
  ShardingAttr toAttr() const;
  /// Includes padding.
  llvm::SmallVector<int64_t> localShape() const;
  llvm::SmallVector<int64_t> globalShape() const;
  /// Returns the reduction over `axis`, or nullopt if the value is not partial
  /// over it.
  std::optional<ReduceKind> partialOver(int64_t axis) const;
  bool isRoutedOver(int64_t axis) const {
    return llvm::is_contained(routed, axis);
  }
  bool splitsAxis(int64_t axis) const;
  bool usesAxis(int64_t axis) const;
  bool hasPadding() const;
};

/// Returns a tensor type with `sharding` as its encoding. Asserts that the
/// ranks of `sharding` and `shape` are equal. RankedTensorType::get does not
/// check the ranks, so create all types with shardings here.
mlir::RankedTensorType getSharded(llvm::ArrayRef<int64_t> shape,
                                  mlir::Type elementType,
                                  ShardingAttr sharding);
mlir::RankedTensorType withSharding(mlir::RankedTensorType type,
                                    const ShardingSpec &spec);
mlir::RankedTensorType withoutSharding(mlir::RankedTensorType type);
/// Returns the sharding of `type`, or null if `type` is not a tensor or has
/// none.
ShardingAttr getSharding(mlir::Type type);
/// Returns the type of a rank's shard, which has no encoding.
mlir::RankedTensorType localType(mlir::RankedTensorType type);

/// Returns the result shardings that follow from the operand shardings. Returns
/// nullopt and sets `why` if operands split a dimension in different ways, if
/// they split a dimension that the rule does not allow to be split, or if a
/// partial operand has a non-linear use.
///
/// `resultHints` (optional) give the factors of iteration dimensions that are
/// in no operand, as in iota and constant.
std::optional<std::vector<ShardingSpec>>
inferResults(const ShardingRule &rule, MeshAttr mesh,
             llvm::ArrayRef<ShardingSpec> operands,
             llvm::ArrayRef<ShardingSpec> resultHints, std::string &why);

} // namespace dpc
