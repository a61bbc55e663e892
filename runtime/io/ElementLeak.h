//===- ElementLeak.h - elements that order or mark the labels ---*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// Finds the elements of an input that rise, or fall, with the label in all
/// samples, such as its exponential.
class RankLeak {
public:
  RankLeak() = default; ///< finds nothing
  /// A sample has `count` elements.
  RankLeak(DType dtype, int64_t count) : dtype(dtype), count(count) {}

  void add(const std::byte *sample, double label);
  /// "element 3 of a sample rises with the label of 'y'", or "".
  std::string text(const std::string &label) const;

private:
  /// Values by label.
  struct Curve {
    int64_t element;
    double sign; ///< 1: rises, -1: falls
    std::map<double, double> points;
    bool accepts(double label, double value);
  };
  void findCurves();

  DType dtype = DType::F32;
  int64_t count = 0;
  int64_t added = 0;
  /// The labels and values of the first samples.
  std::vector<std::pair<double, std::vector<double>>> first;
  std::vector<Curve> curves; ///< that are left
};

/// Finds the elements of an input with two values, of which one occurs exactly
/// in the samples of one of several classes.
class ClassLeak {
public:
  ClassLeak() = default; ///< finds nothing
  /// A sample has `count` elements.
  ClassLeak(DType dtype, int64_t count);

  void add(const std::byte *sample, double label);
  /// "element 3 of a sample is 1 exactly where the label of 'y' is 2", or "".
  std::string text(const std::string &label) const;

private:
  struct Value {
    double value = 0;
    double label = 0; ///< of the first sample with the value
    int64_t samples = 0;
    bool hasOneLabel = true;
  };
  struct Element {
    int64_t index;
    std::array<Value, 2> values = {};
    /// Returns false at a third value.
    bool add(double value, double label);
  };

  DType dtype = DType::F32;
  std::vector<Element> elements;     ///< that are left
  std::map<double, int64_t> classes; ///< how often each label occurs
};

} // namespace dpc::rt
