//===- Shared.h - Functions that several families use -----------*- C++ -*-===//
#pragma once

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

/// Returns the square root of a sum of squares. As in torch, the gradient is 0
/// where the sum is 0.
Val rootOf(Call &c, Val sum);

/// Returns the norm of `order` over `dims`, which it drops.
Val normAlong(Call &c, Val x, double order, llvm::ArrayRef<int64_t> dims);

/// The dimensions of a tensor that several integer tensors index together.
struct Points {
  Val position;   ///< the index in the merged dimensions, for each element
  Shape perm;     ///< puts the indexed dimensions of the tensor first
  size_t indexed; ///< the number of indexed dimensions
  int64_t front;  ///< the number of dimensions before them in the result

  /// Permutes [position.., rest..] to the order of x[:, i, j].
  Shape resultPerm() const;
};

/// Fails if an index is no integer. A null index keeps a dimension.
std::optional<Points> pointsOf(Call &c, Val x, llvm::ArrayRef<Val> indices);

} // namespace dpc::frontend::pt2
