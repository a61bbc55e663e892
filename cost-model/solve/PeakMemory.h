//===- PeakMemory.h - Live bytes over time, offsets in an arena -*- C++ -*-===//
//
// `peakMemory` computes the largest sum of live bytes in any step, a lower
// bound for the arena in which `packBuffers` places the buffers. A buffer is
// live in the steps first..last, both included.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::cost {

/// The categories of memory_bytes in report.json.
enum class MemoryCategory {
  Parameters,
  Gradients,
  Optimizer,
  Activations,
  Workspace,
  Communication
};
inline constexpr int numMemoryCategories = 6;

std::string_view stringifyMemoryCategory(MemoryCategory category);

struct MemoryBreakdown {
  std::array<double, numMemoryCategories> bytes{};

  double &operator[](MemoryCategory category) {
    return bytes[static_cast<int>(category)];
  }
  double operator[](MemoryCategory category) const {
    return bytes[static_cast<int>(category)];
  }
  MemoryBreakdown &operator+=(const MemoryBreakdown &other);
  double total() const;
};

struct Buffer {
  int64_t bytes = 0;
  MemoryCategory category = MemoryCategory::Activations;
  int64_t first = 0; ///< The first step in which the buffer is live.
  int64_t last = 0;  ///< The last step in which the buffer is live; >= first.
};

struct MemoryPeak {
  int64_t bytes = 0;
  int64_t step = 0; ///< The first step with this many live bytes.
  MemoryBreakdown categories;
};

/// In bytes.
inline constexpr int64_t arenaAlignment = 64;

/// Returns the largest sum of live bytes, with the size of each buffer rounded
/// up to `arenaAlignment`. O(n log n).
MemoryPeak peakMemory(const std::vector<Buffer> &buffers);

struct Packing {
  std::vector<int64_t> offsets; ///< By buffer; multiples of arenaAlignment.
  int64_t bytes = 0;
};

/// Places buffers so that no two of them overlap while both are live. Tries
/// several orders and keeps the smallest arena. The result is deterministic.
Packing packBuffers(const std::vector<Buffer> &buffers);

} // namespace dpc::cost
