//===- ComputeCost.h - Time of local work on one device ---------*- C++ -*-===//
//
// Roofline: a kernel takes launch + max(arithmetic time, memory time).
//
// Matrix multiplication of m x n x k, `batch` times, on S multiprocessors with
// output tiles of tm x tn:
//   tiles  = batch * ceil(m/tm) * ceil(n/tn)      tile quantization
//   waves  = ceil(tiles / S)                      wave quantization
//   useful = batch*m*n / (waves * S * tm * tn)    share of slots with real work
//   depth  = k / (k + halfK)                      prologue and epilogue of a
//   tile aligned = 1, or misalignedFraction where k or n elements do not fill
//             whole alignBytes
//   rate   = peak * peakFraction * useful * depth * aligned
// Smaller tiles exist: tm and tn are halved (down to a quarter each, at 0.85 of
// the rate per halving) when that gives the higher rate, as library heuristics
// do.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_COMPUTECOST_H
#define DPC_COST_MODEL_COMPUTECOST_H

#include "cost-model/Cluster.h"

namespace dpc::cost {

/// `batch` products of [m, k] by [k, n].
struct GemmShape {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  /// How the operands lie in memory: [k, m] and [n, k].
  bool transA = false, transB = false;

  /// Two per multiply-add.
  double flops() const;
  /// Operands read once, result written once.
  double bytes(DType type) const;
};

/// Fraction of the device's peak this shape reaches, in (0, 1]; 0 for an
/// empty shape.
double gemmEfficiency(const Device &device, DType type, const GemmShape &shape);

/// Seconds of a matrix multiplication; 0 for an empty shape. The device must
/// have a peak for `type` (see computeType). Where f32 products were measured
/// (GemmTable.h): launch + flops / measured rate.
double gemmSeconds(const Device &device, DType type, const GemmShape &shape);

/// Seconds of a kernel that streams `bytes` and does `flops` scalar operations
/// (elementwise, reductions, norms, gathers, copies, the optimizer). Scalar
/// operations run at the device's f32 peak. 0 when both are 0.
double streamSeconds(const Device &device, double bytes, double flops = 0);

/// `wanted` if the device computes in it, else what stands in for it: the other
/// 16-bit type (bf16 on V100 -> f16), 16 bits for fp8, else f32.
DType computeType(const Device &device, DType wanted);

/// Bytes per second that streaming kernels reach.
double achievableBandwidth(const Device &device);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_COMPUTECOST_H
