//===- GemmTable.h - Measured rates of GEMMs --------------------*- C++ -*-===//
//
// A measured device has a table of rates instead of the constants of a formula,
// because CPU libraries choose packing, blocks and kernels by shape.
//
// Rates lie on a grid: every m, n and k of `sizes`, for each transposition.
// Between grid points the logarithm of the rate is linear in the logarithms of
// m, n and k (trilinear); past the ends the nearest face counts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_GEMMTABLE_H
#define DPC_COST_MODEL_MACHINE_GEMMTABLE_H

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dpc::cost {

struct GemmShape;

/// Which operands a GEMM reads transposed.
enum class Transposition { None, Right, Left };
inline constexpr int numTranspositions = 3;

/// "nn", "nt", "tn".
std::string_view stringifyTransposition(Transposition transposition);

/// FLOP/s of f32 GEMMs on a whole device.
struct GemmTable {
  std::vector<int64_t> sizes; ///< Rising, each at least 1.
  /// By transposition; (m * size + n) * size + k, each index into `sizes`.
  std::array<std::vector<double>, numTranspositions> rates;

  bool empty() const { return sizes.empty(); }
  int64_t numPoints() const;
  /// FLOP/s of one GEMM of this shape. Two transposed operands count as one
  /// transposed left operand. The table must not be empty.
  double rate(const GemmShape &shape) const;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_GEMMTABLE_H
