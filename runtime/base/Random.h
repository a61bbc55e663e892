//===- Random.h - random numbers addressed by position ----------*- C++ -*-===//
//
// A random number is a function of (seed, stream, index), so the numbers of a
// tensor do not depend on its sharding.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/HostTensor.h"

#include <cstdint>
#include <string>

namespace dpc::rt {

class RandomStream {
public:
  RandomStream(uint64_t seed, const std::string &name);

  /// Returns 64 uniformly distributed bits.
  uint64_t bits(uint64_t index) const;
  /// Returns a number from the standard normal distribution.
  double normal(uint64_t index) const;

private:
  uint64_t key;
};

/// Fills `tensor` with the stream's numbers from index `first` on: floats with
/// a normal distribution of standard deviation `deviation`, integers uniformly
/// in [0, limit), or in {0, 1} if `limit` is 0, and bools uniformly.
void fillRandom(HostTensor &tensor, const RandomStream &stream,
                double deviation, int64_t limit, int64_t first = 0);

} // namespace dpc::rt
