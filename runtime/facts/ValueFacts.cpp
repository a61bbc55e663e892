#include "runtime/facts/ValueFacts.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

namespace dpc::rt {

ValueFacts::ValueFacts(const Port &port, int64_t count) : dtype(port.dtype) {
  constexpr int64_t kMostElements = 1024; // larger samples have no columns
  if ((dtype == DType::F32 || port.dependence.convertedTo) &&
      port.use == InputUse::Data && count <= kMostElements)
    values.resize(count);
}

void ValueFacts::add(const std::byte *sample) {
  constexpr int64_t kMostSamples = 4096;
  constexpr size_t kMostValues = 64;
  if (added++ >= kMostSamples)
    return;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = loadAsDouble(sample, dtype, static_cast<int64_t>(i));
    auto place = std::ranges::lower_bound(values[i], value);
    if (std::isfinite(value) && values[i].size() < kMostValues &&
        (place == values[i].end() || *place != value))
      values[i].insert(place, value);
  }
}

static size_t countIn(DType type, const std::vector<double> &values) {
  std::set<double> rounded;
  for (double value : values) {
    std::array<std::byte, 8> bytes;
    storeFromDouble(bytes.data(), type, 0, value);
    rounded.insert(loadAsDouble(bytes.data(), type, 0));
  }
  return rounded.size();
}

std::string ValueFacts::text(const std::string &name, DType as) const {
  constexpr size_t kLeast = 16, kMostLeft = 8;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<double> &some = values[i];
    size_t left = some.size() < kLeast ? kLeast : countIn(as, some);
    if (left > kMostLeft)
      continue;
    char range[64];
    std::snprintf(range, sizeof range, "%.10g to %.10g", some.front(),
                  some.back());
    return concat("input '", oneLine(name), "': ", some.size(),
                  " values of element ", i, " of a sample (", range,
                  ") become ", left, " in ", nameOf(as),
                  ", in which the plan computes from it");
  }
  return "";
}

} // namespace dpc::rt
