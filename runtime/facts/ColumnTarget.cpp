//===- ColumnTarget.cpp - targets that are computed from the inputs -------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/Checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace dpc::rt {

namespace {

/// Finds two elements of a sample whose sum, difference, product or quotient is
/// the target in all samples, up to one factor.
class ColumnTarget : public SampleCheck {
public:
  static constexpr int64_t kMostColumns = 64;

  ColumnTarget(const SampleShape &shape, size_t target)
      : shape(shape), target(target) {
    for (size_t i = 0; i < shape.ports.size(); ++i)
      for (int64_t k = 0; isRead(shape, target, i) && k < shape.elements[i];
           ++k)
        columns.push_back({i, k});
  }

  /// Whether the elements of an input are columns.
  static bool isRead(const SampleShape &shape, size_t target, size_t input) {
    const Port &port = shape.ports[input];
    return input != target && isFloat(port.dtype) &&
           port.use == InputUse::Data && !port.dependence.isTarget &&
           !port.dependence.weighsLoss && !port.dependence.hidden;
  }

  void add(const SampleArrays &sample) override {
    Sample next{loadAsDouble(sample[target], shape.ports[target].dtype, 0), {}};
    for (const auto &[input, k] : columns)
      next.values.push_back(
          loadAsDouble(sample[input], shape.ports[input].dtype, k));
    ++added;
    if (added <= kFirst) {
      first.push_back(std::move(next));
      if (added == kFirst)
        findRules();
      return;
    }
    std::erase_if(rules, [&](const Rule &rule) { return !rule.holds(next); });
  }
  std::vector<std::string> texts() const override {
    if (rules.empty())
      return {};
    const Rule &rule = rules.front();
    const auto place = [&](size_t column) {
      return concat("element ", columns[column].second, " of ",
                    shape.nameOf(columns[column].first));
    };
    return {concat(shape.nameOf(target), ": in all ", added, " samples it is ",
                   place(rule.a), " ", kNames[rule.op], " ", place(rule.b),
                   std::fabs(rule.factor - 1) < kNear
                       ? std::string()
                       : ", times " + spellNumber(rule.factor),
                   ": is the target computed from the inputs?")};
  }

private:
  static constexpr int64_t kFirst = 32;
  static constexpr double kNear = 1e-4; ///< relative, of numbers in f32
  static constexpr std::array<std::string_view, 4> kNames = {"plus", "minus",
                                                             "times", "over"};
  struct Sample {
    double target;
    std::vector<double> values;
  };
  struct Rule {
    size_t a, b, op;
    double factor;

    double result(const Sample &sample) const {
      const double x = sample.values[a], y = sample.values[b];
      const std::array<double, 4> results = {x + y, x - y, x * y, x / y};
      return results[op];
    }
    /// A sum is as exact as its larger term.
    bool holds(const Sample &sample) const {
      const double size =
          op < 2 ? std::fabs(factor) * std::max(std::fabs(sample.values[a]),
                                                std::fabs(sample.values[b]))
                 : std::fabs(sample.target);
      return std::fabs(factor * result(sample) - sample.target) <= kNear * size;
    }
  };

  /// Takes the factor from the sample with the largest target.
  void findRules() {
    const auto largest = std::ranges::max_element(
        first, {}, [](const Sample &one) { return std::fabs(one.target); });
    for (size_t a = 0; a < columns.size(); ++a)
      for (size_t b = 0; b < columns.size(); ++b)
        for (size_t op = 0; op < kNames.size(); ++op) {
          const bool isSymmetric = op == 0 || op == 2;
          if (a == b || (isSymmetric && b < a))
            continue;
          Rule rule{a, b, op, 1};
          rule.factor = largest->target / rule.result(*largest);
          if (std::isfinite(rule.factor) && rule.factor != 0 &&
              usesBoth(rule) &&
              std::ranges::all_of(
                  first, [&](const Sample &one) { return rule.holds(one); }))
            rules.push_back(rule);
        }
    first.clear();
  }

  /// Whether the result is not that of one of the elements alone, which
  /// LabelLeak finds, or that of constants.
  bool usesBoth(const Rule &rule) const {
    auto varies = [&](auto value) {
      return std::ranges::any_of(first, [&](const Sample &one) {
        const double large = std::fabs(value(first.front()));
        return std::fabs(value(one) - value(first.front())) >
               100 * kNear * large;
      });
    };
    return varies([&](const Sample &one) { return one.target; }) &&
           varies([&](const Sample &one) { return one.values[rule.a]; }) &&
           varies([&](const Sample &one) { return one.values[rule.b]; }) &&
           varies([&](const Sample &one) {
             return one.target / one.values[rule.a];
           });
  }

  SampleShape shape;
  size_t target;
  std::vector<std::pair<size_t, int64_t>> columns; ///< inputs and elements
  std::vector<Sample> first;
  int64_t added = 0;
  std::vector<Rule> rules; ///< that are left
};

} // namespace

void addColumnTargets(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    if (!port.dependence.isTarget || !isFloat(port.dtype) ||
        shape.elements[i] != 1)
      continue;
    int64_t columns = 0;
    for (size_t k = 0; k < shape.ports.size(); ++k)
      columns += ColumnTarget::isRead(shape, i, k) ? shape.elements[k] : 0;
    if (columns >= 2 && columns <= ColumnTarget::kMostColumns)
      checks.push_back(std::make_unique<ColumnTarget>(shape, i));
  }
}

} // namespace dpc::rt
