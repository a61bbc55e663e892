//===- SampleValues.h - samples for the checks of data ----------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/base/Random.h"
#include "runtime/facts/Checks.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

using Strings = std::vector<std::string>;
/// Returns element k of an input of a sample.
using Value = std::function<double(int64_t sample, int64_t k)>;

inline Port portOf(const std::string &name, DType dtype,
                   std::vector<int64_t> shape) {
  return {name, 0, dtype, std::move(shape), {}, 0};
}

/// Calls visit() with each of `samples` samples of `ports`.
template <typename Visit>
void visitSamples(const std::vector<Port> &ports,
                  const std::vector<Value> &values, int64_t samples,
                  const Visit &visit) {
  std::vector<HostTensor> arrays;
  SampleArrays sample;
  for (const Port &port : ports) {
    std::vector<int64_t> shape = port.globalShape;
    shape.front() = 1;
    arrays.push_back(HostTensor::zeros(port.dtype, shape));
  }
  for (HostTensor &array : arrays)
    sample.push_back(array.data.data());
  for (int64_t i = 0; i < samples; ++i) {
    for (size_t input = 0; input < arrays.size(); ++input)
      for (int64_t k = 0; k < arrays[input].elements(); ++k)
        arrays[input].set(k, values[input](i, k));
    visit(sample);
  }
}

inline SampleShape shapeOf(const std::vector<Port> &ports) {
  SampleShape shape{ports, {}};
  for (const Port &port : ports)
    shape.elements.push_back(numElements(port.globalShape) /
                             port.globalShape.front());
  return shape;
}

inline Strings textsOf(const std::vector<Port> &ports,
                       const std::vector<Value> &values, int64_t samples = 64) {
  SampleChecks checks = sampleChecks(shapeOf(ports));
  visitSamples(ports, values, samples, [&](const SampleArrays &sample) {
    for (const auto &check : checks)
      check->add(sample);
  });
  Strings texts;
  for (const auto &check : checks)
    for (const Strings &some : {check->texts(), check->orderTexts()})
      texts.insert(texts.end(), some.begin(), some.end());
  return texts;
}

inline double normal(int64_t sample, int64_t k) {
  static const RandomStream kStream(1, "checks");
  return kStream.normal(uint64_t(sample) * 1000 + uint64_t(k));
}
inline int64_t drawn(int64_t sample, int64_t k) {
  static const RandomStream kStream(2, "checks");
  return 2 + int64_t(kStream.bits(uint64_t(sample) * 1000 + uint64_t(k)) % 60);
}

} // namespace dpc::rt
