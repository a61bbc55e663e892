//===- ComputeCost.h - Time of local work on one device ---------*- C++ -*-===//
//
// Roofline: a kernel takes launch + max(arithmetic time, memory time).
//
// `batch` GEMMs of m x n x k run on S multiprocessors, with k split into s
// parts and output tiles of tm x tn. Tiles and waves are quantized:
//   tiles  = batch * ceil(m/tm) * ceil(n/tn) * s
//   waves  = ceil(tiles / S)
//   depth  = k/s + halfK (prologue and epilogue of a tile, as extra k)
//   steps  = waves * tm * tn * depth (multiply-adds of one multiprocessor)
//   intensity = (1 + c (1/TM + 1/TN)) / (1 + c (1/tm + 1/tn))
//            For each index of k, a tile does tm*tn multiply-adds and loads
//            tm + tn operands. Loading an operand costs as much as c
//            multiply-adds (operandCost). TM x TN is the largest tile.
//   aligned = misalignedFraction if the bytes of k operand elements or of n
//            result elements are not a multiple of alignBytes, else 1
//   time   = steps / (peak/2/S * peakFraction * intensity * aligned)
//            + 8 s m n batch / bandwidth if s > 1: f32 partial sums are written
//            and read
//
// Libraries choose good tiles, so the formula takes the fastest tile (TM x TN,
// TN x TM, and both sides halved up to twice) and the fastest s (a power of two
// up to mostParts, only if there are fewer tiles than multiprocessors). A GEMM
// takes the larger of this time and the memory time, plus the launch and the
// ramp, in which the device fills and drains.
//
// NVIDIA's plot of cuBLAS on A100 (f16, n = 512, 1024, 2048, 4096, 8192: 27,
// 90, 195, 260, 290 TFLOP/s) gives 9 us for ramp and launch, and 0.92 of the
// peak under short load. The device file's peak fraction is for sustained load.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"

namespace dpc::cost {

/// `batch` GEMMs of [m, k] by [k, n].
struct GemmShape {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  /// Whether the operands are stored transposed, as [k, m] and [n, k].
  bool transA = false, transB = false;
  /// The elements of operands and results in memory; 0 = as many as the shape
  /// has. A convolution has fewer, because it reads the image instead of the
  /// im2col matrix.
  int64_t elements = 0;
  /// The largest number of parts into which k is split.
  int64_t mostParts = 8;
  /// Bytes per element of the result; 0 = as in the operands. GEMMs in fp8 have
  /// bf16 or f32 results.
  int64_t resultBytes = 0;

  /// Counts a multiply-add as two.
  double flops() const;
  double bytes(DType type) const;
};

/// Returns the fraction of the device's peak that a GEMM reaches, without
/// launch and memory time, in (0, 1]; 0 for an empty shape.
double gemmEfficiency(const Device &device, DType type, const GemmShape &shape);

/// Returns the seconds of a GEMM; 0 for an empty shape. The device must have a
/// peak for `type` (see computeType). If the device has measured rates
/// (GemmTable.h), an f32 GEMM takes launch + flops / rate.
double gemmSeconds(const Device &device, DType type, const GemmShape &shape);

/// Returns gemmSeconds() in the type that the device has for `wanted` (see
/// computeType), with the conversions of Device::narrowElementSeconds.
double narrowGemmSeconds(const Device &device, DType wanted,
                         const GemmShape &shape);

/// Returns the seconds of a kernel that moves `bytes` and runs `flops` scalar
/// operations at Device::scalarRate: an elementwise op, a reduction, a norm, a
/// gather, a copy or the optimizer. 0 if both arguments are 0.
double streamSeconds(const Device &device, double bytes, double flops = 0);

/// Batched attention on one device with queries x keys scores.
struct AttentionShape {
  int64_t batch = 1; ///< Samples times heads.
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, valueDepth = 0; ///< head_dim of keys and of values.
  bool causal = false;
  bool backward = false;
  double flops = 0; ///< Without the scores that masks by position remove.
  std::optional<int64_t> window = {}; ///< Keys of a query.
};

/// Returns the seconds of attention with the kernels of `software` (see
/// Software.h). `software.attention` must not be `Planned`.
double attentionSeconds(const Device &device, DType type,
                        const AttentionShape &shape, const Software &software);

/// Returns `wanted` if the device has a peak for it, else a replacement: the
/// other 16-bit type for bf16 and f16, a 16-bit type for fp8, or f32.
DType computeType(const Device &device, DType wanted);

/// Returns the bytes per second that streaming kernels reach.
double achievableBandwidth(const Device &device);

} // namespace dpc::cost
