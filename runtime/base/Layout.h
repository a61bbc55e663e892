//===- Layout.h - layout of a global array on a mesh ------------*- C++ -*-===//
//
// A dimension is an ordered list of factors (row-major; sizes multiply to the
// extent); a factor is split over an ordered list of axes, nested: first by
// the first axis, then every shard by the second. With n elements over k
// coordinates a shard holds ceil(n / k); the tail is padding. So every rank
// has the same local shape, and for a factor of size n with axes k1..kr at
// coordinates c1..cr
//
//   off = 0, valid = n, cap = n
//   for each axis i:  s = ceil(cap / ki)
//                     off += ci * s
//                     valid = clamp(valid - ci * s, 0, s)
//                     cap = s
//
// Example: 8 rows over dp=3 are 3, 3, 2 (capacity 3); 5 rows over 4 are
// 2, 2, 1, 0.
//
// The data-parallel ranks may have different numbers of micro-batches. The
// batch is still divided evenly, into one cell for each of D data ranks and M
// micro-batches, numbered row-major. The assignment of cells to ranks differs:
// data rank d runs its micro-batch m on cell s0 + .. + s(d-1) + m instead of d
// * M + m. A factor that "mb" splits is therefore split by all data axes as
// well, and c above is the coordinate of the cell.
//
// Example: D = 2, M = 2 and shares 3, 1 assign cells 0, 1, 2 | 3.
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

/// Name of the time axis: the micro-batches of one step. It is not a rank axis.
inline constexpr const char *kMicroBatchAxis = "mb";
/// Name of the rank axis of pipeline stages. Stages hold different parts of the
/// model, so no layout mentions this axis.
inline constexpr const char *kPipelineAxis = "pp";

/// Whether `axis` is a data-parallel axis: "dp", or "dpi" inside of it.
bool isDataAxis(const std::string &axis);

/// A mesh axis and its size.
struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// The rank axes (row-major, first axis outermost: rank = the linear index of
/// the coordinates) and the number of micro-batches of a step.
struct Mesh {
  std::vector<MeshAxis> axes;
  int64_t microBatches = 1;
  /// By data rank (row-major over the data axes): its number of micro-batches,
  /// when the numbers differ. Their mean is `microBatches`. Empty: every data
  /// rank has `microBatches`.
  std::vector<int64_t> batchShares = {};
  bool operator==(const Mesh &) const = default;

  /// Product of the data axes.
  int64_t dataRanks() const;
  /// The linear coordinate of `rank` along the data axes.
  int64_t dataRankOf(int64_t rank) const;
  /// The number of micro-batches of `rank`, and the largest number of any rank.
  int64_t microBatchesOf(int64_t rank) const;
  int64_t mostMicroBatches() const;
  /// Like coordinate(), for the cell that `rank` works on in micro-batch `mb`.
  /// The two differ along the data axes and "mb" when batch shares are uneven.
  int64_t cellCoordinate(const std::string &axis, int64_t rank,
                         int64_t mb) const;

  /// Product of the rank axes.
  int64_t ranks() const;
  /// Whether `axis` is a rank axis or "mb".
  bool has(const std::string &axis) const;
  /// Size of a rank axis or of "mb". The axis must exist.
  int64_t sizeOf(const std::string &axis) const;
  /// Coordinate along `axis` of `rank` working on micro-batch `mb`.
  int64_t coordinate(const std::string &axis, int64_t rank, int64_t mb) const;
  /// Pipeline stages: the size of "pp", 1 without it.
  int64_t stages() const {
    return has(kPipelineAxis) ? sizeOf(kPipelineAxis) : 1;
  }
  /// The stage that `rank` belongs to.
  int64_t stageOf(int64_t rank) const {
    return has(kPipelineAxis) ? coordinate(kPipelineAxis, rank, 0) : 0;
  }
};

/// A factor of a dimension: its size and the axes that split it, outermost
/// first.
struct Factor {
  int64_t size = 1;
  std::vector<std::string> axes;
  bool operator==(const Factor &) const = default;
};

/// Factors of every dimension.
struct Layout {
  std::vector<std::vector<Factor>> dims;

  /// One unsplit factor per dimension of `shape`.
  static Layout replicated(const std::vector<int64_t> &shape);
  /// Whether any factor is split over `axis`.
  bool mentions(const std::string &axis) const;
  bool operator==(const Layout &) const = default;
};

/// Where a shard of one factor lies.
struct FactorShard {
  int64_t offset = 0;   ///< first global index; may be >= size when valid is 0
  int64_t valid = 0;    ///< elements that exist, 0 <= valid <= capacity
  int64_t capacity = 0; ///< elements that a shard has room for
};

/// The coordinate along `axis`, one of the `axes` that split a factor together:
/// the coordinate of the cell if `axes` contain "mb", else that of `rank`.
int64_t coordinateAmong(const std::vector<std::string> &axes,
                        const std::string &axis, const Mesh &mesh, int64_t rank,
                        int64_t mb);

/// The shard of a factor of `size` elements by the formula above.
FactorShard shardOf(int64_t size, const std::vector<std::string> &axes,
                    const Mesh &mesh, int64_t rank, int64_t mb);

/// The extents of every shard, padding included. Each extent is the product of
/// the local sizes of its factors.
std::vector<int64_t> localShape(const Layout &layout, const Mesh &mesh);

/// Checks the `axes` that split one factor: with uneven batch shares, a factor
/// that is split by "mb" must be split by all data axes as well.
Status checkCells(const std::vector<std::string> &axes, const Mesh &mesh);

/// Checks `layout` against `shape`: number of dimensions, products of factors,
/// known axes, and that each axis is used at most once.
Status checkLayout(const Layout &layout, const std::vector<int64_t> &shape,
                   const Mesh &mesh);

/// Calls `run(global, local, count)` for every run of consecutive elements in
/// the shard of (rank, mb): the `count` elements that start at index `global`
/// of the dense row-major array are those that start at index `local` of the
/// shard.
void forEachRun(const Layout &layout, const Mesh &mesh, int64_t rank,
                int64_t mb,
                const std::function<void(int64_t global, int64_t local,
                                         int64_t count)> &run);

/// Copies the shard of (rank, mb) out of the dense row-major array `global`
/// into `local`. Does not write the padding: fill `local` first.
void packShard(const void *global, void *local, int64_t elementBytes,
               const Layout &layout, const Mesh &mesh, int64_t rank,
               int64_t mb);

/// The reverse of packShard; skips padding.
void unpackShard(const void *local, void *global, int64_t elementBytes,
                 const Layout &layout, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Whether (rank, mb) is the first holder of this shard of a value of pipeline
/// stage `stage`: the rank belongs to that stage, and its coordinate is 0 on
/// every other axis that the layout does not mention.
bool ownsShard(const Layout &layout, const Mesh &mesh, int64_t rank, int64_t mb,
               int64_t stage = 0);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_LAYOUT_H
