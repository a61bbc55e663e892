//===- SmallIntegers.h - random tensors with exact sums ---------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"

#include <random>

namespace dpc::rt {

/// Returns integers from -3 to 3. Sums of their products are exact in any
/// order.
inline HostTensor smallIntegers(int64_t count, DType type, unsigned seed) {
  HostTensor tensor = HostTensor::zeros(type, {count});
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, static_cast<double>(random() % 7) - 3);
  return tensor;
}

} // namespace dpc::rt
