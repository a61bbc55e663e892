//===- PaddingFacts.h - padding against masks and labels --------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dpc::rt {

/// Two inputs of one shape [.., T]: ids, and a mask or the labels of a loss.
/// Samples that end (or begin) in runs of one id, which have different lengths
/// and hold an id that is rare elsewhere, are probably padded. Finds masks that
/// show padding, and labels of padding that the loss counts.
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
  struct Run {
    int64_t rows = 0;
    std::set<int64_t> lengths;
    int64_t inside = 0;               ///< the same id elsewhere in these rows
    int64_t wrongRows = 0, wrong = 0; ///< with elements that are wrong there
  };
  /// The id and whether samples end, instead of begin, in it.
  using Key = std::pair<int64_t, bool>;
  bool isPadding(const Run &run) const;

  std::map<Key, Run> runs;
  int64_t rows = 0;
};

/// Returns the pairs of ids and masks or labels among the inputs.
std::vector<PaddingFacts> paddingsOf(const std::vector<Port> &ports);

} // namespace dpc::rt
