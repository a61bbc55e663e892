//===- GemmTable.h - Measured rates of GEMMs --------------------*- C++ -*-===//
//
// A measured device has a table of rates instead of the constants of a formula,
// because CPU libraries choose packing, blocks and kernels by shape. The table
// has a rate for every m, n and k of `sizes` and each transposition. Between
// these points, the logarithm of the rate is interpolated linearly in the
// logarithms of m, n and k. A size outside the table counts as the nearest size
// of the table.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/EnumNames.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::cost {

struct GemmShape;

/// The transposed operand of a GEMM.
enum class Transposition { None, Right, Left };
inline constexpr int numTranspositions = 3;

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, cost::numTranspositions>
    kNamesOf<cost::Transposition> = {"nn", "nt", "tn"};
} // namespace dpc

namespace dpc::cost {

/// FLOP/s of f32 GEMMs on a whole device.
struct GemmTable {
  std::vector<int64_t> sizes; ///< In rising order, each at least 1.
  /// By transposition, then at index (m * sizes.size() + n) * sizes.size() + k,
  /// where m, n and k are indices into `sizes`.
  std::array<std::vector<double>, numTranspositions> rates;

  bool empty() const { return sizes.empty(); }
  int64_t numPoints() const;
  /// Returns the FLOP/s of one GEMM. If both operands are transposed, the rate
  /// for a transposed left operand applies. The table must not be empty.
  double rate(const GemmShape &shape) const;
};

} // namespace dpc::cost
