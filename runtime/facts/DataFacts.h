//===- DataFacts.h - the values of a run's data -----------------*- C++ -*-===//
//
// One pass over the data, before the first step, finds what a run would
// otherwise notice late or never: indices out of range, NaN, labels that are
// all ignored, and two inputs with the same values.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/facts/ArrayFacts.h"
#include "runtime/facts/DataProfile.h"
#include "runtime/facts/ForeignLabels.h"
#include "runtime/facts/NearSamples.h"
#include "runtime/facts/PaddingFacts.h"
#include "runtime/facts/SampleCheck.h"
#include "runtime/facts/SampleFacts.h"
#include "runtime/facts/SequenceFacts.h"
#include "runtime/facts/SeriesFacts.h"
#include "runtime/facts/ShiftFacts.h"
#include "runtime/facts/ValueFacts.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The data has rows, which are samples or steps.
struct DataFacts {
  std::string unit; ///< "sample", "step", or "" without data
  int64_t rows = 0;
  int64_t seen = 0; ///< rows that the pass has read
  bool ranOutOfTime = false;
  std::vector<ArrayFacts> inputs;
  /// Pairs of inputs of one type and shape whose rows are all equal.
  std::vector<std::pair<size_t, size_t>> equal;
  std::vector<ShiftFacts> shifts;
  std::vector<PaddingFacts> paddings;
  std::vector<ForeignLabels> foreigners;
  std::vector<SequenceFacts> sequences;
  std::vector<SeriesFacts> series;
  int64_t samplesPerRow = 0;            ///< 0: it is not clear what a sample is
  SampleFacts samples;                  ///< of the rows that the pass has read
  std::vector<ValueFacts> values;       ///< of each input, or empty as samples
  std::vector<ProfileBuilder> builders; ///< the same
  std::optional<ClassProfileBuilder> classes;
  SampleChecks checks;
  NearSamples near; ///< empty unless data are compared

  /// Refuses a label input that the loss ignores in every row, and NaN or +Inf
  /// in an input that the model reads, unless `acceptsNan`.
  Status check(bool acceptsNan) const;
  /// Says in which order the samples are, if they are sorted or in parts.
  std::vector<std::string> orderTexts() const;
  /// Returns the profile of the inputs that the model reads. It is empty if it
  /// is not clear what a sample is. `source` is the option that gave the data.
  DataProfile profile(const std::string &source) const;
  /// A line for each input and each remark.
  std::vector<std::string> texts() const;

private:
  std::vector<std::string> sequenceTexts() const;
  bool hasWeightsLike(const PaddingFacts &padding) const;
  bool areForeign(const ForeignLabels &labels) const;
};

/// Copies `count` rows from `first` on; the arrays of input i go to to[i].
using ReadRows = std::function<Status(int64_t first, int64_t count,
                                      const std::vector<std::byte *> &to)>;

struct ScanLimits {
  int64_t bytes = int64_t(2) << 30;
  double seconds = 60; ///< other processes wait for the pass
  /// Whether roundedText() and seriesText() follow, which need more of numbers.
  bool comparesNumbers = false;
};

/// Reads rows in ascending order. A row has `perRow` elements of each of
/// `ports`. Reads all rows, or if they have more bytes than the limit, evenly
/// spaced ones, the first and the last among them. Ends early at the limit of
/// time.
Expected<DataFacts> scanRows(const std::vector<Port> &ports,
                             const std::vector<int64_t> &perRow,
                             const std::string &unit, int64_t rows,
                             const ReadRows &read,
                             const ScanLimits &limits = {});

/// Returns the first extent of every input; 0 if these extents differ.
int64_t samplesPerStep(const std::vector<Port> &inputs);

/// Returns row `i` of `count` evenly spaced ones among `rows`.
int64_t evenRow(int64_t i, int64_t count, int64_t rows);

} // namespace dpc::rt
