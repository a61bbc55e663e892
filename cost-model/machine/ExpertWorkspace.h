//===- ExpertWorkspace.h - Workspace of products of experts -----*- C++ -*-===//
#pragma once

#include <cstdint>

namespace dpc::cost {

/// Returns the bytes of the workspace of a product of `rows` rows with
/// `experts` experts (rt::ExpertTile): 16 for each 128 rows and each expert, 8
/// for each expert, and 4 for each row.
constexpr int64_t expertWorkspaceBytes(int64_t rows, int64_t experts) {
  return 16 * (rows / 128 + experts + 1) + 8 * (experts + 1) + 4 * rows;
}

} // namespace dpc::cost
