//===- CompressTopK.h - Sends the largest elements of gradients -*- C++ -*-===//
//
// Of every 256 elements of a gradient, a rank sends the k largest with their
// positions and keeps the others for the next step. This is the error feedback
// of Lin et al. 2018, but it selects the exact largest elements of each block,
// where Lin et al. sample:
//
//   sum = gradient + residual                      [rows, 256]
//   index = positions of the k largest |sum|       [rows, k]
//   residual' = sum, with zeros at index
//   all_gather (sum at index, index) -> every rank adds what it received
//
// No element is lost: elements that are not sent are added in the next step. A
// NaN counts as the largest element, so it is always sent. All ranks add the
// same terms in the same order.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_COMPRESSTOPK_H
#define DPC_PASSES_LOCAL_COMPRESSTOPK_H

#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// The number of elements of a block. The largest elements are chosen per
/// block, and the elements of a block share one int8 scale.
inline constexpr int64_t kCompressBlock = 256;

/// Replaces `op`, an all_reduce of one tensor over `ranks` ranks. The ranks
/// gather the fraction `share` of its elements instead. The sum is emitted
/// before `sumAt`. `func`, a function of the local altitude, gets a state
/// "residual" [1, rows, 256] for the parameter `of`; the state is different on
/// every rank.
void reduceLargest(mlir::func::FuncOp func, AllReduceOp op, int64_t ranks,
                   double share, llvm::StringRef of, mlir::Operation *sumAt);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_COMPRESSTOPK_H
