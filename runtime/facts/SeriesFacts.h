//===- SeriesFacts.h - the series of numbers of a run's data ----*- C++ -*-===//
#pragma once

#include "runtime/facts/PassageSet.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace dpc::rt {

/// A sample of the passages of one input of numbers [.., T] or [.., T, F],
/// which may be windows of a series. A passage is 4 to 8 consecutive steps that
/// all differ.
class SeriesFacts {
public:
  /// The index of an input.
  explicit SeriesFacts(size_t input) : input(input) {}

  /// Adds `count` elements, which are whole samples.
  void add(const Port &port, const void *data, int64_t count);
  /// Called after the last add().
  void finish() { passages.finish(); }
  /// Whether equal passages are no chance: there are many different steps.
  bool areComparable() const;

  size_t input;
  PassageSet passages;

private:
  int64_t passageSteps = 0;           ///< steps of a passage
  int64_t added = 0;                  ///< passages
  std::unordered_set<uint64_t> steps; ///< hashes of different ones, up to many
};

/// Returns the inputs that may have series.
std::vector<SeriesFacts> seriesOf(const std::vector<Port> &ports);

} // namespace dpc::rt
