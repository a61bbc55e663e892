//===- CompressTopK.h - Sends the largest elements of gradients -*- C++ -*-===//
//
// Of every 256 elements of a gradient, a rank sends the k largest with their
// positions and keeps the others for the next step (error feedback, Lin et al.
// 2018, but with the exact largest elements of each block instead of their
// sampling):
//
//   sum = gradient + residual                      [rows, 256]
//   index = positions of the k largest |sum|       [rows, k]
//   residual' = sum, with zeros at index
//   all_gather (sum at index, index) -> every rank adds what it received
//
// Nothing is lost, only sent later. A NaN counts as largest, so that it shows.
// All ranks add the same terms in the same order.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_COMPRESSTOPK_H
#define DPC_PASSES_LOCAL_COMPRESSTOPK_H

#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Elements of one block, of which the largest are chosen and which share an
/// int8 scale.
inline constexpr int64_t kCompressBlock = 256;

/// Replaces `op`, an all_reduce of one tensor over `ranks` ranks, by gathers of
/// the share `share` of its elements. The sum is emitted before `sumAt`.
/// `func`, a function of the local altitude, gets a state "residual" of the
/// parameter `of`: [1, rows, 256], different on every rank.
void reduceLargest(mlir::func::FuncOp func, AllReduceOp op, int64_t ranks,
                   double share, llvm::StringRef of, mlir::Operation *sumAt);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_COMPRESSTOPK_H
