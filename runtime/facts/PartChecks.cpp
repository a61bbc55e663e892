//===- PartChecks.cpp - parts of the data that differ ---------------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/facts/Checks.h"
#include "runtime/facts/Columns.h"
#include "runtime/facts/DataProfile.h"
#include "runtime/facts/FrequentIds.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace dpc::rt {

namespace {

/// Finds a few elements whose size jumps between two samples, while that of the
/// others does not: the unit of a column that changes, such as from kg to g.
class UnitChange : public SampleCheck {
public:
  explicit UnitChange(const SampleShape &shape)
      : columns(shape, shape.ports.size()) {}

  void add(const SampleArrays &sample) override {
    if (added++ % spacing > 0)
      return;
    rows.push_back(columns.values(sample));
    if (rows.size() < kMostRows)
      return;
    for (size_t i = 1; 2 * i < rows.size(); ++i)
      rows[i] = std::move(rows[2 * i]);
    rows.resize(rows.size() / 2);
    spacing *= 2;
  }
  std::vector<std::string> texts() const override {
    for (size_t column = 0; column < columns.count(); ++column) {
      const std::optional<size_t> begin = jumpOf(column);
      if (!begin)
        continue;
      size_t jumps = 0, others = 0;
      for (size_t one = 0; one < columns.count(); ++one) {
        const std::optional<double> factor = factorAt(one, *begin);
        jumps += factor && std::fabs(*factor) > kJump ? 1 : 0;
        others += factor && std::fabs(*factor) < kSmooth ? 1 : 0;
      }
      // Parts of different origin differ in many elements.
      if (others < 2 * jumps)
        continue;
      const double factor = *factorAt(column, *begin);
      return {concat(columns.nameOf(column), ": from about sample ",
                     static_cast<int64_t>(*begin) * spacing,
                     " on, its numbers are about ",
                     spellNumber(rounded(std::exp(std::fabs(factor)))),
                     factor > 0 ? " times as large" : " times as small",
                     ", but those of other elements are not: does its unit "
                     "change?")};
    }
    return {};
  }

private:
  static constexpr size_t kMostRows = 2048;
  static constexpr double kJump = 3;     ///< logarithm: a factor of 20
  static constexpr double kSmooth = 1.1; ///< a factor of 3

  /// The logarithms of the sizes of some numbers that are not 0.
  struct Sizes {
    double count = 0, sum = 0, squares = 0;
    void add(double value) {
      const double size = std::log(std::fabs(value));
      if (!std::isfinite(size))
        return;
      ++count;
      sum += size;
      squares += size * size;
    }
    double mean() const { return sum / count; }
    double deviation() const {
      return std::sqrt(std::max(squares / count - mean() * mean(), 0.0));
    }
    /// Whether there are enough numbers, of different sizes.
    bool varies() const {
      constexpr double kLeast = 16, kVaries = 0.01;
      return count >= kLeast && deviation() > kVaries;
    }
  };

  /// The size of a number of few samples has no more than a digit.
  static double rounded(double factor) {
    const double digit = std::pow(10, std::floor(std::log10(factor)));
    return std::rint(factor / digit) * digit;
  }
  Sizes sizesOf(size_t column, size_t first, size_t end) const {
    Sizes sizes;
    for (size_t i = first; i < end; ++i)
      sizes.add(rows[i][column]);
    return sizes;
  }
  /// Returns the logarithm of the factor between the rows before `begin` and
  /// the others, if there are enough numbers.
  std::optional<double> factorAt(size_t column, size_t begin) const {
    const Sizes before = sizesOf(column, 0, begin);
    const Sizes after = sizesOf(column, begin, rows.size());
    if (!before.varies() || !after.varies())
      return std::nullopt;
    return after.mean() - before.mean();
  }
  /// Whether both halves of some rows have about the same size.
  bool isSmooth(size_t column, size_t first, size_t end) const {
    const size_t middle = (first + end) / 2;
    const Sizes before = sizesOf(column, first, middle);
    const Sizes after = sizesOf(column, middle, end);
    return before.count > 0 && after.count > 0 &&
           std::fabs(after.mean() - before.mean()) < kSmooth;
  }
  /// Returns the row that best separates small from large numbers, if their
  /// size jumps there, as opposed to growing.
  std::optional<size_t> jumpOf(size_t column) const {
    Sizes before, after = sizesOf(column, 0, rows.size());
    const Sizes all = after;
    size_t best = 0;
    double most = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (before.count > 0 && after.count > 0) {
        const double apart = after.mean() - before.mean();
        const double between = before.count * after.count * apart * apart;
        best = between > most ? i : best;
        most = std::max(most, between);
      }
      Sizes own;
      own.add(rows[i][column]);
      before.count += own.count;
      before.sum += own.sum;
      after.count -= own.count;
      after.sum -= own.sum;
    }
    // The two parts explain most of the variance.
    constexpr double kMost = 0.5;
    const double variance = all.deviation() * all.deviation();
    if (most < kMost * variance * all.count * all.count)
      return std::nullopt;
    const std::optional<double> factor = factorAt(column, best);
    return factor && std::fabs(*factor) > kJump && isSmooth(column, 0, best) &&
                   isSmooth(column, best, rows.size())
               ? std::optional(best)
               : std::nullopt;
  }

