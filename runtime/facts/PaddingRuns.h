//===- PaddingRuns.h - runs of one id at the ends of samples ----*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace dpc::rt {

/// Counts the runs of one id with which samples begin or end. Runs of different
/// lengths whose id is rare elsewhere are probably padding.
class PaddingRuns {
public:
  /// The id and whether samples end, instead of begin, in it.
  using Key = std::pair<int64_t, bool>;
  struct Run {
    Key key;
    int64_t length; ///< from 2 on, and less than the sample
  };

  /// Adds a sample of `count` ids and returns its runs.
  std::vector<Run> add(const std::byte *ids, DType dtype, int64_t count);

  int64_t samples() const { return added; }
  /// The number of samples with this run.
  int64_t samplesOf(const Key &key) const;
  /// Whether enough samples have this run, with different lengths.
  bool isPadding(const Key &key) const;
  /// The keys of which isPadding() is true.
  std::vector<Key> padding() const;

private:
  struct Count {
    int64_t samples = 0;
    int64_t inside = 0;        ///< the same id elsewhere in these samples
    std::set<int64_t> lengths; ///< the first different ones
  };

  int64_t added = 0;
  std::map<Key, Count> counts;
};

} // namespace dpc::rt
