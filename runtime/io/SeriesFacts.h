//===- SeriesFacts.h - the series of numbers of a run's data ----*- C++ -*-===//
#pragma once

#include "runtime/io/PassageSet.h"
#include "runtime/plan/Plan.h"

#include <cstddef>
#include <vector>

namespace dpc::rt {

/// A sample of the passages of one input of numbers [.., T] or [.., T, F],
/// which may be windows of a series. A passage has as many steps as differ from
/// other passages, and no two equal ones.
class SeriesFacts {
public:
  /// The index of an input.
  explicit SeriesFacts(size_t input) : input(input) {}

  /// Adds `count` elements, which are whole samples.
  void add(const Port &port, const void *data, int64_t count);
  /// Called after the last add().
  void finish() { passages.finish(); }

  size_t input;
  PassageSet passages;
};

/// Returns the inputs that may have series.
std::vector<SeriesFacts> seriesOf(const std::vector<Port> &ports);

} // namespace dpc::rt
