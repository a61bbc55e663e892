//===- RowChecks.cpp - samples against the samples beside them ------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/Columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

namespace dpc::rt {

namespace {

using Rows = std::vector<std::vector<double>>; ///< of columns

/// Subtracts the mean of each column and divides it by its deviation. Constant
/// columns become 0.
void standardize(Rows &rows) {
  const auto count = static_cast<double>(rows.size());
  for (size_t k = 0; k < rows.front().size(); ++k) {
    double mean = 0, squares = 0;
    for (const std::vector<double> &row : rows)
      mean += row[k] / count;
    for (const std::vector<double> &row : rows)
      squares += (row[k] - mean) * (row[k] - mean) / count;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (std::vector<double> &row : rows)
      row[k] = (row[k] - mean) * scale;
  }
}

/// Returns the mean products of the columns of a[i + lag] with those of b[i].
Rows productsOf(const Rows &a, const Rows &b, int64_t lag) {
  Rows result(a.front().size(), std::vector<double>(b.front().size()));
  const auto count = static_cast<int64_t>(a.size());
  for (int64_t i = 1; i + 1 < count; ++i)
    for (size_t j = 0; j < result.size(); ++j)
      for (size_t k = 0; k < result[j].size(); ++k)
        result[j][k] +=
            a[i + lag][j] * b[i][k] / static_cast<double>(count - 2);
  return result;
}

double largestOf(const Rows &rows) {
  double largest = 0;
  for (const std::vector<double> &row : rows)
    for (double value : row)
      largest = std::max(largest, std::fabs(value));
  return largest;
}

/// Replaces a positive definite matrix by its lower Cholesky factor.
void factorize(Rows &matrix) {
  for (size_t j = 0; j < matrix.size(); ++j)
    for (size_t i = j; i < matrix.size(); ++i) {
      double sum = matrix[i][j];
      for (size_t k = 0; k < j; ++k)
        sum -= matrix[i][k] * matrix[j][k];
      matrix[i][j] = i == j ? std::sqrt(sum) : sum / matrix[j][j];
    }
}

/// Returns which part of the variance of targets of variance 1 a linear fit
/// explains. `factor` is that of the correlations of its inputs, and row j of
/// `products` has those of input j with the targets.
double explainedBy(const Rows &factor, Rows products) {
  double sum = 0;
  for (size_t j = 0; j < products.size(); ++j)
    for (size_t k = 0; k < products[j].size(); ++k) {
      for (size_t i = 0; i < j; ++i)
        products[j][k] -= factor[j][i] * products[i][k];
      products[j][k] /= factor[j][j];
      sum += products[j][k] * products[j][k];
    }
  return sum / static_cast<double>(products.front().size());
}

/// A linear fit of targets to the inputs of many rows.
class RowFit {
public:
  static constexpr size_t kMostRows = 2048;

  /// Returns nothing if there are too few rows to tell a fit from chance.
  static std::optional<RowFit> of(Rows inputs) {
    constexpr size_t kLeastRows = 128, kRowsPerColumn = 16;
    if (inputs.size() < kLeastRows ||
        inputs.size() < kRowsPerColumn * inputs.front().size())
      return std::nullopt;
    return RowFit(std::move(inputs));
  }
  /// Returns the mean products of standardized inputs and targets, of which
  /// row i belongs to the inputs of row i + lag.
  Rows productsWith(const Rows &targets, int64_t lag) const {
    return productsOf(x, targets, lag);
  }
  /// Returns which part of the variance of the targets it explains.
  double explains(const Rows &products) const {
    return explainedBy(factor, products);
  }
  /// Whether a part is that of independent targets, by `deviations` at most.
  bool isChance(double part, double deviations) const {
    const auto rows = static_cast<double>(x.size());
    const auto inputs = static_cast<double>(x.front().size());
    return part < (inputs + deviations * std::sqrt(2 * inputs)) / rows;
  }
  /// Whether no input tells about the inputs of the next row, as in a series.
  bool hasIndependentRows() const {
    return largestOf(productsOf(x, x, 1)) <
           5 / std::sqrt(static_cast<double>(x.size()));
  }

private:
  explicit RowFit(Rows inputs) : x(std::move(inputs)) {
    standardize(x);
    factor = productsOf(x, x, 0);
    for (size_t i = 0; i < factor.size(); ++i)
      factor[i][i] += 1e-3;
    factorize(factor);
  }

  Rows x; ///< standardized
  Rows factor;
};

std::string shareText(double share) {
  return concat(std::lround(100 * share), " %");
}

/// Finds targets that fit the inputs of the sample before or after them, and
/// not their own: two files of which one lost a row.
class ShiftedRows : public SampleCheck {
public:
  ShiftedRows(const SampleShape &shape, size_t target)
      : columns(shape, target), port(shape.ports[target]),
        name(shape.nameOf(target)), target(target) {}

