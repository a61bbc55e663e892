//===- OpTime.h - Seconds of one op on one device ----------------*- C++
//-*-===//
#ifndef DPC_PASSES_SHARD_OPTIME_H
#define DPC_PASSES_SHARD_OPTIME_H

#include "cost-model/ComputeCost.h"
#include "ir/Dialect.h"

namespace dpc {

/// Bytes of one element of `value` (i1 counts as a byte).
int64_t elementBytes(mlir::Value value);

/// The cost model's name of a float type; f32 for all else.
cost::DType costType(mlir::Type elementType);

/// Seconds of `op` as typed, alone: matmuls by the GEMM model in their own
/// element type, attention by its operations at the GEMM rate, all else by the
/// bytes it reads and writes. 0 for ops that only rename or are constant.
double opSeconds(mlir::Operation *op, const cost::Device &device);

} // namespace dpc

#endif // DPC_PASSES_SHARD_OPTIME_H
