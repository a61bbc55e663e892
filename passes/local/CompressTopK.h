//===- CompressTopK.h - Gradients of which the largest travel ---*- C++ -*-===//
//
// Of every 256 numbers of a gradient a rank sends the k that are largest, with
// their positions, and keeps the others for the next step (error feedback, Lin
// et al. 2018, without their sampling: the largest of a block are found
// exactly):
//
//   sum = gradient + residual                      [rows, 256]
//   index = positions of the k largest |sum|       [rows, k]
//   residual' = sum, with zeros at index
//   all_gather (sum at index, index) -> all ranks add what they got
//
// Nothing is lost: what is not sent is sent later. A NaN counts as largest, so
// that it is seen. All ranks add up the same numbers in the same way.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_COMPRESSTOPK_H
#define DPC_PASSES_LOCAL_COMPRESSTOPK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/shard/ReshardPlan.h"

namespace dpc {

/// Numbers of which the largest are picked, and which share an int8 scale.
inline constexpr int64_t kCompressBlock = 256;

/// Gives a function of the local altitude a state "residual" of the parameter
/// `of`, of its own for every rank, and returns it: [1, rows, 256]. Its next
/// value is to be set by setNextResidual.
mlir::BlockArgument addResidual(mlir::func::FuncOp func, llvm::StringRef of,
                                int64_t rows);
void setNextResidual(mlir::func::FuncOp func, mlir::BlockArgument residual,
                     mlir::Value next);

/// One all-reduce of one tensor, in two parts.
class TopKReduction {
public:
  /// `ranks`: over how many the all-reduce sums up.
  TopKReduction(AllReduceOp op, int64_t ranks, double share);

  int64_t rows();
  /// Emits what is sent; returns the next residual.
  mlir::Value handOver(GraphBuilder &g, mlir::Value residual);
  /// Emits the sum and replaces the result.
  void finish(GraphBuilder &g);

private:
  /// Where `index` [.., k] points: [.., k, 256] of booleans.
  mlir::Value pointsAt(GraphBuilder &g, mlir::Value index);

  AllReduceOp op;
  int64_t ranks, count;
  mlir::Value values, codes; ///< Of all ranks.
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_COMPRESSTOPK_H
