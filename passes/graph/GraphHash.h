//===- GraphHash.h - which function a model computes ------------*- C++ -*-===//
//
// Two models with the same weights may compute different functions. A hash of
// the graph tells them apart without running them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Value.h"

namespace dpc {

/// Two hashes of how `results` of an imported @forward depend on the arguments
/// of the function. Each is a Merkle hash: the hash of a value is that of its
/// op, attributes, element type and operands, so that the order of ops and ops
/// without effect on `results` do not matter. Parameters count with name, shape
/// and element type; other arguments without their shape. Shapes of other
/// values do not count, because they depend on the batch size and the sequence
/// length.
struct GraphHash {
  /// Without the values of scalar constants. Changing the batch size keeps this
  /// hash.
  uint64_t structure = 0;
  /// With them. A mean over the batch contains the number of samples.
  uint64_t values = 0;
};
/// Where gradients stop counts only if `trains`.
GraphHash hashGraph(mlir::ValueRange results, bool trains = true);

} // namespace dpc
