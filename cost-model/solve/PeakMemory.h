//===- PeakMemory.h - Live bytes over time, and offsets in an arena -*- C++ -*-===//
//
// Two different computations over the same buffers, so that one checks the
// other: `peakMemory` is the largest sum of live bytes over the steps (no
// packing can be below it); `packBuffers` assigns offsets (the arena).
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
  double total() const;
};

/// A named use of memory; the name is the index in the caller's list.
struct Buffer {
  int64_t bytes = 0;
  MemoryCategory category = MemoryCategory::Activations;
  int64_t first = 0; ///< First step it is live in.
  int64_t last = 0;  ///< Last step it is live in; >= first.
};

/// The most demanding moment of a schedule.
struct MemoryPeak {
  int64_t bytes = 0;
  int64_t step = 0; ///< The first step with that sum.
  MemoryBreakdown categories;
};

/// The peak of the live sums; each buffer counts with its size rounded up to
/// `alignment`, as the arena does. O(n log n).
MemoryPeak peakMemory(const std::vector<Buffer> &buffers,
                      int64_t alignment = 64);

/// Buffers that must lie one after the other in this order, without a gap
/// other than alignment (gradients of one bucket). A bundle occupies memory
/// from its members' first to their last step.
using Bundle = std::vector<uint32_t>;

/// Offsets of buffers in one arena.
struct Packing {
  std::vector<int64_t> offsets; ///< Per buffer, a multiple of the alignment.
  int64_t bytes = 0;            ///< Arena size.
};

/// Places buffers so that no two live at the same time overlap. Tries several
/// orders and keeps the smallest arena; deterministic. Size 0 takes no space.
/// Fails on a negative size, last < first, or a buffer in two bundles.
Expected<Packing> packBuffers(const std::vector<Buffer> &buffers,
                            const std::vector<Bundle> &bundles = {},
                            int64_t alignment = 64);

/// Tests a packing: alignment, bounds, bundles, and that live buffers are
/// disjoint. The message names the two buffers.
Status verifyPacking(const std::vector<Buffer> &buffers,
                     const std::vector<Bundle> &bundles, const Packing &packing,
                     int64_t alignment = 64);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SOLVE_PEAKMEMORY_H
