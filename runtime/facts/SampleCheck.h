//===- SampleCheck.h - a check that sees each sample ------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dpc::rt {

/// The inputs of a run, and how many elements of each one a sample has.
struct SampleShape {
  std::vector<Port> ports;
  std::vector<int64_t> elements;

  /// "input 'x'"
  std::string nameOf(size_t input) const;
};

/// The arrays of one sample, in the order of the inputs.
using SampleArrays = std::vector<const std::byte *>;

/// Looks at each sample of a run's data. A sample costs bounded memory and
/// time.
class SampleCheck {
public:
  virtual ~SampleCheck() = default;
  virtual void add(const SampleArrays &sample) = 0;
  /// Returns a line for each thing that is probably not what the user meant.
  /// Called after the last add().
  virtual std::vector<std::string> texts() const = 0;
  /// Returns a line for each thing that matters only if the samples are trained
  /// in the order of the data.
  virtual std::vector<std::string> orderTexts() const { return {}; }
};

using SampleChecks = std::vector<std::unique_ptr<SampleCheck>>;

} // namespace dpc::rt
