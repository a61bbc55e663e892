//===- PaddingFacts.h - padding against masks and labels --------*- C++ -*-===//
#pragma once

#include "runtime/facts/PaddingRuns.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::rt {

/// Two inputs of one shape [.., T]: ids, and a mask or the labels of a loss.
/// Finds masks that show padding, and labels of padding that the loss counts.
class PaddingFacts {
public:
  /// Indexes of inputs. They are equal if the loss reads its labels from the
  /// ids.
  PaddingFacts(size_t ids, size_t other) : ids(ids), other(other) {}

  /// Adds `count` elements, which are whole sequences.
  void add(const Port &idsPort, const void *idsData, const Port &otherPort,
           const void *otherData, int64_t count);
  /// Whether the other input is a mask.
  static bool isOfMask(const Port &otherPort);
  std::string text(const Port &idsPort, const Port &otherPort) const;

  size_t ids, other;

private:
  /// Elements that are wrong in the run of one key.
  struct Wrong {
    int64_t samples = 0, elements = 0;
  };

  PaddingRuns runs;
  std::map<PaddingRuns::Key, Wrong> wrong;
};

/// Whether the samples of an input are sequences of ids of a vocabulary, which
/// may be padded.
bool isPadded(const Port &port);

/// Returns the pairs of ids and masks or labels among the inputs.
std::vector<PaddingFacts> paddingsOf(const std::vector<Port> &ports);

} // namespace dpc::rt