  void add(const SampleArrays &sample) override {
    if (rows.size() == RowFit::kMostRows)
      return;
    rows.push_back(columns.values(sample));
    targets.push_back(loadAsDouble(sample[target], port.dtype, 0));
  }
  std::vector<std::string> texts() const override {
    const std::optional<RowFit> fit = RowFit::of(rows);
    // Rows of a series tell about each other, in correct data as well.
    if (!fit || !fit->hasIndependentRows())
      return {};
    Rows y = columnsOfTarget();
    if (y.front().empty())
      return {};
    standardize(y);
    const double own = fit->explains(fit->productsWith(y, 0));
    if (!fit->isChance(own, 5))
      return {};
    for (int64_t lag : {-1, 1}) {
      const Rows products = fit->productsWith(y, lag);
      const double other = fit->explains(products);
      // An element may be the target of the sample before, on purpose.
      const bool isPast = lag == 1 && largestOf(products) > kEqual;
      if (other > kLeastFit && !fit->isChance(other, 20) && !isPast)
        return {concat(name, ": a linear fit to the inputs of the sample ",
                       lag < 0 ? "before" : "after", " explains ",
                       shareText(other),
                       " of it, and one to its own inputs only ",
                       shareText(own), ": are the rows shifted by one?")};
    }
    return {};
  }

private:
  static constexpr double kEqual = 0.9; ///< correlation
  static constexpr double kLeastFit = 0.2;

  /// Returns a column of numbers, or one for each class; none if there are too
  /// many classes.
  Rows columnsOfTarget() const {
    constexpr size_t kMostClasses = 16;
    Rows result(rows.size());
    const bool isClass = port.use == InputUse::Labels;
    const std::set<double> classes(targets.begin(), targets.end());
    for (size_t i = 0; i < rows.size(); ++i)
      if (!isClass)
        result[i] = {targets[i]};
      else if (classes.size() <= kMostClasses)
        for (double one : classes)
          result[i].push_back(targets[i] == one ? 1 : 0);
    return result;
  }

  Columns columns;
  Port port;
  std::string name;
  size_t target;
  Rows rows; ///< the first samples
  std::vector<double> targets;
};

/// Finds weights of the samples that are given as their targets, and targets
/// given as the weights.
class SwappedWeights : public SampleCheck {
public:
  SwappedWeights(const SampleShape &shape, size_t weight, size_t target)
      : columns(shape, target), shape(shape), weight(weight), target(target) {}

  void add(const SampleArrays &sample) override {
    if (rows.size() == RowFit::kMostRows)
      return;
    rows.push_back(columns.values(sample));
    auto valueOf = [&](size_t input) {
      return loadAsDouble(sample[input], shape.ports[input].dtype, 0);
    };
    weights.push_back({valueOf(weight)});
    targets.push_back({valueOf(target)});
    // A weight is a positive number.
    arePositive &= valueOf(target) > 0;
  }
  std::vector<std::string> texts() const override {
    constexpr double kLeastFit = 0.5;
    const std::optional<RowFit> fit =
        arePositive ? RowFit::of(rows) : std::nullopt;
    if (!fit)
      return {};
    auto explained = [&](Rows values) {
      standardize(values);
      return fit->explains(fit->productsWith(values, 0));
    };
    const double own = explained(targets), other = explained(weights);
    const bool isConstant = std::ranges::all_of(
        targets, [&](const auto &row) { return row == targets.front(); });
    if (isConstant || !fit->isChance(own, 5) || other < kLeastFit)
      return {};
    return {concat(shape.nameOf(weight),
                   " weighs the loss of the samples, "
                   "and a linear fit to the other inputs explains ",
                   shareText(other), " of it, but ", shareText(own),
                   " of the target, ", shape.nameOf(target),
                   ": are the two swapped?")};
  }

private:
  Columns columns;
  SampleShape shape;
  size_t weight, target;
  Rows rows; ///< the first samples
  Rows weights, targets;
  bool arePositive = true;
};

} // namespace

void addRowChecks(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const int64_t columns = Columns::countIn(shape, i);
    const bool isNumber = port.dependence.isTarget && isFloat(port.dtype);
    if (shape.elements[i] != 1 || columns < 1 || columns > Columns::kMost)
      continue;
    if (port.use == InputUse::Labels || port.use == InputUse::Probabilities ||
        isNumber)
      checks.push_back(std::make_unique<ShiftedRows>(shape, i));
    for (size_t k = 0; isNumber && k < shape.ports.size(); ++k)
      if (k != i && shape.ports[k].dependence.weighsLoss &&
          shape.ports[k].globalShape == port.globalShape)
        checks.push_back(std::make_unique<SwappedWeights>(shape, k, i));
  }
}

} // namespace dpc::rt
