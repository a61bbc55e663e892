//===- ArrayFacts.h - the values of one input of a run's data ---*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The values of one input, as the plan reads them.
struct ArrayFacts {
  struct Place {
    int64_t row, element; ///< 0-based; the element is one of the row
    double value;
  };

  Port port;
  int64_t elements = 0;
  int64_t counted = 0; ///< elements in min, max and sum
  double min = 0, max = 0, sum = 0, squares = 0;
  /// How often the smallest and the largest value occur, and the next ones.
  int64_t minCount = 0, maxCount = 0;
  double aboveMin = 0, belowMax = 0;
  int64_t outside = 0;       ///< elements that no score reaches (Dependence)
  int64_t ignored = 0;       ///< elements that equal Port::ignored
  int64_t minusInfinite = 0; ///< a mask that a softmax adds holds them
  std::optional<Place> bad = std::nullopt; ///< the first NaN or +Inf
  /// Rows whose elements are all ignored, in ascending order.
  std::vector<int64_t> ignoredRows = {};
  /// How often each label occurs, from Port::first on.
  std::vector<int64_t> occurrences = {};

  /// Adds a row of `count` elements, which have the type of the port.
  void add(int64_t row, const void *data, int64_t count);
  /// "input 'x': -3.1 to 2.9, mean 0.01"
  std::string text() const;
  /// Says that many labels have the value that the ignored label gets in the
  /// type `stored` of the file, or "".
  std::string wrappedText(DType stored) const;
  /// Says that a number is infinite in fp16, or "". Those of a mask without
  /// positive numbers may be.
  std::string overflowText() const;

private:
  void count(double value);
  std::string hiddenText() const;
  std::string codeText() const;
  std::string outsideText() const;
  std::string weightText() const;
  std::string normalizedText() const;
  std::string zeroText() const;
};

} // namespace dpc::rt
