//===- TargetChecks.cpp - targets and weights of a loss -------------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/Checks.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dpc::rt {

namespace {

/// Says that rows of targets are no probabilities, although the loss multiplies
/// them by the logarithms of a softmax. Rows of counts are right for the
/// likelihood of a multinomial distribution.
class Probabilities : public SampleCheck {
public:
  Probabilities(const SampleShape &shape, size_t input)
      : port(shape.ports[input]), count(shape.elements[input]),
        name(shape.nameOf(input)), input(input) {
    for (size_t i = size_t(*port.dependence.classDim) + 1;
         i < port.globalShape.size(); ++i)
      inner *= port.globalShape[i];
    classes = port.globalShape[*port.dependence.classDim];
  }

  void add(const SampleArrays &sample) override {
    for (int64_t row = 0; row < count / classes; ++row) {
      double sum = 0, largest = 0;
      for (int64_t k = 0; k < classes; ++k) {
        const int64_t place = (row / inner * classes + k) * inner + row % inner;
        const double value = loadAsDouble(sample[input], port.dtype, place);
        sum += value;
        largest = std::max(largest, std::fabs(value));
        least = std::min(least, value);
      }
      // Rows of zeros are left out on purpose.
      if (largest == 0 || !std::isfinite(sum))
        continue;
      ++rows;
      if (std::fabs(sum - 1) <= kRounding)
        continue;
      low = wrong == 0 ? sum : std::min(low, sum);
      high = wrong == 0 ? sum : std::max(high, sum);
      ++wrong;
    }
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeastShare = 100; // 1 %
    if (rows == 0 || kLeastShare * wrong < rows)
      return {};
    std::string text =
        concat(name, ": the loss multiplies its rows of ", classes,
               " classes by the logarithms of a softmax; ",
               percent(wrong, rows), " of them do not sum to 1, but to ",
               spellNumber(low), " to ", spellNumber(high));
    if (least < 0)
      text += ", and some numbers are negative: are they scores before a "
              "softmax?";
    return {text};
  }

private:
  static constexpr double kRounding = 0.01; // of numbers of 8 bits

  Port port;
  int64_t count;
  std::string name;
  size_t input;
  int64_t inner = 1, classes;
  int64_t rows = 0, wrong = 0;
  double low = 0, high = 0, least = 0;
};

/// Says that the weights of all samples of a class are 0. Samples have one
/// label: tokens of a prompt often have no weight, and no other place.
class ClassWithoutWeight : public SampleCheck {
public:
  ClassWithoutWeight(const SampleShape &shape, size_t weights, size_t labels)
      : weightType(shape.ports[weights].dtype), port(shape.ports[labels]),
        name(shape.nameOf(weights)), labelsName(shape.nameOf(labels)),
        weights(weights), labels(labels) {}

  void add(const SampleArrays &sample) override {
    constexpr size_t kMostClasses = size_t(1) << 16;
    const auto label =
        static_cast<int64_t>(loadAsDouble(sample[labels], port.dtype, 0));
    if (label == port.ignored ||
        (classes.size() >= kMostClasses && !classes.contains(label)))
      return;
    Class &found = classes[label];
    ++found.samples;
    found.weighted += loadAsDouble(sample[weights], weightType, 0) != 0 ? 1 : 0;
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 8; // samples of a class
    for (const auto &[label, found] : classes)
      if (found.samples >= kLeast && found.weighted == 0)
        return {concat(name, " is 0 in all ", found.samples, " samples where ",
                       labelsName, " is ", label)};
    return {};
  }

private:
  struct Class {
    int64_t samples = 0, weighted = 0;
  };
  DType weightType;
  Port port;
  std::string name, labelsName;
  size_t weights, labels;
  std::map<int64_t, Class> classes;
};

} // namespace

void addTargetChecks(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const std::optional<int64_t> dim = port.dependence.classDim;
    if (dim && *dim > 0 && *dim < int64_t(port.globalShape.size()) &&
        numElements(port.globalShape) > 0 &&
        shape.elements[i] ==
            numElements(port.globalShape) / port.globalShape[0])
      checks.push_back(std::make_unique<Probabilities>(shape, i));
    for (size_t k = 0; k < shape.ports.size(); ++k)
      if (port.dependence.weighsLoss &&
          (shape.ports[k].use == InputUse::Labels ||
           shape.ports[k].use == InputUse::ShiftedLabels) &&
          isInteger(shape.ports[k].dtype) && shape.elements[i] == 1 &&
          shape.elements[k] == 1)
        checks.push_back(std::make_unique<ClassWithoutWeight>(shape, i, k));
  }
}

} // namespace dpc::rt
