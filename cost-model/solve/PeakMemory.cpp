//===- PeakMemory.cpp - Live bytes over time ------------------------------===//

#include "cost-model/solve/PeakMemory.h"

#include <algorithm>
#include <numeric>

namespace dpc::cost {

std::string_view stringifyMemoryCategory(MemoryCategory category) {
  constexpr std::string_view names[] = {"parameters", "gradients",
                                        "optimizer",  "activations",
                                        "workspace",  "communication"};
  return names[static_cast<int>(category)];
}

MemoryBreakdown &MemoryBreakdown::operator+=(const MemoryBreakdown &other) {
  for (int i = 0; i < numMemoryCategories; ++i)
    bytes[i] += other.bytes[i];
  return *this;
}

double MemoryBreakdown::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

static int64_t alignUp(int64_t bytes) {
  return (bytes + arenaAlignment - 1) / arenaAlignment * arenaAlignment;
}

MemoryPeak peakMemory(const std::vector<Buffer> &buffers) {
  struct Event {
    int64_t step;
    int64_t bytes; ///< Negative if a buffer was freed before this step.
  };
  std::vector<Event> events;
  for (const Buffer &buffer : buffers) {
    assert(buffer.bytes >= 0 && buffer.last >= buffer.first &&
           "a buffer has a size and a lifetime");
    int64_t bytes = alignUp(buffer.bytes);
    events.push_back({buffer.first, bytes});
    events.push_back({buffer.last + 1, -bytes});
  }
  std::ranges::sort(events, {}, [](const Event &event) {
    return std::pair(event.step, event.bytes);
  });
  MemoryPeak peak;
  int64_t live = 0;
  for (const Event &event : events) {
    live += event.bytes;
    if (live > peak.bytes) {
      peak.bytes = live;
      peak.step = event.step;
    }
  }
  for (const Buffer &buffer : buffers)
    if (buffer.first <= peak.step && peak.step <= buffer.last)
      peak.categories[buffer.category] +=
          static_cast<double>(alignUp(buffer.bytes));
  return peak;
}

} // namespace dpc::cost