  Columns columns;
  int64_t added = 0, spacing = 1;
  std::vector<std::vector<double>> rows; ///< evenly spaced samples
};

/// Finds texts that have other frequent ids from some sample on: two corpora
/// one after the other.
class TextParts : public SampleCheck {
public:
  TextParts(const SampleShape &shape, size_t ids)
      : port(shape.ports[ids]), name(shape.nameOf(ids)),
        elements(shape.elements[ids]), ids(ids) {}

  void add(const SampleArrays &sample) override {
    if (added++ % perBlock == 0) {
      if (blocks.size() == kMostBlocks)
        mergeBlocks();
      blocks.emplace_back(InputProfile::kCounters);
    }
    for (int64_t k = 0; k < elements; ++k)
      ++blocks.back()[InputProfile::counterOf(
          static_cast<int64_t>(loadAsDouble(sample[ids], port.dtype, k)))];
  }
  std::vector<std::string> texts() const override { return {}; }
  std::vector<std::string> orderTexts() const override {
    constexpr double kFew = 0.4;
    size_t best = 0;
    double least = kFew, share = 0;
    for (size_t begin = 1; begin < blocks.size(); ++begin) {
      const std::optional<Shares> before = sharesOf(0, begin),
                                  after = sharesOf(begin, blocks.size());
      if (!before || !after)
        continue;
      // A part may have all ids of the other one and some more.
      const FrequentIds first(*before);
      const double part = first.partIn(*after);
      const double most = std::max(part, FrequentIds(*after).partIn(*before));
      if (most < least) {
        best = begin;
        least = most;
        share = part * first.share();
      }
    }
    if (best == 0)
      return {};
    return {concat(name,
                   ": the ids that are half of those of the samples "
                   "before about sample ",
                   static_cast<int64_t>(best) * perBlock, " are only ",
                   percent(share),
                   " of those after it: different texts follow each other")};
  }

private:
  using Shares = FrequentIds::Shares;
  static constexpr size_t kMostBlocks = 16;

  void mergeBlocks() {
    for (size_t i = 0; i < blocks.size() / 2; ++i)
      for (size_t k = 0; k < blocks[i].size(); ++k)
        blocks[i][k] = blocks[2 * i][k] + blocks[2 * i + 1][k];
    blocks.resize(blocks.size() / 2);
    perBlock *= 2;
  }
  /// Returns the shares of ids in some blocks; nothing if there are too few
  /// ids to tell the frequent ones.
  std::optional<Shares> sharesOf(size_t first, size_t end) const {
    constexpr int64_t kLeast = 8; // of each id, on average
    int64_t all = 0;
    std::map<int64_t, int64_t> counts;
    for (size_t i = first; i < end; ++i)
      for (size_t k = 0; k < blocks[i].size(); ++k)
        if (blocks[i][k] > 0) {
          counts[static_cast<int64_t>(k)] += blocks[i][k];
          all += blocks[i][k];
        }
    Shares shares;
    int64_t words = 0; // ids that are no padding
    for (const auto &[id, count] : counts) {
      shares[id] = static_cast<double>(count) / static_cast<double>(all);
      words += shares[id] < FrequentIds::kPadding ? count : 0;
    }
    return words < kLeast * static_cast<int64_t>(counts.size())
               ? std::nullopt
               : std::optional(shares);
  }

  Port port;
  std::string name;
  int64_t elements;
  size_t ids;
  /// The counters of ids of successive samples, of `perBlock` each.
  std::vector<std::vector<int64_t>> blocks;
  int64_t added = 0, perBlock = 1;
};

} // namespace

void addPartChecks(const SampleShape &shape, SampleChecks &checks) {
  if (const int64_t columns = Columns::countIn(shape, shape.ports.size());
      columns >= 2 && columns <= Columns::kMost)
    checks.push_back(std::make_unique<UnitChange>(shape));
  for (size_t i = 0; i < shape.ports.size(); ++i)
    if ((shape.ports[i].use == InputUse::Ids ||
         shape.ports[i].use == InputUse::IdsAndLabels) &&
        shape.elements[i] > 1)
      checks.push_back(std::make_unique<TextParts>(shape, i));
}

} // namespace dpc::rt
