//===- Layout.h - how a global array lies on a mesh -------------*- C++ -*-===//
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
// Data-parallel ranks may have unlike numbers of micro-batches. The batch is
// still cut evenly, into a cell for each of D data ranks and M micro-batches,
// numbered row-major; only who works on a cell differs: data rank d with its
// micro-batch m on cell s0 + .. + s(d-1) + m instead of d * M + m. So a factor
// that "mb" splits is split by all data axes too, and c above is the cell's.
//
// Example: D = 2, M = 2 and shares 3, 1: cells 0, 1, 2 | 3.
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

/// Name of the time axis: micro-batches of one step. It is not a rank axis.
inline constexpr const char *kMicroBatchAxis = "mb";
/// Name of the rank axis of pipeline stages: they hold different parts of the
/// model, so no layout mentions it.
inline constexpr const char *kPipelineAxis = "pp";

/// Whether `axis` is one of data-parallel ranks: "dp", or "dpi" inside of it.
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
  /// By data rank (row-major over the data axes): its micro-batches, where
  /// these are unlike numbers. They add up to `microBatches` for each data
  /// rank. Empty: `microBatches` each.
  std::vector<int64_t> batchShares = {};
  bool operator==(const Mesh &) const = default;

  /// Product of the data axes.
  int64_t dataRanks() const;
  /// The linear coordinate of `rank` along the data axes.
  int64_t dataRankOf(int64_t rank) const;
  /// How many micro-batches `rank` has, and the most that any has.
  int64_t microBatchesOf(int64_t rank) const;
  int64_t mostMicroBatches() const;
  /// Like coordinate(), of the cell that `rank` works on in micro-batch `mb`:
  /// along the data axes and "mb" another one where shares are unlike.
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
  /// The stage that `rank` is of.
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
  int64_t capacity = 0; ///< elements a shard has room for
};

/// Coordinate along `axis`, one of `axes` that together split something: of the
/// cell where they have "mb" among them, else of `rank`.
int64_t coordinateAmong(const std::vector<std::string> &axes,
                        const std::string &axis, const Mesh &mesh, int64_t rank,
                        int64_t mb);

/// The formula above.
FactorShard shardOf(int64_t size, const std::vector<std::string> &axes,
                    const Mesh &mesh, int64_t rank, int64_t mb);

/// Extents of every shard, padding included. Each dimension is the product of
/// the local sizes of its factors.
std::vector<int64_t> localShape(const Layout &layout, const Mesh &mesh);

/// Where ranks have unlike shares of the batch, what is split by "mb" must be
/// split by all data axes as well: `axes` split one factor.
Status checkCells(const std::vector<std::string> &axes, const Mesh &mesh);

/// Checks `layout` against `shape`: rank, factor products, known axes, each
/// axis used at most once.
Status checkLayout(const Layout &layout, const std::vector<int64_t> &shape,
                   const Mesh &mesh);

/// Calls `run(global, local, count)` for every run of consecutive elements of
/// the shard of (rank, mb): `count` elements from index `global` of the dense
/// row-major array lie from index `local` of the shard on.
void forEachRun(const Layout &layout, const Mesh &mesh, int64_t rank,
                int64_t mb,
                const std::function<void(int64_t global, int64_t local,
                                         int64_t count)> &run);

/// Copies the shard of (rank, mb) out of the dense row-major array `global`
/// into `local`. Padding is left as it is: fill `local` first.
void packShard(const void *global, void *local, int64_t elementBytes,
               const Layout &layout, const Mesh &mesh, int64_t rank,
               int64_t mb);

/// The reverse; padding is skipped.
void unpackShard(const void *local, void *global, int64_t elementBytes,
                 const Layout &layout, const Mesh &mesh, int64_t rank,
                 int64_t mb);

/// Whether (rank, mb) is the first of all that hold this shard of a value of
/// pipeline stage `stage`: it is of that stage, and its coordinate is 0 on
/// every other axis the layout does not mention.
bool ownsShard(const Layout &layout, const Mesh &mesh, int64_t rank, int64_t mb,
               int64_t stage = 0);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_LAYOUT_H
