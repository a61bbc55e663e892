//===- SequenceFacts.h - the sequences of a run's data ----------*- C++ -*-===//
#pragma once

#include "runtime/facts/PassageSet.h"
#include "runtime/plan/Plan.h"

#include <array>
#include <set>
#include <string>
#include <vector>

namespace dpc::rt {

/// The sequences of one input of ids [.., T]: a sample of their passages, which
/// are kPassage ids at any position, and the order of their lengths.
class SequenceFacts {
public:
  static constexpr int64_t kPassage = 12;

  /// The index of an input.
  explicit SequenceFacts(size_t input) : input(input) {}

  /// Adds `count` elements, which are whole sequences.
  void add(const Port &port, const void *data, int64_t count);
  /// Called after the last add().
  void finish() { passages.finish(); }

  /// Says that the sequences are sorted by their lengths without padding, or
  /// "". Padding repeats the first or the last id.
  std::string orderText(const Port &port) const;
  /// Says that ids reach only a first part of the rows of their table although
  /// there are more ids than rows, or "": a half of them at most, or fewer of
  /// which nearly all occur. Positions and segments of a sequence do so on
  /// purpose.
  std::string usedText(const Port &port) const;
  /// Says that all ids beyond the whole numbers of f16 or bf16 are even, or "".
  std::string roundedText(const Port &port) const;

  size_t input;
  PassageSet passages; ///< without their offsets

private:
  void addPassages(const std::vector<int64_t> &ids);
  void addIds(const Port &port, const std::vector<int64_t> &ids);
  void addLength(const std::vector<int64_t> &ids);

  int64_t sequences = 0;
  std::set<int64_t> lengths;
  int64_t last = 0; ///< the length of the last sequence
  bool isAscending = true, isDescending = true;

  int64_t ids = 0;
  int64_t counting = 0; ///< ids that equal the id before, or follow it
  int64_t largest = 0;
  std::vector<bool> occurs; ///< by id from Port::first on, up to many
  /// For f16 and bf16: the ids that the type rounds if they are odd, and those
  /// of them that are odd.
  struct Rounded {
    int64_t above = 0, odd = 0;
  };
  std::array<Rounded, 2> rounded;
};

/// Returns the inputs that have sequences of ids.
std::vector<SequenceFacts> sequencesOf(const std::vector<Port> &ports);

} // namespace dpc::rt
