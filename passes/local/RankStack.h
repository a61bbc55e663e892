//===- RankStack.h - Values that stack the parts of ranks -------*- C++ -*-===//
//
// A value stacks the parts of the ranks of an axis if one of its dimensions has
// them, one after the other, as the outermost factor. Moves within each part
// (reshapes, transposes, collectives over other axes) and conversions keep this
// property, and can be applied to the part of one rank alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

#include <optional>

namespace dpc {

/// A move, and the dimension of its result that has the parts.
struct StackMove {
  mlir::Operation *op;
  int64_t dim;
};

/// A value whose first dimension has the parts of the ranks: an all_gather over
/// the axis, perhaps with further axes inside, and moves of its result with at
/// most one conversion.
class RankStack {
public:
  /// Returns nullopt if `value` is no such stack over `axis` of `ranks` ranks.
  static std::optional<RankStack> find(mlir::Value value, mlir::StringAttr axis,
                                       int64_t ranks);

  AllGatherOp gather() const { return base; }
  /// The parts as the all_gather stacks them.
  mlir::Value gathered() const { return AllGatherOp(base)->getResult(index); }
  /// Returns the part of this rank without communication over the axis, as
  /// elements of `type`.
  mlir::Value partOf(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Type type) const;

private:
  AllGatherOp base;
  int64_t index = 0; ///< of the result of `base`
  llvm::SmallVector<StackMove> moves;
  int64_t ranks = 1;
};

/// Moves of a value whose first dimension has the parts of the ranks, each for
/// the only reader of the value before, up to an op that leaves the sum of this
/// part to each rank: a reduce_scatter over the axis, perhaps with further axes
/// inside, or the rank_slice after an all_reduce over these and other axes.
class RankScatter {
public:
  /// Returns nullopt if `value` is not scattered so.
  static std::optional<RankScatter> find(mlir::Value value,
                                         mlir::StringAttr axis, int64_t ranks);

  mlir::Operation *end() const { return last; }
  /// Moves `part`, the sum of the part of this rank, without communication over
  /// the axis. Returns what replaces the result of end().
  mlir::Value scatter(mlir::OpBuilder &builder, mlir::Value part) const;
  void erase();

private:
  mlir::Operation *last = nullptr;
  mlir::StringAttr axis;
  llvm::SmallVector<StackMove> moves;
  int64_t ranks = 1;
};

} // namespace dpc
