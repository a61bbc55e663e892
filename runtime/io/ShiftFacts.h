//===- ShiftFacts.h - labels against ids ------------------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <array>
#include <string>
#include <vector>

namespace dpc::rt {

/// Two integer inputs of one shape [.., T]: ids, and the labels of a loss.
/// Finds the offsets k with labels[t] == ids[t + k] everywhere. Sequences of
/// one constant and ignored labels do not count.
class ShiftFacts {
public:
  /// Indexes of inputs.
  ShiftFacts(size_t ids, size_t labels) : ids(ids), labels(labels) {}

  /// Adds `count` elements, which are whole sequences.
  void add(const Port &idsPort, const void *idsData, const Port &labelsPort,
           const void *labelsData, int64_t count);
  /// Says that the labels have another offset than the loss expects, that the
  /// two are swapped, that the labels are rolled, or "". DataFacts::equal has
  /// inputs that are equal everywhere.
  std::string text(const Port &idsPort, const Port &labelsPort) const;

  size_t ids, labels;

private:
  static constexpr int64_t kFarthest = 3;

  /// Whether all pairs of elements are equal, and how many there are.
  struct Lead {
    bool holds = true;
    int64_t pairs = 0;
    void add(bool isEqual) {
      holds &= isEqual;
      ++pairs;
    }
    bool isProven() const { return holds && pairs >= 8; } // not by chance
  };
  Lead &lead(int64_t offset) { return leads[offset + kFarthest]; }
  const Lead &lead(int64_t offset) const { return leads[offset + kFarthest]; }

  std::array<Lead, 2 * kFarthest + 1> leads;
  bool hasIgnored = false;  ///< whether a label is ignored
  Lead rolled;              ///< the last label is the first id
  double firstId = 0;       ///< of the first sequence
  bool hasFirstIds = false; ///< whether sequences begin with different ids
};

/// Returns the pairs of ids and labels among the inputs.
std::vector<ShiftFacts> shiftsOf(const std::vector<Port> &ports);

} // namespace dpc::rt
