//===- SampleSketch.h - which samples trained weights -----------*- C++ -*-===//
#pragma once

#include "runtime/base/Json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// A sketch of the samples of a dataset that is small enough to be saved with
/// trained weights: the smallest of their hashes (Cohen, 1997). Another dataset
/// has about the same share of these hashes as of the samples.
struct SampleSketch {
  int64_t samples = 0;
  int64_t hashed = 0;             ///< less than `samples` if some are not read
  int64_t single = 0;             ///< samples that equal no other one
  std::vector<uint64_t> smallest; ///< different ones, in ascending order

  /// `hashes` are in ascending order.
  static SampleSketch of(const std::vector<uint64_t> &hashes, int64_t samples);

  /// Returns about which share of the samples with these `hashes`, in ascending
  /// order, is in the sketch; nothing if there are too few to tell, or if as
  /// many may be by chance.
  std::optional<double> shareOf(const std::vector<uint64_t> &hashes) const;

  nlohmann::json json() const;
  static std::optional<SampleSketch> parse(const nlohmann::json &json);
};

} // namespace dpc::rt
