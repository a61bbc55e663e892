//===- GemmTable.cpp - Measured rates of GEMMs ----------------------------===//

#include "cost-model/machine/GemmTable.h"
#include "cost-model/machine/ComputeCost.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace dpc::cost {

int64_t GemmTable::numPoints() const {
  auto count = static_cast<int64_t>(sizes.size());
  return count * count * count;
}

namespace {

/// The position of a size between two adjacent sizes of the table: the index of
/// the smaller one, and the weight of the larger one.
struct Position {
  size_t low = 0;
  double share = 0;
};

} // namespace

static Position locate(const std::vector<int64_t> &sizes, int64_t size) {
  auto above = std::ranges::upper_bound(sizes, size);
  if (above == sizes.begin())
    return {0, 0};
  size_t low = static_cast<size_t>(above - sizes.begin()) - 1;
  if (above == sizes.end())
    return {low, 0};
  double from = std::log2(static_cast<double>(sizes[low]));
  double to = std::log2(static_cast<double>(*above));
  return {low, (std::log2(static_cast<double>(size)) - from) / (to - from)};
}

double GemmTable::rate(const GemmShape &shape) const {
  assert(!empty() && "a measured table");
  Transposition which = shape.transA   ? Transposition::Left
                        : shape.transB ? Transposition::Right
                                       : Transposition::None;
  const std::vector<double> &measured = rates[static_cast<size_t>(which)];
  std::array<Position, 3> at = {locate(sizes, shape.m), locate(sizes, shape.n),
                                locate(sizes, shape.k)};
  double logRate = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    size_t index = 0;
    for (unsigned axis = 0; axis < 3; ++axis) {
      bool upper = corner >> axis & 1;
      weight *= upper ? at[axis].share : 1 - at[axis].share;
      index = index * sizes.size() + at[axis].low + (upper ? 1 : 0);
    }
    if (weight > 0)
      logRate += weight * std::log2(measured[index]);
  }
  return std::exp2(logRate);
}

} // namespace dpc::cost
