//===- PeakMemory.cpp - Live bytes over time
//----------------------------------===//

#include "cost-model/solve/PeakMemory.h"

#include <algorithm>

namespace dpc::cost {

std::string_view stringifyMemoryCategory(MemoryCategory category) {
  constexpr std::string_view names[] = {"parameters", "gradients",
                                        "optimizer",  "activations",
                                        "workspace",  "communication"};
  return names[static_cast<int>(category)];
}

double MemoryBreakdown::total() const {
  double sum = 0;
  for (double part : bytes)
    sum += part;
  return sum;
}

static int64_t alignUp(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

MemoryPeak peakMemory(const std::vector<Buffer> &buffers, int64_t alignment) {
  struct Event {
    int64_t step;
    int64_t bytes; ///< Negative for a buffer freed before this step.
  };
  std::vector<Event> events;
  for (const Buffer &buffer : buffers) {
    assert(buffer.bytes >= 0 && buffer.last >= buffer.first &&
           "a buffer has a size and a lifetime");
    int64_t bytes = alignUp(buffer.bytes, alignment);
    events.push_back({buffer.first, bytes});
    events.push_back({buffer.last + 1, -bytes});
  }
  std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
    return a.step != b.step ? a.step < b.step : a.bytes < b.bytes;
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
          static_cast<double>(alignUp(buffer.bytes, alignment));
  return peak;
}

} // namespace dpc::cost
