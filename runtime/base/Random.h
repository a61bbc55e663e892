//===- Random.h - random numbers addressed by position ----------*- C++ -*-===//
//
// Every number is a function of (seed, stream, index), so any sharding of a
// tensor draws the same numbers as a single device.
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

  /// 64 uniform bits for `index`.
  uint64_t bits(uint64_t index) const;
  /// Standard normal for `index`.
  double normal(uint64_t index) const;

private:
  uint64_t key;
};

/// Fills `tensor` with the numbers from index `first` on: normal floats with
/// standard deviation `deviation`, integers uniform in [0, limit), or in {0, 1}
/// without a limit, and bool 0 or 1.
void fillRandom(HostTensor &tensor, const RandomStream &stream,
                double deviation, int64_t limit, int64_t first = 0);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_RANDOM_H
