//===- Layout.h - layout of a global array on a mesh ------------*- C++ -*-===//
//
// Each dimension of an array is a list of factors in row-major order; their
// sizes multiply to the extent. A factor is split over a list of mesh axes. The
// first axis splits the factor, the second axis splits each shard of the first,
// and so on. An axis of size k splits n elements into shards of ceil(n / k)
// elements. Padding fills the last shards, so that all ranks have the same
// local shape. The shard of a factor of size n that is split over axes of sizes
// k1..kr, on the rank with coordinates c1..cr, has offset `off`, `valid`
// elements and, with padding, `cap` elements:
//
//   off = 0, valid = n, cap = n
//   for each axis i:  s = ceil(cap / ki)
//                     off += ci * s
//                     valid = clamp(valid - ci * s, 0, s)
//                     cap = s
//
// For example, dp=3 splits 8 rows into 3, 3 and 2 (capacity 3), and dp=4 splits
// 5 rows into 2, 2, 1 and 0.
//
// The D data-parallel ranks may have uneven batch shares s0, s1, ..: different
// numbers of micro-batches, with mean M. The global batch is still split evenly
// into D x M cells in row-major order, but micro-batch m of data-parallel rank
// d is cell s0 + .. + s(d-1) + m instead of cell d * M + m. The formula above
// then uses the coordinates of the cell, not of the rank. This requires that
// the data-parallel axes split every factor that "mb", the axis of
// micro-batches, splits.
//
// For example, D = 2, M = 2 and shares 3, 1 assign cells 0, 1, 2 to the first
// rank and cell 3 to the second rank.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The axis of micro-batches, which is not an axis of ranks.
inline constexpr const char *kMicroBatchAxis = "mb";
/// The axis of pipeline stages. Layouts do not use it, because each stage has
/// different tensors.
inline constexpr const char *kPipelineAxis = "pp";

/// Returns whether `axis` is "dp", or "dpi", a data-parallel axis inside "dp".
bool isDataAxis(const std::string &axis);

/// A mesh axis and its size.
struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// The mesh axes, outermost first, and the number of micro-batches of a step.
/// Ranks are numbered row-major.
struct Mesh {
  std::vector<MeshAxis> axes;
  int64_t microBatches = 1;
  /// The number of micro-batches of each data-parallel rank; the mean is
  /// `microBatches`. Empty if all are equal.
  std::vector<int64_t> batchShares = {};
  bool operator==(const Mesh &) const = default;

  int64_t dataRanks() const;
  /// Returns the index of `rank` among the data-parallel ranks.
  int64_t dataRankOf(int64_t rank) const;
  int64_t microBatchesOf(int64_t rank) const;
  int64_t mostMicroBatches() const;
  /// Returns the coordinate along `axis` of the batch cell that `rank`
  /// processes in micro-batch `mb`.
  int64_t cellCoordinate(const std::string &axis, int64_t rank,
                         int64_t mb) const;

  int64_t ranks() const;
  /// Returns whether `axis` is a mesh axis or "mb".
  bool has(const std::string &axis) const;
  /// Returns the size of a mesh axis or of "mb". The axis must exist.
  int64_t sizeOf(const std::string &axis) const;
  /// Returns the coordinate of `rank` along `axis`, or `mb` for the axis "mb".
  int64_t coordinate(const std::string &axis, int64_t rank, int64_t mb) const;
  /// Returns the size of "pp", or 1 if the mesh has no such axis.
  int64_t stages() const {
    return has(kPipelineAxis) ? sizeOf(kPipelineAxis) : 1;
  }
  int64_t stageOf(int64_t rank) const {
    return has(kPipelineAxis) ? coordinate(kPipelineAxis, rank, 0) : 0;
  }
};

/// A factor of a dimension, with the axes that split it, outermost first.
struct Factor {
  int64_t size = 1;
  std::vector<std::string> axes;
  bool operator==(const Factor &) const = default;
};

struct Layout {
  std::vector<std::vector<Factor>> dims;

  /// Returns the layout that splits no dimension.
  static Layout replicated(const std::vector<int64_t> &shape);
  bool mentions(const std::string &axis) const;
  bool operator==(const Layout &) const = default;
};

/// The part of a factor that a shard contains.
struct FactorShard {
  int64_t offset = 0;   ///< first global index; may be >= size if valid is 0
  int64_t valid = 0;    ///< elements without padding
  int64_t capacity = 0; ///< elements with padding, equal for all shards
};

/// Returns the coordinate along `axis` that selects the shard of a factor split
/// over `axes`. It is the coordinate of the batch cell if `axes` contain "mb",
/// otherwise the coordinate of `rank`.
int64_t coordinateAmong(const std::vector<std::string> &axes,
                        const std::string &axis, const Mesh &mesh, int64_t rank,
                        int64_t mb);

/// Returns the shard of a factor by the formula at the top of this file.
FactorShard shardOf(int64_t size, const std::vector<std::string> &axes,
                    const Mesh &mesh, int64_t rank, int64_t mb);

/// Returns the shape of a shard, which is equal on all ranks, with padding.
std::vector<int64_t> localShape(const Layout &layout, const Mesh &mesh);

/// Checks the axes that split one factor. With uneven batch shares, a factor
/// that "mb" splits must also be split by all data-parallel axes.
Status checkCells(const std::vector<std::string> &axes, const Mesh &mesh);

/// Checks that the factors of `layout` multiply to `shape`, that every axis
/// exists in the mesh, and that no axis is used twice.
Status checkLayout(const Layout &layout, const std::vector<int64_t> &shape,
                   const Mesh &mesh);

/// Calls run(global, local, count) for each contiguous run of elements in the
/// shard of (rank, mb). A run begins at index `local` of the shard and at index
/// `global` of the dense row-major array.
void forEachRun(const Layout &layout, const Mesh &mesh, int64_t rank,
                int64_t mb,
                const std::function<void(int64_t global, int64_t local,
                                         int64_t count)> &run);

/// Copies the shard of (rank, mb) from the dense row-major array `global` to
/// `local`. Padding stays unchanged.
void packShard(const void *global, void *local, int64_t elementBytes,
               const Layout &layout, const Mesh &mesh, int64_t rank,
               int64_t mb);

/// Copies a shard without its padding to the dense row-major array `global`.
void unpackShard(const void *local, void *global, int64_t elementBytes,
                 const Layout &layout, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Returns whether (rank, mb) owns its shard of a value of pipeline stage
/// `stage`. Of several replicas, the owner is the rank of this stage with
/// coordinate 0 on all axes that the layout does not mention.
bool ownsShard(const Layout &layout, const Mesh &mesh, int64_t rank, int64_t mb,
               int64_t stage = 0);

} // namespace dpc::rt
