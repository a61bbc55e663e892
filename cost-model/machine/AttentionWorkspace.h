//===- AttentionWorkspace.h - Workspace of cuDNN's attention ----*- C++ -*-===//
#pragma once

#include <algorithm>
#include <cstdint>

namespace dpc::cost {

/// Returns an upper bound, in bytes, for the workspace that cuDNN needs to
/// compute the gradient of a 16-bit attention. `heads` counts the query heads
/// of all samples. The workspace holds the gradient of the queries in f32 and
/// one number per row. On sm_80 it also holds the gradients of keys and values
/// for every query head, each with as many columns as the wider of the two has,
/// twice if query heads share keys. Sequences are rounded up to tiles of 128.
/// cudnn-attention-test compares the bound with cuDNN.
inline int64_t attentionWorkspaceBytes(int64_t heads, bool sharesKeys,
                                       int64_t queries, int64_t keys,
                                       int64_t depth, int64_t valueDepth) {
  constexpr int64_t kTile = 128, kRest = 4096;
  int64_t rows = (queries + kTile - 1) / kTile * kTile,
          columns = (keys + kTile - 1) / kTile * kTile;
  int64_t copies = sharesKeys ? 2 : 1;
  return heads * (rows * (depth + 1) * 4 +
                  columns * 2 * std::max(depth, valueDepth) * 2 * copies) +
         kRest;
}

} // namespace dpc::cost
