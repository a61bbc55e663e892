//===- LabelLeak.h - elements that give the label away ----------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dpc::rt {

/// Finds the elements of an input that equal the label, or a linear function of
/// it, in all samples.
class LabelLeak {
public:
  LabelLeak() = default; ///< finds nothing
  /// A sample has `count` elements.
  LabelLeak(DType dtype, int64_t count);

  void add(const std::byte *sample, double label);
  /// "element 3 of a sample equals the label of 'y'", or "". Two values agree
  /// with two labels by chance, so that those need more samples.
  std::string text(const std::string &label) const;

private:
  struct Line {
    int64_t element;
    double first, slope; ///< value = first + slope * (label - firstLabel)
  };
  bool fits(Line &line, double value, double label) const;

  DType dtype = DType::F32;
  std::vector<int64_t> equal; ///< elements that are left
  std::vector<Line> lines;    ///< elements that are left
  double firstLabel = 0;
  bool hasSlopes = false; ///< whether two labels have occurred
  double secondLabel = 0; ///< that gives the slopes
  bool hasThird = false;  ///< whether three labels have occurred
  int64_t added = 0;
};

} // namespace dpc::rt
