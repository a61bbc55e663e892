//===- ExpertRows.h - Rows that stay with their experts ---------*- C++ -*-===//
//
// A mixture of experts computes f(x w1[e]) w2[e] for each row, where e is the
// expert of the row and f an activation. If an axis splits the experts, each
// rank has the products of its own experts, and zeros in the other rows. A sum
// over the ranks would complete the rows after w1, but the activation needs no
// complete rows: each rank applies it to all rows, and the product with w2
// ignores rows of experts on other ranks. Between the two products, values are
// *routed* over the axis (ir/Sharding.h). Gradients take the same way back.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Marks the forward ops whose results are routed if the experts are split
/// (attr::kRouted): products of experts and lookups of their biases that only
/// lead, through ops on rows, to other products with the same ids; these ops;
/// and the gradients of the rows that the latter products read. Replaces the
/// marks of an earlier call. Runs before ProgramFacts, whose rules read the
/// marks; ops must not be replaced in between.
void markRoutedRows(mlir::func::FuncOp func);

/// Returns `ids` before reshapes, which keep the order of the rows.
mlir::Value rowIds(mlir::Value ids);

/// Returns how many first dimensions of `value` count `rows` rows, or -1.
int64_t rowRank(mlir::Value value, int64_t rows);

/// Returns whether `op` computes each of `rows` rows of its result from the
/// same rows of the operand `value`.
bool keepsRows(mlir::Operation *op, mlir::Value value, int64_t rows);

/// Returns the results of `ops`, which are in program order, that have rows of
/// experts: those of products, and what is computed from the same rows.
llvm::DenseSet<mlir::Value>
rowsOfExperts(llvm::ArrayRef<mlir::Operation *> ops);

/// Returns whether `lookup` gives the biases of the experts of rows with `ids`.
bool looksUpBias(EmbeddingOp lookup, mlir::Value ids, int64_t experts);

/// Returns whether `value` is routed if an axis splits the experts.
inline bool mayBeRouted(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  return op && op->hasAttr(attr::kRouted);
}

} // namespace dpc
