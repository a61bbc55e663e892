//===- ElementLeak.h - elements that order or mark the labels ---*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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

/// Finds the elements of an input that count the samples.
class CounterLeak {
public:
  CounterLeak() = default; ///< finds nothing
  /// A sample has `count` elements.
  CounterLeak(DType dtype, int64_t count) : dtype(dtype), count(count) {}

  void add(const std::byte *sample);
  /// "element 3 of a sample is the number of the sample", or "".
  std::string text() const;

private:
  DType dtype = DType::F32;
  int64_t count = 0;
  int64_t added = 0;
  /// The elements that are left, with the value in the last sample.
  std::vector<std::pair<int64_t, double>> counters;
};

/// Finds the elements of an input with few values that tell the class: one
/// value that occurs exactly in the samples of one of several classes, or
/// several ones of which each occurs in one class.
class ClassLeak {
public:
  ClassLeak() = default; ///< finds nothing
  /// A sample has `count` elements.
  ClassLeak(DType dtype, int64_t count);

  void add(const std::byte *sample, double label);
  /// "element 3 of a sample is 1 exactly where the label of 'y' is 2", "element
  /// 3 of a sample has 5 values, each with one label of 'y',", or "".
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
    std::vector<Value> values = {};
    /// Returns false at one value more than `most`.
    bool add(double value, double label, size_t most);
    std::optional<size_t> exactValue(const std::map<double, int64_t> &) const;
    bool tellsClasses(size_t count) const;
  };

  DType dtype = DType::F32;
  size_t most = 0;                   ///< values of an element
  std::vector<Element> elements;     ///< that are left
  std::map<double, int64_t> classes; ///< how often each label occurs
};

} // namespace dpc::rt
