//===- ShiftFacts.h - labels against ids ------------------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// Two inputs of one shape: ids [.., T] and the labels of a loss, or rows of
/// numbers [B, T, ...] and the targets of a loss. Finds the offset k with
/// labels[t] == ids[t + k] for most t: the last label of a sequence often is
/// not among its ids, such as a mark of the end. Sequences of one constant,
/// ignored labels and repeated ids do not count.
class ShiftFacts {
public:
  /// Indexes of inputs.
  ShiftFacts(size_t ids, size_t labels) : ids(ids), labels(labels) {}

  /// Adds `count` elements, which are whole sequences.
  void add(const Port &idsPort, const void *idsData, const Port &labelsPort,
           const void *labelsData, int64_t count);
  /// Says that the labels have another offset than the loss expects, that the
  /// two are swapped, that the labels are rolled, or "". Says nothing of
  /// labels one position after those of `others`, as in the prediction of
  /// several tokens. DataFacts::equal has inputs that are equal everywhere.
  std::string text(const std::vector<Port> &ports,
                   const std::vector<ShiftFacts> &others) const;

  size_t ids, labels;

private:
  static constexpr int64_t kFarthest = 3;

  /// How many pairs of elements there are, and how many of them are equal.
  struct Lead {
    int64_t pairs = 0, equal = 0;
    void add(bool isEqual) {
      ++pairs;
      equal += isEqual ? 1 : 0;
    }
    bool holds() const { return equal == pairs; }
    double share() const {
      return pairs == 0 ? 0 : static_cast<double>(equal) / double(pairs);
    }
    /// Few pairs may be equal by chance.
    bool isProven() const {
      return pairs >= 8 && share() >= (pairs < 64 ? 1 : 0.75);
    }
    bool isOpen() const { return pairs < 1000 || share() >= 0.5; }
  };
  /// Returns the offset of most equal pairs, the usual one of several, if it is
  /// proven.
  std::optional<int64_t> proven(const Port &labelsPort) const;
  std::string offsetText(const Port &idsPort, const Port &labelsPort,
                         int64_t offset) const;
  Lead &lead(int64_t offset) { return leads[offset + kFarthest]; }
  const Lead &lead(int64_t offset) const { return leads[offset + kFarthest]; }

  std::array<Lead, 2 * kFarthest + 1> leads;
  bool hasIgnored = false;  ///< whether a label is ignored
  Lead rolled;              ///< the last label is the first id
  double firstId = 0;       ///< of the first sequence
  bool hasFirstIds = false; ///< whether sequences begin with different ids
};

/// Returns the pairs of ids and labels, or numbers and targets, of the inputs.
std::vector<ShiftFacts> shiftsOf(const std::vector<Port> &ports);

} // namespace dpc::rt
