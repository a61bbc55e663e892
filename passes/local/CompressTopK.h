//===- CompressTopK.h - Sends the largest elements of gradients -*- C++ -*-===//
//
// From every block of 256 gradient elements, a rank sends the k largest with
// their positions. It adds the others to the gradient of the next step (error
// feedback, Lin et al. 2018). Lin et al. select elements by sampling; here the
// selection is exact within each block:
//
//   sum = gradient + residual                      [rows, 256]
//   index = positions of the k largest |sum|       [rows, k]
//   residual' = sum, with zeros at index
//   all_gather (sum at index, index) -> every rank adds what it received
//
// A NaN counts as the largest element, so it is always sent. All ranks add the
// same terms in the same order, so their results are equal.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The number of elements in a block of top-k or int8 compression.
inline constexpr int64_t kCompressBlock = 256;

/// Replaces `op`, an all_reduce of one tensor over `ranks` ranks, by
/// all_gathers of the fraction `share` of its elements. The sum is emitted
/// before `sumAt`. Adds a state "residual" of shape [1, rows, 256], which
/// differs between ranks, for the parameter `of` to the local function `func`.
void reduceLargest(mlir::func::FuncOp func, AllReduceOp op, int64_t ranks,
                   double share, llvm::StringRef of, mlir::Operation *sumAt);

} // namespace dpc
