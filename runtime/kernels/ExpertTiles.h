//===- ExpertTiles.h - tiles of rows sorted by their experts ----*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/kernels/ExpertRows.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace dpc::rt {

/// Returns the ids of `op`, which are at `ids`. `own` returns the value of a
/// ScalarExpr.
template <typename Own>
ExpertIds expertIds(const Plan &plan, const ExpertTilesOp &op, Own &&own,
                    const void *ids) {
  return {ids, plan.buffers[op.ids].dtype, own(op.first),
          std::clamp<int64_t>(own(op.valid), 0, op.experts)};
}

/// A tile and the buffer of its rows in memory.
struct TileRows {
  char *rows = nullptr, *tile = nullptr;
  DType type = DType::F32, tileType = DType::F32;
  int64_t width = 0; ///< elements of a row; of both if shares is 0
  int64_t shares = 1;

  char *rowAt(int64_t row) const {
    return rows + row / shares * width * sizeOf(type);
  }
  char *tileRow(int64_t i) const { return tile + i * width * sizeOf(tileType); }
  /// Adds a row of the tile's type (or the whole tile) to one of the buffer's.
  void add(char *sum, const char *values) const;
};

/// The tiles and buffers of `op` in memory.
struct TileMemory {
  /// Fills the buffers to which the op adds with zeros.
  TileMemory(const Plan &plan, const ExpertTilesOp &op,
             const std::function<char *(int)> &data);

  /// Fills the tiles with -1 and zeros from row `begin` on.
  void clearFrom(int64_t begin, int64_t tileRows);
  void setId(int64_t i, int64_t id) {
    if (idType == DType::I64)
      reinterpret_cast<int64_t *>(ids)[i] = id;
    else
      reinterpret_cast<int32_t *>(ids)[i] = static_cast<int32_t>(id);
  }
  /// Adds the sums of whole tiles.
  void addWhole() const;

  char *ids; ///< of a tile
  DType idType;
  std::vector<TileRows> takes, adds;
};

/// The rows of this rank's experts, and the tiles that the body ran on.
struct ExpertCounts {
  int64_t rows = 0, tiles = 0;
};

/// Runs `op` on the rows with `ids`, and adds to `counts`. `data` returns the
/// address of a buffer, and `runBody` runs the body once.
Status runExpertTiles(const Plan &plan, const ExpertTilesOp &op,
                      const ExpertIds &ids,
                      const std::function<char *(int)> &data,
                      const std::function<Status()> &runBody,
                      ExpertCounts &counts);

} // namespace dpc::rt
