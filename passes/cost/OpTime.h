//===- OpTime.h - Seconds of one op on one device ----------------*- C++
//-*-===//
#ifndef DPC_PASSES_COST_OPTIME_H
#define DPC_PASSES_COST_OPTIME_H

#include "cost-model/machine/ComputeCost.h"
#include "ir/Dialect.h"

namespace dpc {

/// Bytes of one element of `value` (i1 counts as a byte).
int64_t elementBytes(mlir::Value value);

/// The cost model's name of a float type; f32 for all else.
cost::DType costType(mlir::Type elementType);

/// What ops run on and with.
struct OpPricing {
  const cost::Device &device;
  const cost::Software &software;
  /// Bytes of activations are counted in 16 bits (Software::narrowActivations,
  /// where products are).
  bool narrow = false;
};

/// Seconds of `op` as typed, alone: matmuls by the GEMM model in their own
/// element type, attention by the software's kernels (by its operations at the
/// GEMM rate where they are the plan's, which has none left when it is lowered
/// for them), all else by the bytes it reads and writes. 0 for ops that only
/// rename or are constant.
double opSeconds(mlir::Operation *op, const OpPricing &pricing);

/// The same with this compiler's kernels.
double opSeconds(mlir::Operation *op, const cost::Device &device);

/// Bytes of a value that moves in forward or backward, as `narrow` has it:
/// values of rank 3 and more (samples, positions, channels) are activations.
double activationBytes(mlir::Value value, bool narrow);

} // namespace dpc

#endif // DPC_PASSES_COST_OPTIME_H
