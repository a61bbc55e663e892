//===- ForeignLabels.h - labels of other samples ----------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace dpc::rt {

/// Two inputs of one shape [.., T]: ids, and labels that are ids as well. Finds
/// labels that belong to other samples. Either the labels of most samples are
/// the ids of another sample, at the same or the next position. Or pairs of
/// neighbouring labels often occur among the ids, more often than pairs of
/// labels of two samples, and the labels of a sample are not more often among
/// its ids than among those of the sample before.
class ForeignLabels {
public:
  /// Indexes of inputs.
  ForeignLabels(size_t ids, size_t labels) : ids(ids), labels(labels) {}

  /// Adds `count` elements, which are whole sequences.
  void add(const Port &idsPort, const void *idsData, const Port &labelsPort,
           const void *labelsData, int64_t count);
  bool isProven() const { return areIdsOfOthers() || areLikeOthers(); }
  std::string text(const Port &idsPort, const Port &labelsPort) const;

  size_t ids, labels;

private:
  void addRow(const std::vector<int64_t> &idRow,
              const std::vector<int64_t> &labelRow, const Port &labelsPort);
  void addHashes(const std::vector<int64_t> &idRow,
                 const std::vector<int64_t> &labelRow);
  bool isEnough() const;
  bool areIdsOfOthers() const;
  bool areLikeOthers() const;

  struct Share {
    int64_t all = 0, found = 0;
    void add(bool isFound) {
      ++all;
      found += isFound ? 1 : 0;
    }
    double value() const {
      return all == 0 ? 0 : static_cast<double>(found) / double(all);
    }
  };
  std::unordered_set<uint64_t> idRows; ///< hashes of all ids but one
  std::vector<uint64_t> labelRows;     ///< of labels that are not the own ids
  std::unordered_set<uint64_t> pairs;  ///< of neighbouring ids
  Share neighbours, mixed;             ///< pairs of labels among them
  Share own, foreign;                  ///< labels among the ids of a row
  std::unordered_set<int64_t> lastIds; ///< of the row before
  std::vector<int64_t> lastLabels;
  int64_t rows = 0;
  int64_t blocks = 0; ///< of labels that are not ignored
  bool hasManyIds = false;
  double idBits = 0; ///< of an id
};

/// Returns the pairs of ids and labels among the inputs.
std::vector<ForeignLabels> foreignLabelsOf(const std::vector<Port> &ports);

} // namespace dpc::rt
