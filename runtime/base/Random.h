//===- Random.h - random numbers addressed by position ----------*- C++ -*-===//
//
// A random number is a function of (seed, stream, index), so the numbers of a
// tensor do not depend on its sharding.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_RANDOM_H
#define DPC_RUNTIME_BASE_RANDOM_H

#include "runtime/base/HostTensor.h"

#include <cstdint>
#include <string>

namespace dpc::rt {

/// A stream of numbers, identified by seed and name.
class RandomStream {
public:
  RandomStream(uint64_t seed, const std::string &name);

  /// The 64 uniformly distributed bits at `index`.
  uint64_t bits(uint64_t index) const;
  /// The number at `index`, drawn from a standard normal distribution.
  double normal(uint64_t index) const;

private:
  uint64_t key;
};

/// Fills `tensor` with the numbers of the stream from index `first` on. Floats
/// are normally distributed with standard deviation `deviation`. Integers are
/// uniform in [0, limit), or in {0, 1} if `limit` is 0. Bools are uniform.
void fillRandom(HostTensor &tensor, const RandomStream &stream,
                double deviation, int64_t limit, int64_t first = 0);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_RANDOM_H
