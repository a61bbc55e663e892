//===- ColumnChecks.cpp - elements that give a target or each other -------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/Columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace dpc::rt {

namespace {

/// Finds two elements of a sample whose sum, difference, product or quotient is
/// the target in all samples, up to one factor, or several successive elements
/// whose sum is.
class ColumnTarget : public SampleCheck {
public:
  ColumnTarget(const SampleShape &shape, size_t target)
      : columns(shape, target), type(shape.ports[target].dtype),
        name(shape.nameOf(target)), target(target) {}

  void add(const SampleArrays &sample) override {
    if (added >= kFirst && rules.empty())
      return;
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
    double usual = 0; ///< the median size of the target

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
    /// A sum or a difference may be no more than what the rounding of its terms
    /// leaves.
    double rounding(const Sample &sample) const {
      constexpr double kRoundings = 4;
      if (op == Op::Times || op == Op::Over)
        return 0;
      double size = 0;
      for (size_t i = a; op == Op::Run && i <= b; ++i)
        size += std::fabs(sample.values[i]);
      if (op != Op::Run)
        size = std::fabs(sample.values[a]) + std::fabs(sample.values[b]);
      return kRoundings * std::numeric_limits<float>::epsilon() * size;
    }
    /// Whether the result is far above its rounding, so that it gives a factor.
    bool isExact(const Sample &sample) const {
      constexpr double kLeast = 1000; // roundings
      return std::fabs(result(sample)) > kLeast * rounding(sample);
    }
    bool holds(const Sample &sample) const {
      return std::fabs(factor * result(sample) - sample.target) <=
             kNear * std::max(std::fabs(sample.target), usual) +
                 std::fabs(factor) * rounding(sample);
    }
  };

  /// Takes the factor from the sample with the largest target.
  void findRules() {
    if (!std::ranges::all_of(first, [](const Sample &one) {
          return std::isfinite(one.target);
        })) {
      first.clear();
      return;
    }
    const auto largest = std::ranges::max_element(
        first, {}, [](const Sample &one) { return std::fabs(one.target); });
    const double usual = medianTarget();
    for (size_t a = 0; a < columns.count(); ++a)
      for (size_t b = 0; b < columns.count(); ++b)
        for (Op op : kOps) {
          Rule rule{a, b, op, 1};
          if (rule.isRedundant(columns) || !rule.isExact(*largest))
            continue;
          // A product is exact where it is small.
          rule.usual = op == Op::Times || op == Op::Over ? 0 : usual;
          rule.factor = largest->target / rule.result(*largest);
          if (std::isfinite(rule.factor) && rule.factor != 0 &&
              usesBoth(rule) &&
              std::ranges::all_of(
                  first, [&](const Sample &one) { return rule.holds(one); }))
            rules.push_back(rule);
        }
    first.clear();
  }

