//===- Shared.h - Functions that several families use -----------*- C++ -*-===//
#pragma once

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

/// Returns the square root of a sum of squares. As in torch, the gradient is 0
/// where the sum is 0.
Val rootOf(Call &c, Val sum);

/// Returns the norm of `order` over `dims`, which it drops.
Val normAlong(Call &c, Val x, double order, llvm::ArrayRef<int64_t> dims);

} // namespace dpc::frontend::pt2
