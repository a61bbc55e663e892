//===- SampleFacts.h - the samples of a run's data --------------*- C++ -*-===//
#pragma once

#include "runtime/facts/ElementLeak.h"
#include "runtime/facts/LabelLeak.h"
#include "runtime/facts/LabelOrder.h"
#include "runtime/facts/PaddingRuns.h"
#include "runtime/facts/SampleSketch.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// Compares the samples of a dataset: which are equal, which differ only in
/// their labels, in which order the labels come, which elements never change,
/// and which always give the label away.
class SampleFacts {
public:
  SampleFacts() = default;
  /// A sample has `perSample` elements of each of `ports`. countRoundedIn()
  /// is for two that have `comparesRounded`.
  SampleFacts(const std::vector<Port> &ports, std::vector<int64_t> perSample,
              bool comparesRounded);

  /// Adds a sample. With `!isHashed`, it is not compared with the others.
  void add(const std::vector<const std::byte *> &arrays, bool isHashed);
  /// Called after the last add().
  void finish();

  /// The number of samples, with those that are not hashed.
  int64_t count() const { return added; }
  std::vector<std::string> texts() const;
  /// Says that the samples are sorted by their labels.
  std::vector<std::string> orderTexts() const;
  /// The number of samples that are also in `training`. 0 if the two have
  /// other inputs.
  int64_t countIn(const SampleFacts &training) const;
  /// The same after numbers are rounded to f16 or bf16; 0 if that makes
  /// different samples of `training` equal.
  int64_t countRoundedIn(const SampleFacts &training, DType type) const;
  /// Of all samples, of which there are `samples` with those that are not read.
  SampleSketch sketch(int64_t samples) const {
    return SampleSketch::of(whole, samples);
  }
  /// About which share of the samples is in `training`, if that is clear.
  std::optional<double> shareIn(const SampleSketch &training) const {
    return training.shareOf(whole);
  }
  /// Whether all samples are compared.
  bool isComplete() const { return hashCount() == added; }
  /// Whether the first class of `labels` is the padding of ids of the same
  /// vocabulary, so that it is no class.
  bool isPadding(const Port &labels) const;

private:
  /// Finds the elements of an input that are equal in all samples.
  struct Varying {
    std::vector<std::byte> first; ///< the first sample; empty: not checked
    std::vector<bool> varies;     ///< of each element
    bool isMask = true; ///< each sample has ones beside zeros, in two runs
    void add(const std::byte *sample, int64_t elements, int64_t width);
  };
  std::string constantText(size_t input) const;
  std::string counterText(size_t input) const;
  std::optional<size_t> weightsOf(size_t labels) const;
  bool areWeighted(size_t weights, int64_t first, int64_t count) const;
  bool areOfText(const Port &labels) const;
  std::string paddingText(size_t input) const;
  bool hasInputsOf(const SampleFacts &training) const;
  uint64_t roundedHash(const std::vector<const std::byte *> &arrays,
                       DType type) const;
  void findTarget();
  void watchLeaks();
  std::string leakText(size_t input) const;
  int64_t bytesOf(size_t input) const;
  int64_t hashCount() const { return static_cast<int64_t>(hashes.size()); }

  std::vector<Port> ports;
  std::vector<int64_t> perSample;
  std::vector<Varying> varying;       ///< of each input
  std::map<size_t, PaddingRuns> runs; ///< of inputs of ids
  /// What gives the label away, of each input.
  struct Leaks {
    CounterLeak counter;
    LabelLeak line;
    RankLeak rank;
    ClassLeak classes;
  };
  std::vector<Leaks> leaks;
  /// The input of labels, one for each sample; or else the only other input of
  /// one number for each sample, which may be the target of a loss.
  std::optional<size_t> target;
  /// The order of each input that may have labels, one for each sample.
  std::map<size_t, LabelOrder> orders;
  int64_t added = 0;
  /// Hashes of samples, without and with their labels, in ascending order after
  /// finish().
  std::vector<std::pair<uint64_t, uint64_t>> hashes;
  /// The hashes of samples whose numbers are rounded, in ascending order.
  std::map<DType, std::vector<uint64_t>> rounded;
  std::vector<uint64_t> whole; ///< the second hashes, in ascending order
};

} // namespace dpc::rt
