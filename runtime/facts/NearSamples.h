//===- NearSamples.h - samples that nearly equal others ---------*- C++ -*-===//
#pragma once

#include "runtime/facts/SampleCheck.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dpc::rt {

/// Keeps a few random projections of the numbers of each sample. Samples whose
/// projections are close are probably close themselves (Johnson and
/// Lindenstrauss, 1984).
class NearSamples {
public:
  NearSamples() = default; ///< keeps nothing
  explicit NearSamples(const SampleShape &shape);

  void add(const SampleArrays &sample);
  /// Says that many samples of `heldOut` are far closer to one of `training`
  /// than samples of `training` are to each other, but equal none, as after a
  /// split of augmented samples. `source` is the option of `training`.
  static std::string text(const NearSamples &training,
                          const std::string &source,
                          const NearSamples &heldOut);

private:
  static constexpr size_t kProjections = 8;
  using Point = std::array<float, kProjections>;

  bool isComparable(const NearSamples &other) const;
  std::vector<double> distancesTo(const NearSamples &training) const;

  SampleShape shape;
  std::vector<size_t> inputs;    ///< of numbers
  std::vector<uint64_t> signsOf; ///< of each number that is projected, as bits
  std::vector<Point> points;
};

} // namespace dpc::rt
