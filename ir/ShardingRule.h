//===- ShardingRule.h - How an op may be split ------------------*- C++ -*-===//
//
// An op is a loop nest over *iteration dimensions*. Every dimension of every
// operand and result is a row-major list of iteration dimensions. The list is
// empty for a dimension of size 1 and for a repeated dimension. The verifier,
// propagation, search and partitioning need nothing else:
//
//   matmul a[b,m,k] b[k,n] -> [b,m,n]
//     dims      b: parallel   m: parallel   k: parallel (summed)   n: parallel
//     operands  [[b],[m],[k]]  [[k],[n]]       results  [[b],[m],[n]]
//
//   reshape [8,64] -> [8,4,16]
//     dims      x=8  h=4  d=16
//     operands  [[x],[h,d]]                    results  [[x],[h],[d]]
//
// If a mesh axis splits an iteration dimension, it splits every operand and
// result dimension that contains the iteration dimension. A result that does
// not contain the iteration dimension becomes a partial value over the axis;
// the reduction kind of the iteration dimension combines the partial values.
//
// An operand may itself be partial over an axis. `linear` lists groups of
// operands: if exactly the operands of one group are partial sums, every result
// is a partial sum. `add` has the group {0, 1}; `mul` has the groups {0} and
// {1}. An op with `movesData` accepts a partial operand 0 of any kind. If an
// operand is routed over an axis, so are all results. Only ops that compute
// each row from the same rows of their operands may read routed values;
// dpc-shard finds them (passes/shard/ExpertRows.h).
//
//===----------------------------------------------------------------------===//
#pragma once

// Include ir/Dialect.h instead of this file: the enumerations must come before
// it, and the ops after it.
#include "mlir/IR/Operation.h"

namespace dpc {

/// One loop of an op.
struct IterDim {
  int64_t size;
  /// The dimension cannot be split, because each result element depends on all
  /// of it.
  bool whole = false;
  /// How partial values are combined in results that do not contain this
  /// dimension.
  ReduceKind reduction = ReduceKind::sum;
};

/// The iteration dimensions of one tensor dimension, row-major.
using DimMap = llvm::SmallVector<int64_t, 2>;
using TensorMap = llvm::SmallVector<DimMap, 4>;

struct ShardingRule {
  llvm::SmallVector<IterDim, 6> dims;
  llvm::SmallVector<TensorMap, 4> operands;
  llvm::SmallVector<TensorMap, 2> results;
  llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 2> linear;
  /// The dimension of experts, of which each row has one, or -1. If an axis
  /// splits it, the op ignores rows whose expert is on another rank, so that
  /// operands may be routed over the axis (Sharding.h).
  int64_t experts = -1;
  /// Whether results without the dimension `experts` are routed over an axis
  /// that splits it, and no partial sums.
  bool routes = false;
  bool movesData = false;
  /// For global_norm: operands may have different shardings, and no result is
  /// partial, because partitioning adds the collectives that combine the
  /// shards.
  bool combines = false;

  int64_t addDim(int64_t size, bool whole = false,
                 ReduceKind reduction = ReduceKind::sum);
  llvm::SmallVector<int64_t> addDims(llvm::ArrayRef<int64_t> sizes,
                                     bool whole = false);
  /// Returns a copy of this rule with other maps and `linear` groups.
  ShardingRule with(llvm::ArrayRef<TensorMap> operandMaps,
                    llvm::ArrayRef<TensorMap> resultMaps,
                    llvm::ArrayRef<llvm::SmallVector<int64_t, 2>> groups = {});
};

/// Maps tensor dimension i to iteration dimension dims[i], or to none if
/// dims[i] is -1.
TensorMap oneToOne(llvm::ArrayRef<int64_t> dims);

/// Returns the rule of an op whose operands and results all have the same
/// shape.
ShardingRule elementwiseRule(mlir::Operation *op);

} // namespace dpc
