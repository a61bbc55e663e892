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
  /// Activations have 16 bits if the GEMMs do (Software::narrowActivations).
  bool narrow = false;
};

/// The seconds of `op` when it runs alone; 0 for views and constants. GEMMs are
/// priced by the GEMM model in their element type, and attention by the
/// software's attention kernels. If the plan expands attention, its FLOPs run
/// at the rate of GEMMs. All other ops are priced by the bytes that they read
/// and write.
double opSeconds(mlir::Operation *op, const OpPricing &pricing);

/// opSeconds with this compiler's kernels.
double opSeconds(mlir::Operation *op, const cost::Device &device);

/// The bytes of a value of the forward or backward pass. With `narrow`, an f32
/// activation counts 2 bytes per element. Values with at least three dimensions
/// (samples, positions, channels) count as activations.
double activationBytes(mlir::Value value, bool narrow);

} // namespace dpc

#endif // DPC_PASSES_COST_OPTIME_H
