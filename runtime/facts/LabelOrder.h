//===- LabelOrder.h - the order in which labels come ------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dpc::rt {

/// Finds whether the labels of samples come in such an order that a step sees
/// few of them: in runs of one class, or in long rising or falling pieces.
class LabelOrder {
public:
  /// A step has `perStep` samples.
  explicit LabelOrder(int64_t perStep = 1) : perStep(perStep) {}

  void add(double label);
  /// Describes the order of the labels of input `name`, or "".
  std::string text(const std::string &name) const;
  /// Whether two labels have occurred.
  bool varies() const { return rises + falls > 0; }

private:
  bool hasRuns() const;
  bool hasPieces() const;

  int64_t perStep;
  int64_t added = 0;
  std::map<double, int64_t> counts; ///< of labels, unless they are many
  int64_t rises = 0, falls = 0;     ///< from one label to the next
  double last = 0;
};

} // namespace dpc::rt
