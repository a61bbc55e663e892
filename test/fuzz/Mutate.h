//===- Mutate.h - Random damage to files ------------------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dpc::fuzz {

/// Damages files at random. Equal seeds give equal files on every machine,
/// which the distributions of the standard library do not guarantee.
class Mutator {
public:
  explicit Mutator(uint64_t seed) : engine(seed) {}

  /// Returns one of `seeds` after one to four changes, which add at most 256
  /// bytes. With `isText`, changes also replace numbers, words and braces.
  std::string next(const std::vector<std::string> &seeds, bool isText);

  uint64_t below(uint64_t limit) { return limit ? engine() % limit : 0; }

private:
  void changeBytes(std::string &data);
  void changeRange(std::string &data, const std::string &other);
  void changeToken(std::string &data);

  std::mt19937_64 engine;
};

} // namespace dpc::fuzz
