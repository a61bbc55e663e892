//===- Columns.h - the numbers that describe a sample -----------*- C++ -*-===//
#pragma once

#include "runtime/facts/SampleCheck.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// The elements of a sample from which a model computes, and their names.
class Columns {
public:
  /// More elements are too slow to compare with each other.
  static constexpr int64_t kMost = 64;

  /// Without the input `target`, which may be none.
  Columns(const SampleShape &shape, size_t target);

  /// Returns the number of columns, without a list of them.
  static int64_t countIn(const SampleShape &shape, size_t target);
  size_t count() const { return places.size(); }
  std::vector<double> values(const SampleArrays &sample) const;
  std::string nameOf(size_t column) const;
  /// "the sum of elements 3 to 5 of input 'x'"
  std::string sumText(size_t first, size_t last) const;
  bool areOfOneInput(size_t a, size_t b) const {
    return places[a].first == places[b].first;
  }

private:
  SampleShape shape;
  std::vector<std::pair<size_t, int64_t>> places; ///< inputs and elements
};

} // namespace dpc::rt
