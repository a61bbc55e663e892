//===- PlanExperts.h - The order of rows by their experts -------*- C++ -*-===//
#pragma once

#include <cstdint>

namespace dpc::rt {

/// On GPUs, the workspace of an ExpertMatmulOp holds the order of its rows.
/// Group e < experts has the rows of the rank's expert e, and the last group
/// those of other experts. Within a group, rows ascend. The arrays follow each
/// other in this order:
///
///   tiles  [expertTiles()]  parts of groups of at most kExpertTileRows rows
///   groups [experts + 1]    positions in `order`
///   order  [rows], i32      rows, group by group
///
/// Group g owns the tiles from begin / kExpertTileRows + g to end /
/// kExpertTileRows + g, where begin and end are its positions. Thus the number
/// of tiles does not depend on the ids, and each tile has one owner. A tile
/// that its group does not need is empty.
struct ExpertTile {
  int32_t group = 0, begin = 0, end = 0, unused = 0;
};
struct ExpertGroup {
  int32_t begin = 0, end = 0;
};

inline constexpr int64_t kExpertTileRows = 128;

constexpr int64_t expertTiles(int64_t rows, int64_t experts) {
  return rows / kExpertTileRows + experts + 1;
}
constexpr int64_t expertGroupsOffset(int64_t rows, int64_t experts) {
  return expertTiles(rows, experts) * static_cast<int64_t>(sizeof(ExpertTile));
}
constexpr int64_t expertOrderOffset(int64_t rows, int64_t experts) {
  return expertGroupsOffset(rows, experts) +
         (experts + 1) * static_cast<int64_t>(sizeof(ExpertGroup));
}
constexpr int64_t expertWorkspaceBytes(int64_t rows, int64_t experts) {
  return expertOrderOffset(rows, experts) +
         rows * static_cast<int64_t>(sizeof(int32_t));
}

} // namespace dpc::rt
