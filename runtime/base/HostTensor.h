//===- HostTensor.h - a dense array in host memory --------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <string>
#include <vector>

namespace dpc::rt {

/// A dense row-major array that owns its bytes.
struct HostTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  /// A tensor of zeros.
  static HostTensor zeros(DType dtype, std::vector<int64_t> shape);

  int64_t elements() const { return numElements(shape); }
  double at(int64_t index) const {
    return loadAsDouble(data.data(), dtype, index);
  }
  void set(int64_t index, double value) {
    storeFromDouble(data.data(), dtype, index, value);
  }
};

/// Returns the type of a tensor as text for messages: "f32[8, 64]".
std::string describe(DType dtype, const std::vector<int64_t> &shape);

/// Copies `count` elements and converts them if the types differ.
void convertElements(const void *from, DType fromType, void *to, DType toType,
                     int64_t count);

} // namespace dpc::rt
