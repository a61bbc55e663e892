//===- OpTime.h - Seconds of one op on one device ---------------*- C++ -*-===//
#ifndef DPC_PASSES_COST_OPTIME_H
#define DPC_PASSES_COST_OPTIME_H

#include "cost-model/machine/ComputeCost.h"
#include "ir/Dialect.h"

namespace dpc {

/// Bytes of one element of `value`; an i1 counts as a byte.
int64_t elementBytes(mlir::Value value);

/// The cost model's name of a float type; f32 for other types.
cost::DType costType(mlir::Type elementType);

/// The device and software that run an op.
struct OpPricing {
  const cost::Device &device;
  const cost::Software &software;
  /// Activations have 16 bits if GEMMs do (Software::narrowActivations).
  bool narrow = false;
};

/// Seconds of `op` alone: GEMMs by the GEMM model in their element type,
/// attention by the software's kernels (if the plan expands attention, its
/// FLOPs at the rate of GEMMs), other ops by the bytes that they read and
/// write. 0 for views and constants.
double opSeconds(mlir::Operation *op, const OpPricing &pricing);

/// The same with this compiler's kernels.
double opSeconds(mlir::Operation *op, const cost::Device &device);

/// Bytes of a value of the forward or backward pass. With `narrow` an f32
/// activation counts 2 bytes per element; activations are the values with at
/// least three dimensions (samples, positions, channels).
double activationBytes(mlir::Value value, bool narrow);

} // namespace dpc

#endif // DPC_PASSES_COST_OPTIME_H
