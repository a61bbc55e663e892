//===- ShardingRule.h - How an op may be split ------------------*- C++ -*-===//
//
// An op is a loop nest over *iteration dimensions*. Every dimension of every
// operand and result is a row-major list of iteration dimensions (none = a unit
// or repeated dimension). That is all that verification, propagation, search
// and partitioning need to know:
//
//   matmul a[b,m,k] b[k,n] -> [b,m,n]
//     dims      b: parallel   m: parallel   k: parallel (summed)   n: parallel
//     operands  [[b],[m],[k]]  [[k],[n]]       results  [[b],[m],[n]]
//
//   reshape [8,64] -> [8,4,16]
//     dims      x=8  h=4  d=16
//     operands  [[x],[h,d]]                    results  [[x],[h],[d]]
//
// An axis that splits an iteration dimension splits every operand and result
// dimension that it appears in. A result it does not appear in becomes partial
// over that axis, with the dimension's reduction kind. A dimension that is
// `whole` cannot be split.
//
// Partial operands: `linear` lists groups of operands; if all operands of one
// group (and no other) are partial sums over an axis, so is every result. `add`
// has the one group {0, 1}, `mul` the groups {0} and {1}. Ops that only move
// data set `movesData`: operand 0 may be partial of any kind.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_SHARDINGRULE_H
#define DPC_IR_SHARDINGRULE_H

// Included by ir/Dialect.h (include that), after the enumerations and before
// the ops.
#include "mlir/IR/Operation.h"

namespace dpc {

/// One loop of an op.
struct IterDim {
  int64_t size;
  /// Every element needs all of this dimension; it cannot be split.
  bool whole = false;
  /// How results that lack this dimension combine its shards.
  ReduceKind reduction = ReduceKind::sum;
};

/// The iteration dimensions of one tensor dimension, row-major.
using DimMap = llvm::SmallVector<int64_t, 2>;
/// One DimMap per tensor dimension.
using TensorMap = llvm::SmallVector<DimMap, 4>;

/// See the file comment.
struct ShardingRule {
  llvm::SmallVector<IterDim, 6> dims;
  llvm::SmallVector<TensorMap, 4> operands;
  llvm::SmallVector<TensorMap, 2> results;
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 2> linear;
  bool movesData = false;
  /// Partitioning adds the collectives that combine shards (global_norm): each
  /// operand may be split in its own way and no result is partial.
  bool combines = false;

  /// Adds an iteration dimension and returns its index.
  int64_t addDim(int64_t size, bool whole = false,
                 ReduceKind reduction = ReduceKind::sum);
};

/// Maps tensor dimension i to iteration dimension dims[i] (-1 = none).
TensorMap oneToOne(llvm::ArrayRef<int64_t> dims);

/// The rule of an op whose results have its operands' shape.
ShardingRule elementwiseRule(mlir::Operation *op);

} // namespace dpc

#endif // DPC_IR_SHARDINGRULE_H
