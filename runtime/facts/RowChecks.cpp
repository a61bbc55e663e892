//===- RowChecks.cpp - samples against the samples beside them ------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/Columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
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

/// Finds targets that fit the inputs of the sample before or after them, and
/// not their own: two files of which one lost a row.
class ShiftedRows : public SampleCheck {
public:
  ShiftedRows(const SampleShape &shape, size_t target)
      : columns(shape, target), port(shape.ports[target]),
        name(shape.nameOf(target)), target(target) {}

  void add(const SampleArrays &sample) override {
    if (rows.size() == kMostRows)
      return;
    rows.push_back(columns.values(sample));
    targets.push_back(loadAsDouble(sample[target], port.dtype, 0));
  }
  std::vector<std::string> texts() const override {
    const auto count = static_cast<double>(rows.size());
    const auto inputs = static_cast<double>(columns.count());
    if (rows.size() < kLeastRows || count < kRowsPerColumn * inputs)
      return {};
    Rows x = rows, y = columnsOfTarget();
    if (y.front().empty())
      return {};
    standardize(x);
    standardize(y);
    // Rows of a series tell about each other, in correct data as well.
    const double independent = 5 / std::sqrt(count);
    if (!(largestOf(productsOf(x, x, 1)) < independent))
      return {};
    Rows factor = productsOf(x, x, 0);
    for (size_t i = 0; i < factor.size(); ++i)
      factor[i][i] += 1e-3;
    factorize(factor);
    // Independent targets have this fit and this deviation from it.
    const double chance = inputs / count;
    const double noise = std::sqrt(2 * inputs) / count;
    const double own = explainedBy(factor, productsOf(x, y, 0));
    if (!(own < chance + 5 * noise))
      return {};
    for (int64_t lag : {-1, 1}) {
      const Rows products = productsOf(x, y, lag);
      const double fit = explainedBy(factor, products);
      // An element may be the target of the sample before, on purpose.
      const bool isPast = lag == 1 && largestOf(products) > kEqual;
      if (fit > std::max(chance + 20 * noise, kLeastFit) && !isPast)
        return {concat(name, ": a linear fit to the inputs of the sample ",
                       lag < 0 ? "before" : "after", " explains ",
                       shareText(fit),
                       " of it, and one to its own inputs only ",
                       shareText(own), ": are the rows shifted by one?")};
    }
    return {};
  }

private:
  static constexpr size_t kMostRows = 2048, kLeastRows = 128;
  static constexpr double kRowsPerColumn = 16;
  static constexpr double kEqual = 0.9; ///< correlation
  static constexpr double kLeastFit = 0.2;

  static std::string shareText(double share) {
    return concat(std::lround(100 * share), " %");
  }
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

} // namespace

void addRowChecks(const SampleShape &shape, SampleChecks &checks) {
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const int64_t columns = Columns::countIn(shape, i);
    if (shape.elements[i] == 1 && columns >= 1 && columns <= Columns::kMost &&
        (port.use == InputUse::Labels || port.use == InputUse::Probabilities ||
         (port.dependence.isTarget && isFloat(port.dtype))))
      checks.push_back(std::make_unique<ShiftedRows>(shape, i));
  }
}

} // namespace dpc::rt
