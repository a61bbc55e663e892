//===- Layout.h - layout of a global array on a mesh ------------*- C++ -*-===//
//
// A dimension is a list of factors in row-major order, whose sizes multiply to
// the extent. A factor is split over a list of axes: the first axis splits the
// factor, the second axis splits each shard of the first, and so on. An axis of
// size k splits n elements into shards of ceil(n / k) elements; padding fills
// the last shards. All ranks therefore have the same local shape. For a factor
// of size n, axes of sizes k1..kr and coordinates c1..cr:
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
// Data-parallel ranks may have uneven batch shares s0, s1, ..: different
// numbers of micro-batches, with mean M. The global batch is still split
// evenly, into D x M cells in row-major order, where D is the number of
// data-parallel ranks. Micro-batch m of data-parallel rank d is cell s0 + .. +
// s(d-1) + m instead of cell d * M + m. For this reason, all data axes must
// split every factor that "mb" splits, and the formula above takes the
// coordinates of the cell, not of the rank.
//
// For example, D = 2, M = 2 and shares 3, 1 assign cells 0, 1, 2 to the first
// rank and cell 3 to the second.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_LAYOUT_H
#define DPC_RUNTIME_BASE_LAYOUT_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The name of the axis along which a step splits the batch into micro-batches.
/// "mb" is not a rank axis.
inline constexpr const char *kMicroBatchAxis = "mb";
/// The rank axis of pipeline stages. Stages hold different parts of the model,
/// so no layout mentions this axis.
inline constexpr const char *kPipelineAxis = "pp";

/// Whether `axis` is a data-parallel axis: "dp" or the axis nested in it,
/// "dpi".
bool isDataAxis(const std::string &axis);

/// A mesh axis and its size.
struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// The rank axes and the number of micro-batches of a step. A rank is the
/// row-major index of its coordinates; the first axis is the outermost.
struct Mesh {
  std::vector<MeshAxis> axes;
  int64_t microBatches = 1;
  /// How many micro-batches each data-parallel rank runs (row-major over the
  /// data axes); the mean is `microBatches`. Empty if each rank runs
  /// `microBatches`.
  std::vector<int64_t> batchShares = {};
  bool operator==(const Mesh &) const = default;

  /// The number of data-parallel ranks: the product of the sizes of the data
  /// axes.
  int64_t dataRanks() const;
  /// The linear coordinate of `rank` along the data axes.
  int64_t dataRankOf(int64_t rank) const;
  /// How many micro-batches `rank` runs, and the maximum over all ranks.
  int64_t microBatchesOf(int64_t rank) const;
  int64_t mostMicroBatches() const;
  /// The coordinate of the cell of the batch that `rank` processes in
  /// micro-batch `mb`. With uneven batch shares, this coordinate differs from
  /// coordinate() along the data axes and "mb".
  int64_t cellCoordinate(const std::string &axis, int64_t rank,
                         int64_t mb) const;

  /// The number of ranks: the product of the sizes of the rank axes.
  int64_t ranks() const;
  /// Whether `axis` is a rank axis or "mb".
  bool has(const std::string &axis) const;
  /// Size of a rank axis or of "mb". The axis must exist.
  int64_t sizeOf(const std::string &axis) const;
  /// The coordinate of `rank`, or `mb` for the axis "mb".
  int64_t coordinate(const std::string &axis, int64_t rank, int64_t mb) const;
  /// The number of pipeline stages: the size of "pp", or 1 without this axis.
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

/// The factors of each dimension.
struct Layout {
  std::vector<std::vector<Factor>> dims;

  /// The layout with one unsplit factor for each dimension.
  static Layout replicated(const std::vector<int64_t> &shape);
  /// Whether any factor is split over `axis`.
  bool mentions(const std::string &axis) const;
  bool operator==(const Layout &) const = default;
};

/// The range of a factor that a shard holds.
struct FactorShard {
  int64_t offset = 0;   ///< first global index; may be >= size if valid is 0
  int64_t valid = 0;    ///< elements without padding
  int64_t capacity = 0; ///< elements with padding, equal for all shards
};

/// The coordinate along `axis`, which is one of the `axes` that split a factor.
/// If `axes` contain "mb", returns the coordinate of the cell, otherwise the
/// coordinate of `rank`.
int64_t coordinateAmong(const std::vector<std::string> &axes,
                        const std::string &axis, const Mesh &mesh, int64_t rank,
                        int64_t mb);

/// The shard of a factor of `size` elements, by the formula at the top of this
/// file.
FactorShard shardOf(int64_t size, const std::vector<std::string> &axes,
                    const Mesh &mesh, int64_t rank, int64_t mb);

/// The shape of every shard with padding.
std::vector<int64_t> localShape(const Layout &layout, const Mesh &mesh);

/// Checks the `axes` that split one factor: with uneven batch shares, "mb"
/// requires all data axes.
Status checkCells(const std::vector<std::string> &axes, const Mesh &mesh);

/// Checks that `layout` has the dimensions and extents of `shape` and uses axes
/// of the mesh, each at most once.
Status checkLayout(const Layout &layout, const std::vector<int64_t> &shape,
                   const Mesh &mesh);

/// Calls run(global, local, count) for each run of consecutive elements in the
/// shard of (rank, mb). The run starts at index `local` of the shard and at
/// index `global` of the dense row-major array.
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

/// Whether (rank, mb) owns its shard of a value that belongs to pipeline stage
/// `stage`. A replicated shard is owned by the rank of this stage whose
/// coordinate is 0 on all other axes that the layout does not mention.
bool ownsShard(const Layout &layout, const Mesh &mesh, int64_t rank, int64_t mb,
               int64_t stage = 0);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_LAYOUT_H
