//===- DataProfile.h - how the values of a run's data lie -------*- C++ -*-===//
//
// A profile describes the distribution of each input's values over samples. It
// is saved with trained weights: in the manifest of a checkpoint, and in the
// metadata of .safetensors files. Evaluation, inference and later training from
// these weights compare their data with it (ProfileDifferences.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/facts/ClassProfile.h"
#include "runtime/facts/PaddingRuns.h"
#include "runtime/facts/SampleSketch.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// The distribution of one number over samples.
struct Quantiles {
  static constexpr size_t kCount = 11;
  /// The quantiles 0, 0.1, .. 1, in ascending order.
  std::vector<double> values;

  /// Sorts `numbers`, of which there is at least one.
  static Quantiles of(std::vector<double> numbers);
  double middle() const { return values[kCount / 2]; }
  /// The share of numbers below `value` plus half the share of equal ones.
  double shareBelow(double value) const;
  /// The largest difference of shareBelow(): 0 for equal distributions, 1 for
  /// disjoint ones (the statistic of Kolmogorov and Smirnov).
  double distance(const Quantiles &other) const;
};

/// The distribution of one input. Numbers have `parts`, indexes have `shares`.
struct InputProfile {
  /// The key in `parts` of all elements of a sample.
  static constexpr int kWhole = -1;
  /// Indexes are counted by their remainder of the division by this prime, so
  /// that frequent ids of a large vocabulary have counters of their own. From 0
  /// to kCounters - 1, an index is its own counter.
  static constexpr int64_t kCounters = 1021;
  /// Returns the key of an index in `shares`.
  static int64_t counterOf(int64_t index) {
    return (index % kCounters + kCounters) % kCounters;
  }

  std::string name;
  std::vector<int64_t> shape; ///< of a sample
  int64_t samples = 0;        ///< of which the profile is
  double min = 0, max = 0;    ///< of all finite elements
  /// The means of parts of a sample. A part has all elements with one position
  /// along a dimension: parts[dimension][position].
  std::map<int, std::vector<Quantiles>> parts;
  int64_t indexes = 0; ///< the number of counted ones
  std::map<int64_t, double> shares;
  /// Whether the indexes are rows of tables. Not saved.
  bool areIds = false;
  /// The index with which nearly all samples begin.
  std::optional<int64_t> begin;
  /// The index that pads samples, and whether it is at their end.
  std::optional<std::pair<int64_t, bool>> padding;
};

struct DataProfile {
  std::string source; ///< the option that gave the data
  std::string graph;  ///< kEvalGraph of the plan that trained (RunSettings.h)
  std::vector<InputProfile> inputs;
  std::optional<ClassProfile> classes;
  std::optional<SampleSketch> samples;

  bool isEmpty() const { return inputs.empty(); }
  const InputProfile *find(const std::string &name) const;
  /// JSON, or "" for an empty profile.
  std::string text() const;
  /// Parses untrusted `text`, of which "" is an empty profile. An error begins
  /// with `path`.
  static Expected<DataProfile> parse(const std::string &text,
                                     const std::string &path);
};

/// Computes the profile of one input from some of its samples.
class ProfileBuilder {
public:
  /// A sample of `port` has `elements` elements.
  ProfileBuilder(const Port &port, int64_t elements);

  /// The most samples that one builder should get.
  int64_t mostSamples() const;
  void add(const std::byte *sample);
  /// Returns the profile without its range.
  InputProfile finish() const;

private:
  void addNumbers(const std::byte *sample);
  void addIndexes(const std::byte *sample);

  Port port;
  int64_t elements;
  InputProfile profile;
  /// For each key of InputProfile::parts and each part, a number per sample.
  std::map<int, std::vector<std::vector<double>>> means;
  std::map<int64_t, int64_t> counts;
  std::map<int64_t, int64_t> begins;
  PaddingRuns runs;
};

} // namespace dpc::rt
