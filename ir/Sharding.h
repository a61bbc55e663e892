//===- Sharding.h - The arithmetic of split tensors -------------*- C++ -*-===//
//
// A tensor dimension is an ordered list of *factors*, row-major, whose sizes
// multiply to the dimension. Each factor is split by an ordered list of mesh
// axes. This file holds everything that can be said about that without ops:
// local shapes, offsets, canonical form, moving factors between dimensions.
//
// Splitting is *nested ceil*: a factor of n elements split by axes of k1, k2
// ranks is first cut into k1 shards of c1 = ceil(n / k1), each shard then into
// k2 shards of c2 = ceil(c1 / k2). Every rank has room for c2 elements; what
// lies beyond n is padding. Nested, because then gathering the last axis gives
// exactly the shard of the axes before it (flat blocks of ceil(n / (k1*k2)) do
// not: 435 of 640 small cases differ).
//
//   n = 7, axes (2, 2):   c1 = 4, c2 = 2
//   coordinates    (0,0) (0,1) (1,0) (1,1)
//   elements        0 1   2 3   4 5   6 _      (_ = padding)
//
// Canonical form, so that equal placements are equal attributes:
//   * {8:dp, 4} with dp = 4 is {dp}: a split factor followed by unsplit ones
//     merges with them when the axes divide it, as shards stay contiguous;
//   * {4:tp, 16} with tp = 3 stays: 32, 32, 0 is not 22, 22, 20;
//   * neighbouring unsplit factors merge; a lone factor has size 0 ("whole");
//   * factors of size 1 without axes vanish.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_SHARDING_H
#define DPC_IR_SHARDING_H

#include "ir/Dialect.h"

#include <vector>

namespace dpc {

/// Name of the mesh axis whose coordinates are micro-batches, not ranks.
inline constexpr llvm::StringLiteral kMicroBatchAxis = "mb";

/// Name of the mesh axis of pipeline stages. It splits no tensor.
inline constexpr llvm::StringLiteral kPipelineAxis = "pp";

/// Whether a mesh axis is one of tensor-parallel ranks: tp, or tp0, tp1, .. of
/// a grid.
inline bool isTensorAxis(llvm::StringRef name) {
  return name.starts_with("tp");
}

/// A factor of a dimension: `size` elements split by mesh axes (indices).
struct Factor {
  int64_t size;
  llvm::SmallVector<int64_t, 2> axes;
  bool operator==(const Factor &) const = default;
};
/// The factors of one dimension, outermost first. Sizes are explicit here
/// (never 0); their product is the dimension.
using DimFactors = llvm::SmallVector<Factor, 2>;

/// ceil(a / b) for a >= 0, b > 0.
inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Elements per rank of a factor of `size` split by `axes`: nested ceil.
int64_t localFactorSize(MeshAttr mesh, int64_t size,
                        llvm::ArrayRef<int64_t> axes);

/// Product of the sizes of `axes`.
int64_t productOfAxes(MeshAttr mesh, llvm::ArrayRef<int64_t> axes);

/// True when splitting leaves padding on some rank.
bool isUneven(MeshAttr mesh, const Factor &factor);

/// The canonical factors of a dimension (see the file comment).
DimFactors canonicalize(MeshAttr mesh, DimFactors factors);

/// Cuts `factors` at the boundaries of `sizes` (row-major, same product).
///
///   {64:tp}, tp = 2, sizes (4, 16)     -> {4:tp} | {16}
///   {64:(a,b)}, a = 4, b = 2, (4, 16)  -> {4:a} | {16:b}
///   {64:tp}, tp = 3, sizes (4, 16)     -> failure (22, 22, 20 are no heads)
///   {3, 4:tp, 16}, sizes (3, 64)       -> {3} | {4:tp, 16}
std::optional<llvm::SmallVector<DimFactors>>
splitFactors(MeshAttr mesh, const DimFactors &factors,
             llvm::ArrayRef<int64_t> sizes);

/// A partial state along one axis.
struct PartialAxis {
  int64_t axis;
  ReduceKind kind;
  bool operator==(const PartialAxis &) const = default;
};

/// A sharding with explicit factors, the form that passes work on.
struct ShardingSpec {
  MeshAttr mesh;
  llvm::SmallVector<DimFactors, 4> dims;
  llvm::SmallVector<PartialAxis, 2> partial;

  /// The unsplit, non-partial sharding of a tensor of `shape`.
  static ShardingSpec replicated(MeshAttr mesh, llvm::ArrayRef<int64_t> shape);
  /// Reads `attr` as the sharding of a tensor of `shape`.
  static ShardingSpec get(ShardingAttr attr, llvm::ArrayRef<int64_t> shape);
  /// Reads the encoding of `type`; nullopt when it has none.
  static std::optional<ShardingSpec> get(mlir::RankedTensorType type);

  /// The canonical attribute.
  ShardingAttr toAttr() const;
  /// Shape of one rank's shard, padding included.
  llvm::SmallVector<int64_t> localShape() const;
  /// Shape of the global tensor.
  llvm::SmallVector<int64_t> globalShape() const;
  /// The reduction kind over `axis`, or nullopt when not partial over it.
  std::optional<ReduceKind> partialOver(int64_t axis) const;
  /// True when some factor is split by `axis`.
  bool splitsAxis(int64_t axis) const;
  /// True when `axis` splits a factor or is partial.
  bool usesAxis(int64_t axis) const;
  /// True when some factor leaves padding on some rank.
  bool hasPadding() const;
};

/// Element type, shape and encoding; the only way shardings get into types,
/// because RankedTensorType::get does not check encodings. Asserts rank.
mlir::RankedTensorType getSharded(llvm::ArrayRef<int64_t> shape,
                                  mlir::Type elementType,
                                  ShardingAttr sharding);
/// `type` with its encoding replaced by `spec`.
mlir::RankedTensorType withSharding(mlir::RankedTensorType type,
                                    const ShardingSpec &spec);
/// `type` without encoding.
mlir::RankedTensorType withoutSharding(mlir::RankedTensorType type);
/// The encoding of `type` (a ranked tensor), or null.
ShardingAttr getSharding(mlir::Type type);
/// What one rank holds of `type`: local shape, no encoding.
mlir::RankedTensorType localType(mlir::RankedTensorType type);

/// The result shardings of an op with the given operand shardings, or nullopt
/// with `why` filled: operands disagree on a dimension, a whole dimension is
/// split, or a partial operand meets a non-linear use.
///
/// Iteration dimensions that no operand has (iota, constant) take their factors
/// from `resultHints` when given.
std::optional<std::vector<ShardingSpec>>
inferResults(const ShardingRule &rule, MeshAttr mesh,
             llvm::ArrayRef<ShardingSpec> operands,
             llvm::ArrayRef<ShardingSpec> resultHints, std::string &why);

} // namespace dpc

#endif // DPC_IR_SHARDING_H
