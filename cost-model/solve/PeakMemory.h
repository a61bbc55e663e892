//===- PeakMemory.h - Live bytes over time, offsets in an arena -*- C++ -*-===//
//
// `peakMemory` computes the largest sum of live bytes in any step, and
// `packBuffers` assigns offsets in an arena. The first result checks the
// second, because it is a lower bound for every packing.
//
// A buffer is live in the steps first..last, both included.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SOLVE_PEAKMEMORY_H
#define DPC_COST_MODEL_SOLVE_PEAKMEMORY_H

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::cost {

/// Categories of report.json's memory_bytes.
enum class MemoryCategory {
  Parameters,
  Gradients,
  Optimizer,
  Activations,
  Workspace,
  Communication
};
inline constexpr int numMemoryCategories = 6;

/// The name in report.json: "parameters", ...
std::string_view stringifyMemoryCategory(MemoryCategory category);

/// Bytes per category.
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

/// A buffer; its name is its index in the caller's list.
struct Buffer {
  int64_t bytes = 0;
  MemoryCategory category = MemoryCategory::Activations;
  int64_t first = 0; ///< The first step in which it is live.
  int64_t last = 0;  ///< The last step in which it is live; >= first.
};

/// The step with the most live bytes.
struct MemoryPeak {
  int64_t bytes = 0;
  int64_t step = 0; ///< The first step with this many live bytes.
  MemoryBreakdown categories;
};

/// The alignment of buffers in an arena, in bytes.
inline constexpr int64_t arenaAlignment = 64;

/// The largest sum of live bytes. The size of each buffer is rounded up to
/// `arenaAlignment`. O(n log n).
MemoryPeak peakMemory(const std::vector<Buffer> &buffers);

/// Offsets of buffers in one arena.
struct Packing {
  std::vector<int64_t> offsets; ///< Per buffer, multiples of arenaAlignment.
  int64_t bytes = 0;            ///< The size of the arena.
};

/// Places buffers so that no two of them overlap while both are live. Tries
/// several orders and keeps the smallest arena; deterministic.
Packing packBuffers(const std::vector<Buffer> &buffers);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SOLVE_PEAKMEMORY_H
