//===- IndexUse.h - Ops that read integers as indices -----------*- C++ -*-===//
#pragma once

#include "ir/IndexRange.h"

namespace dpc {

/// The indices that an operand accepts: 0 to count - 1, and a label that a loss
/// ignores.
struct AcceptedIndices {
  int64_t count = 0; ///< positive
  std::optional<int64_t> ignored;

  bool operator==(const AcceptedIndices &) const = default;
};

/// Returns what the operand `use` accepts, or nullopt if it is no index. A
/// comparison with kBounded accepts the positions of its iota.
std::optional<AcceptedIndices> acceptedBy(mlir::OpOperand &use);

/// A value that consists of elements of an input.
struct MovedIndices {
  mlir::Value value;
  int64_t added = 0; ///< to each element
  int64_t wraps = 0; ///< then added to negative elements
  int64_t ahead = 0; ///< positions that were removed along dimension 1
};

/// Sets `from` to the result of the user of `use`, if its elements are those of
/// `from` after movement, after the addition of a constant, or after negative
/// indices wrap. Such a result may also have constant elements. A value that is
/// computed otherwise, such as by a clamp, has other bounds.
bool moveThrough(mlir::OpOperand &use, MovedIndices &from);

/// Returns whether `use` accepts all elements, whatever the weights and inputs
/// are: ops or constants keep them in range, or moveThrough() leads to them
/// from an integer input, whose elements the runtime checks.
bool isKnownAccepted(mlir::OpOperand &use);

} // namespace dpc
