//===- ExpertRows.h - rows sorted by their experts --------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <vector>

namespace dpc::rt {

/// The ids of rows, and the experts of the rank: those from `first` to first +
/// valid - 1.
struct ExpertIds {
  const void *ids = nullptr;
  DType type = DType::I64; ///< or I32
  int64_t first = 0, valid = 0;

  int64_t operator[](int64_t row) const {
    return type == DType::I64 ? static_cast<const int64_t *>(ids)[row]
                              : static_cast<const int32_t *>(ids)[row];
  }
};

/// The rows of each expert of the rank, in ascending order.
class RowsOfExperts {
public:
  RowsOfExperts(const ExpertIds &ids, int64_t rows, int64_t experts)
      : ends(experts + 1), local(rows) {
    for (int64_t r = 0; r < rows; ++r) {
      local[r] = localOf(ids, r);
      if (local[r] >= 0)
        ++ends[local[r] + 1];
    }
    for (int64_t e = 0; e < experts; ++e)
      ends[e + 1] += ends[e];
    sorted.resize(ends.back());
    std::vector<int64_t> next(ends.begin(), ends.end() - 1);
    for (int64_t r = 0; r < rows; ++r)
      if (local[r] >= 0)
        sorted[next[local[r]]++] = r;
  }

  /// The positions of the rows of `expert`, a local number.
  int64_t begin(int64_t expert) const { return ends[expert]; }
  int64_t end(int64_t expert) const { return ends[expert + 1]; }
  /// The number of positions.
  int64_t size() const { return ends.back(); }
  /// Returns the row at `position`.
  int64_t operator[](int64_t position) const { return sorted[position]; }
  bool isOnRank(int64_t row) const { return local[row] >= 0; }

private:
  /// Returns the position of a row's expert on this rank, or -1.
  static int64_t localOf(const ExpertIds &ids, int64_t row) {
    int64_t id = ids[row];
    return id >= ids.first && id < ids.first + ids.valid ? id - ids.first : -1;
  }

  std::vector<int64_t> ends;   ///< of the experts' ranges of `sorted`, after 0
  std::vector<int64_t> local;  ///< the expert of each row, or -1
  std::vector<int64_t> sorted; ///< rows
};

} // namespace dpc::rt
