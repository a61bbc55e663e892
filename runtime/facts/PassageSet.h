//===- PassageSet.h - a sample of the passages of sequences -----*- C++ -*-===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dpc::rt {

/// Hashes of passages, each with its offset in a sequence. Only those are kept
/// whose bits of a mask are 0, so that two sets keep the same passages if the
/// sequences have the same passages.
class PassageSet {
public:
  /// Returns whether add() would keep a passage.
  bool keeps(uint64_t hash) const { return (hash & mask) == 0; }
  void add(uint64_t hash, int64_t offset);
  /// Called after the last add().
  void finish() { removeRepeated(); }

  /// Returns about which share of the passages is also in `training`; nothing
  /// if there are too few. With `elsewhere`, a passage counts only if it has
  /// another offset there.
  std::optional<double> shareIn(const PassageSet &training,
                                bool elsewhere) const;

private:
  using Passage = std::pair<uint64_t, int64_t>;
  void removeRepeated();

  std::vector<Passage> passages; ///< in ascending order after finish()
  uint64_t mask = 0;
};

/// The hash of the last `length` of a sequence of values, as a polynomial
/// modulo 2^64, so that each one follows from the one before (Karp and Rabin,
/// 1987).
class RollingHash {
public:
  explicit RollingHash(int64_t length) {
    for (int64_t i = 0; i < length; ++i)
      top *= kBase;
  }
  /// Adds `value`, and removes the value `length` before it, which is 0 if
  /// there is none.
  uint64_t next(uint64_t value, uint64_t leaving) {
    return hash = hash * kBase + value - top * leaving;
  }

private:
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  uint64_t top = 1;
  uint64_t hash = 0;
};

/// The finalizer of SplitMix64, by which all bits of a hash depend on all bits
/// of `value`.
inline uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

} // namespace dpc::rt
