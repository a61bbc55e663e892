//===- ComputeCost.h - Time of local work on one device ---------*- C++ -*-===//
//
// Roofline: a kernel takes launch + max(arithmetic time, memory time).
//
// Matrix multiplication of m x n x k, `batch` times, on S multiprocessors with
// output tiles of tm x tn, each product of length k cut into s parts:
//   tiles  = batch * ceil(m/tm) * ceil(n/tn) * s  tile quantization, split k
//   waves  = ceil(tiles / S)                      wave quantization
//   depth  = k/s + halfK                          prologue, epilogue of a tile
//   steps  = waves * tm * tn * depth              multiply-adds of one SM
//   intensity = (1 + c (1/TM + 1/TN)) / (1 + c (1/tm + 1/tn))
//            a step of a tile does tm*tn multiply-adds and loads tm + tn
//            operands, each worth c of them (operandCost); 1 for the largest
//            tile TM x TN of the device file
//   aligned = 1, or misalignedFraction where k elements of an operand or n of
//            the result do not fill whole alignBytes
//   time   = steps / (peak/2/S * peakFraction * intensity * aligned)
//            + 8 s m n batch / bandwidth where s > 1: partial sums, f32, are
//            written and read
// The tile (TM x TN, TN x TM, and both halved up to twice) and s (a power of
// two up to mostParts, only where there are fewer tiles than multiprocessors)
// with the least time are taken, as library heuristics do. To the larger of
// that and the memory time come launch and ramp: filling and draining the
// device. Read off NVIDIA's plot of cuBLAS on A100 (f16, n = 512, 1024, 2048,
// 4096, 8192: 27, 90, 195, 260, 290 TFLOP/s): ramp and launch of 9 us, and 0.92
// of peak at short load, of which sustained load leaves the device file's peak
// fraction.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_MACHINE_COMPUTECOST_H
#define DPC_COST_MODEL_MACHINE_COMPUTECOST_H

#include "cost-model/machine/Cluster.h"

namespace dpc::cost {

/// `batch` GEMMs of [m, k] by [k, n].
struct GemmShape {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  /// Whether the operands lie in memory as [k, m] and [n, k].
  bool transA = false, transB = false;
  /// The elements of operands and results in memory; 0 = those of the GEMM. A
  /// convolution has fewer: it reads its image instead of the matrix of
  /// windows, which repeats the elements of the image.
  int64_t elements = 0;
  /// The most parts that k is cut into.
  int64_t mostParts = 8;
  /// Bytes of an element of the result; 0 = as the operands. GEMMs of fp8 give
  /// bf16 or f32.
  int64_t resultBytes = 0;

  /// Two per multiply-add.
  double flops() const;
  /// The operands are read once, the result is written once.
  double bytes(DType type) const;
};

/// The fraction of the device's peak that a GEMM of this shape reaches without
/// launch and memory time, in (0, 1]; 0 for an empty shape.
double gemmEfficiency(const Device &device, DType type, const GemmShape &shape);

/// Seconds of a GEMM; 0 for an empty shape. The device must have a peak for
/// `type` (see computeType). With measured rates (GemmTable.h) an f32 GEMM
/// takes launch
/// + flops / rate.
double gemmSeconds(const Device &device, DType type, const GemmShape &shape);

/// Seconds of a kernel that streams `bytes` and does `flops` scalar operations
/// (elementwise, reductions, norms, gathers, copies, the optimizer). Scalar
/// operations run at Device::scalarRate. 0 when both are 0.
double streamSeconds(const Device &device, double bytes, double flops = 0);

/// Batched attention on one device; the scores are queries x keys.
struct AttentionShape {
  int64_t batch = 1; ///< Samples times heads.
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, valueDepth = 0; ///< head_dim of keys and of values.
  bool causal = false;
  bool backward = false;
  double flops = 0; ///< Without the masked half.
};

/// Seconds of attention with the kernels of `software` (see Software.h), which
/// must not be planned ones.
double attentionSeconds(const Device &device, DType type,
                        const AttentionShape &shape, const Software &software);

/// `wanted` if the device computes in it, else its replacement: the other
/// 16-bit type (bf16 on V100 -> f16), 16 bits for fp8, else f32.
DType computeType(const Device &device, DType wanted);

/// Bytes per second that streaming kernels reach.
double achievableBandwidth(const Device &device);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_MACHINE_COMPUTECOST_H
