//===- HostArray.h - Tensors for tests --------------------------*- C++ -*-===//
// Elements of all types are stored as double. This is exact for the integers in
// tests that compare exactly. The values of i1 are 0 and 1.
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace dpc::test {

/// A dense row-major tensor.
struct HostArray {
  std::vector<int64_t> shape;
  std::vector<double> data;

  HostArray() = default;
  explicit HostArray(std::vector<int64_t> shape, double fill = 0)
      : shape(std::move(shape)), data(count(this->shape), fill) {}

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  double &operator[](int64_t i) { return data[i]; }
  double operator[](int64_t i) const { return data[i]; }

  static int64_t count(const std::vector<int64_t> &shape) {
    int64_t n = 1;
    for (int64_t size : shape)
      n *= size;
    return n;
  }

  std::vector<int64_t> strides() const {
    std::vector<int64_t> result(shape.size());
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
      result[d] = stride;
    return result;
  }
};

/// Calls `body(index)` for every index of `shape`, in row-major order.
template <typename Body>
void forEachIndex(const std::vector<int64_t> &shape, Body body) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t left = HostArray::count(shape); left > 0; --left) {
    body(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

/// Fills padding. A result that reads padding is NaN.
inline constexpr double kPadding = std::numeric_limits<double>::quiet_NaN();

} // namespace dpc::test