  double medianTarget() const {
    std::vector<double> sizes;
    sizes.reserve(first.size());
    for (const Sample &one : first)
      sizes.push_back(std::fabs(one.target));
    std::ranges::nth_element(sizes, sizes.begin() + kFirst / 2);
    return sizes[kFirst / 2];
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
/// which has two values. The elements of separate classes do so as well, but
/// leave a gap between them.
class LargerColumn : public SampleCheck {
public:
  LargerColumn(const SampleShape &shape, size_t label)
      : columns(shape, label), type(shape.ports[label].dtype),
        name(shape.nameOf(label)), label(label) {
    for (size_t a = 0; a < columns.count(); ++a)
      for (size_t b = 0; b < columns.count(); ++b)
        if (a != b)
          pairs.push_back({a, b});
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
    std::erase_if(pairs, [&](Pair &pair) {
      const double more = values[pair.a] - values[pair.b];
      double &gap = value == first ? pair.gap : pair.otherGap;
      gap = std::min(gap, std::fabs(more));
      pair.most = std::max(pair.most, std::fabs(more));
      return value == first ? !(more > 0) : !(more <= 0);
    });
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 32; // samples with each value
    if (std::min(others, added - others) < kLeast)
      return {};
    for (const Pair &pair : pairs)
      if (!pair.hasGap(added - others, others))
        return {concat(name, " is ", spellNumber(first), " exactly where ",
                       columns.nameOf(pair.a), " is larger than ",
                       columns.nameOf(pair.b), ", in all ", added,
                       " samples: is the label computed from the inputs?")};
    return {};
  }

private:
  /// a is larger than b where the label is `first`.
  struct Pair {
    size_t a, b;
    /// The smallest differences with each label, and the largest one.
    double gap = std::numeric_limits<double>::infinity();
    double otherGap = std::numeric_limits<double>::infinity();
    double most = 0;

    /// Whether a label has no difference near 0, although that of one of
    /// `count` samples would be by chance.
    bool hasGap(int64_t count, int64_t otherCount) const {
      constexpr double kChances = 5; // e^-5 of the pairs have such a gap
      return gap * static_cast<double>(count) > kChances * most ||
             otherGap * static_cast<double>(otherCount) > kChances * most;
    }
  };

  Columns columns;
  DType type;
  std::string name;
  size_t label;
  int64_t added = 0, others = 0;
  double first = 0;            ///< the label of the first sample
  std::optional<double> other; ///< the other label
  std::vector<Pair> pairs;     ///< that are left
};

/// Finds an element of a sample that is the target of the next sample.
class NextTarget : public SampleCheck {
public:
  NextTarget(const SampleShape &shape, size_t target)
      : columns(shape, target), type(shape.ports[target].dtype),
        name(shape.nameOf(target)), target(target), left(columns.count()) {
    std::iota(left.begin(), left.end(), size_t(0));
  }

  void add(const SampleArrays &sample) override {
    const double value = loadAsDouble(sample[target], type, 0);
    if (added++ > 0) {
      changes += value != lastTarget ? 1 : 0;
      std::erase_if(left, [&](size_t i) { return last[i] != value; });
    }
    lastTarget = value;
    if (!left.empty())
      last = columns.values(sample);
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 32; // changes of the target
    if (left.empty() || changes < kLeast)
      return {};
    return {concat(columns.nameOf(left.front()), " is ", name,
                   " of the next sample, in all ", added,
                   " samples: does it look ahead?")};
  }

private:
  Columns columns;
  DType type;
  std::string name;
  size_t target;
  std::vector<size_t> left; ///< the columns that may be the next target
  std::vector<double> last; ///< the columns of the last sample
  double lastTarget = 0;
  int64_t added = 0, changes = 0;
};

/// Finds two elements of a sample that are equal in all samples, but vary.
class EqualColumns : public SampleCheck {
public:
  explicit EqualColumns(const SampleShape &shape)
      : columns(shape, shape.ports.size()) {}

  void add(const SampleArrays &sample) override {
    if (added > 0 && pairs.empty())
      return;
    const std::vector<double> values = columns.values(sample);
    if (added++ == 0)
      start(values);
    for (Pair &pair : pairs)
      pair.varies |= values[pair.a] != first[pair.a];
    std::erase_if(pairs, [&](const Pair &pair) {
      return values[pair.a] != values[pair.b];
    });
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeast = 16; // samples
    for (const Pair &pair : pairs)
      if (pair.varies && added >= kLeast)
        return {concat(columns.nameOf(pair.a), " equals ",
                       columns.nameOf(pair.b), " in all ", added, " samples")};
    return {};
  }

private:
  struct Pair {
    size_t a, b;
    bool varies = false;
  };

  void start(const std::vector<double> &values) {
    first = values;
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b)
        if (values[a] == values[b] && columns.areOfOneInput(a, b))
          pairs.push_back({a, b});
  }

  Columns columns;
  std::vector<double> first; ///< of the first sample
  std::vector<Pair> pairs;   ///< that are left
  int64_t added = 0;
};

} // namespace

void addColumnChecks(const SampleShape &shape, SampleChecks &checks) {
  if (const int64_t all = Columns::countIn(shape, shape.ports.size());
      all >= 2 && all <= Columns::kMost)
    checks.push_back(std::make_unique<EqualColumns>(shape));
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const int64_t columns = Columns::countIn(shape, i);
    if (shape.elements[i] != 1 || columns < 2 || columns > Columns::kMost)
      continue;
    const bool isTarget = port.dependence.isTarget && isFloat(port.dtype);
    if (isTarget || port.use == InputUse::Labels ||
        port.use == InputUse::Probabilities) {
      checks.push_back(std::make_unique<LargerColumn>(shape, i));
      checks.push_back(std::make_unique<NextTarget>(shape, i));
    }
    if (isTarget && port.use == InputUse::Data)
      checks.push_back(std::make_unique<ColumnTarget>(shape, i));
  }
}

} // namespace dpc::rt
