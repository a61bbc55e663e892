//===- CompressTopK.h - Gradients of which the largest travel ---*- C++ -*-===//
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

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/shard/ReshardPlan.h"

namespace dpc {

/// Elements of one block, of which the largest are chosen and which share an
/// int8 scale.
inline constexpr int64_t kCompressBlock = 256;

/// Adds a state "residual" of the parameter `of` to a function of the local
/// altitude and returns it: [1, rows, 256], different on every rank. The caller
/// must then call setNextResidual.
mlir::BlockArgument addResidual(mlir::func::FuncOp func, llvm::StringRef of,
                                int64_t rows);
void setNextResidual(mlir::func::FuncOp func, mlir::BlockArgument residual,
                     mlir::Value next);

/// Expands one all_reduce of one tensor in two parts.
class TopKReduction {
public:
  /// The all_reduce is over `ranks` ranks.
  TopKReduction(AllReduceOp op, int64_t ranks, double share);

  int64_t rows();
  /// Emits the exchange. Returns the next residual.
  mlir::Value handOver(GraphBuilder &g, mlir::Value residual);
  /// Emits the sum and replaces the result.
  void finish(GraphBuilder &g);

private:
  /// The positions of `index`, [.., k], as booleans [.., k, 256].
  mlir::Value pointsAt(GraphBuilder &g, mlir::Value index);

  AllReduceOp op;
  int64_t ranks, count;
  mlir::Value values, codes; ///< Of all ranks.
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_COMPRESSTOPK_H
