//===- OpTime.h - Seconds of one op on one device ---------------*- C++ -*-===//
#pragma once

#include "cost-model/machine/ComputeCost.h"
#include "ir/Dialect.h"

namespace dpc {

/// Returns the bytes of one element. An i1 takes a byte.
int64_t elementBytes(mlir::Value value);

/// Returns the cost model's name of a float type, or f32 for other types.
cost::DType costType(mlir::Type elementType);

struct OpPricing {
  const cost::Device &device;
  const cost::Software &software;
  /// True if f32 activations count as 16-bit (Software::narrowActivations).
  bool narrow = false;
  int64_t microBatches = 1; ///< Per step, on a rank.
  bool hasFp8 = false;      ///< Whether matmuls of the program run in fp8.
};

/// Returns the seconds of `op` when it runs alone, or 0 for views and
/// constants. GEMMs are priced by the GEMM model in their element type.
/// Attention is priced by the software's attention kernels, or by its FLOPs at
/// the rate of GEMMs if the plan expands it. All other ops are priced by the
/// bytes that they read and write.
double opSeconds(mlir::Operation *op, const OpPricing &pricing);

/// opSeconds with this compiler's kernels.
double opSeconds(mlir::Operation *op, const cost::Device &device);

/// Returns the bytes of a value in the forward or backward pass. With `narrow`,
/// an f32 activation takes 2 bytes per element. Values with at least three
/// dimensions (samples, positions, channels) are activations.
double activationBytes(mlir::Value value, bool narrow);

} // namespace dpc
