//===- Mutate.h - Damaged files from good ones ------------------*- C++ -*-===//
#ifndef DPC_TEST_FUZZ_MUTATE_H
#define DPC_TEST_FUZZ_MUTATE_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dpc::fuzz {

/// Draws damage: the same seed gives the same files on every machine (no
/// standard distribution does).
class Mutator {
public:
  explicit Mutator(uint64_t seed) : engine(seed) {}

  /// One of `seeds` after one to four changes; never longer than a seed and
  /// 256 bytes. `isText`: numbers, words and braces are exchanged as well.
  std::string next(const std::vector<std::string> &seeds, bool isText);

  uint64_t below(uint64_t limit) { return limit ? engine() % limit : 0; }

private:
  void changeBytes(std::string &data);
  void changeRange(std::string &data, const std::string &other);
  void changeToken(std::string &data);

  std::mt19937_64 engine;
};

} // namespace dpc::fuzz

#endif // DPC_TEST_FUZZ_MUTATE_H
