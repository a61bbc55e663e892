//===- ColumnTarget.cpp - targets that are computed from the inputs -------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/Checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

namespace dpc::rt {

namespace {

constexpr int64_t kMostColumns = 64;

/// The elements of a sample that may give a target, and their names.
class Columns {
public:
  Columns(const SampleShape &shape, size_t target) : shape(shape) {
    for (size_t i = 0; i < shape.ports.size(); ++i)
      for (int64_t k = 0; isRead(shape, target, i) && k < shape.elements[i];
           ++k)
        places.emplace_back(i, k);
  }

  size_t count() const { return places.size(); }
  std::vector<double> values(const SampleArrays &sample) const {
    std::vector<double> result;
    result.reserve(places.size());
    for (const auto &[input, k] : places)
      result.push_back(
          loadAsDouble(sample[input], shape.ports[input].dtype, k));
    return result;
  }
  std::string nameOf(size_t column) const {
    return concat("element ", places[column].second, " of ",
                  shape.nameOf(places[column].first));
  }
  /// "the sum of elements 3 to 5 of input 'x'"
  std::string sumText(size_t first, size_t last) const {
    return concat("the sum of elements ", places[first].second, " to ",
                  places[last].second, " of ",
                  shape.nameOf(places[first].first));
  }
  bool areOfOneInput(size_t a, size_t b) const {
    return places[a].first == places[b].first;
  }

private:
  static bool isRead(const SampleShape &shape, size_t target, size_t input) {
    const Port &port = shape.ports[input];
    return input != target && isFloat(port.dtype) &&
           port.use == InputUse::Data && !port.dependence.isTarget &&
           !port.dependence.weighsLoss && !port.dependence.hidden;
  }

  SampleShape shape;
  std::vector<std::pair<size_t, int64_t>> places; ///< inputs and elements
};

/// Finds two elements of a sample whose sum, difference, product or quotient is
/// the target in all samples, up to one factor, or several successive elements
/// whose sum is.
class ColumnTarget : public SampleCheck {
public:
  ColumnTarget(const SampleShape &shape, size_t target)
      : columns(shape, target), type(shape.ports[target].dtype),
        name(shape.nameOf(target)), target(target) {}

  void add(const SampleArrays &sample) override {
    Sample next{loadAsDouble(sample[target], type, 0), columns.values(sample)};
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
    const std::string terms =
        rule.op == Op::Run
            ? columns.sumText(rule.a, rule.b)
            : concat(columns.nameOf(rule.a), " ", kNames[size_t(rule.op)], " ",
                     columns.nameOf(rule.b));
    return {concat(name, ": in all ", added, " samples it is ", terms,
                   std::fabs(rule.factor - 1) < kNear
                       ? std::string()
                       : ", times " + spellNumber(rule.factor),
                   ": is the target computed from the inputs?")};
  }

private:
  static constexpr int64_t kFirst = 32;
  static constexpr double kNear = 1e-4; ///< relative, of numbers in f32
  enum class Op { Plus, Minus, Times, Over, Run };
  static constexpr std::array kOps = {Op::Plus, Op::Minus, Op::Times, Op::Over,
                                      Op::Run};
  static constexpr std::array kNames = {"plus", "minus", "times", "over"};
  struct Sample {
    double target;
    std::vector<double> values;
  };
  struct Rule {
    size_t a, b;
    Op op;
    double factor;

    double result(const Sample &sample) const {
      const double x = sample.values[a], y = sample.values[b];
      switch (op) {
      case Op::Plus:
        return x + y;
      case Op::Minus:
        return x - y;
      case Op::Times:
        return x * y;
      case Op::Over:
        return x / y;
      case Op::Run:
        return std::accumulate(sample.values.begin() + int64_t(a),
                               sample.values.begin() + int64_t(b) + 1, 0.0);
      }
      return 0;
    }
    /// Whether another rule computes the same.
    bool isRedundant(const Columns &columns) const {
      if (op == Op::Run)
        return b < a + 2 || !columns.areOfOneInput(a, b);
      return a == b || ((op == Op::Plus || op == Op::Times) && b < a);
    }
    /// A sum is as exact as its larger term.
    bool holds(const Sample &sample) const {
      const bool multiplies = op == Op::Times || op == Op::Over;
      const double size =
          multiplies
              ? std::fabs(sample.target)
              : std::fabs(factor) * std::max(std::fabs(sample.values[a]),
                                             std::fabs(sample.values[b]));
      return std::fabs(factor * result(sample) - sample.target) <= kNear * size;
    }
  };

  /// Takes the factor from the sample with the largest target.
  void findRules() {
    const auto largest = std::ranges::max_element(
        first, {}, [](const Sample &one) { return std::fabs(one.target); });
    for (size_t a = 0; a < columns.count(); ++a)
      for (size_t b = 0; b < columns.count(); ++b)
        for (Op op : kOps) {
          Rule rule{a, b, op, 1};
          if (rule.isRedundant(columns))
            continue;
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

  Columns columns;
  DType type;
  std::string name;
  size_t target;
  std::vector<Sample> first;
  int64_t added = 0;
  std::vector<Rule> rules; ///< that are left
};

/// Finds two elements of a sample of which the larger one tells the label,
/// which has two values.
class LargerColumn : public SampleCheck {
public:
  LargerColumn(const SampleShape &shape, size_t label)
      : columns(shape, label), type(shape.ports[label].dtype),
        name(shape.nameOf(label)), label(label) {
    for (size_t a = 0; a < columns.count(); ++a)
      for (size_t b = 0; b < columns.count(); ++b)
        if (a != b)
          pairs.emplace_back(a, b);
  }

  void add(const SampleArrays &sample) override {
    const double value = loadAsDouble(sample[label], type, 0);
    first = added++ == 0 ? value : first;
    if (value != first) {
      other = other.value_or(value);
      ++others;
    }
    if (value != first && value != other)
      pairs.clear();
    if (pairs.empty())
      return;
    const std::vector<double> values = columns.values(sample);
    std::erase_if(pairs, [&](const auto &pair) {
      return value == first ? !(values[pair.first] > values[pair.second])
                            : !(values[pair.first] <= values[pair.second]);
    });
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 16; // samples with each value
    if (pairs.empty() || std::min(others, added - others) < kLeast)
      return {};
    return {concat(name, " is ", spellNumber(first), " exactly where ",
                   columns.nameOf(pairs.front().first), " is larger than ",
                   columns.nameOf(pairs.front().second), ", in all ", added,
                   " samples: is the label computed from the inputs?")};
  }

private:
  Columns columns;
  DType type;
  std::string name;
  size_t label;
  int64_t added = 0, others = 0;
  double first = 0;            ///< the label of the first sample
  std::optional<double> other; ///< the other label
  /// That are left: a is larger where the label is `first`.
  std::vector<std::pair<size_t, size_t>> pairs;
};

} // namespace

void addColumnTargets(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const auto columns = static_cast<int64_t>(Columns(shape, i).count());
    if (shape.elements[i] != 1 || columns < 2 || columns > kMostColumns)
      continue;
    const bool isTarget = port.dependence.isTarget && isFloat(port.dtype);
    if (isTarget || port.use == InputUse::Labels ||
        port.use == InputUse::Probabilities)
      checks.push_back(std::make_unique<LargerColumn>(shape, i));
    if (isTarget && port.use == InputUse::Data)
      checks.push_back(std::make_unique<ColumnTarget>(shape, i));
  }
}

} // namespace dpc::rt
