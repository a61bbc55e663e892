//===- FuseEpilogues.h - What products do beside multiplying ------*- C++ -*-===//
//
// The parts of dpc-end-products: what ends a product is found first
// (EndProductsMatch.cpp), then made one kernel with it (ir/GemmEpilogues.h).
// Nothing is known of a plan here: what decides whether one call can do it is
// how operands lie (ir/GemmLayout.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FUSEEPILOGUES_H
#define DPC_PASSES_LOCAL_FUSEEPILOGUES_H

#include "ir/GemmLayout.h"
#include "passes/local/FormKernels.h"

namespace dpc {

/// What a product does beside multiplying, and for whom.
struct ProductEnding {
  llvm::StringRef epilogue = "none";
  mlir::Value result; ///< What becomes of the product.
  /// A vector repeated in every row, what gelu is applied to or its gradient
  /// taken at, and sums of rows; null where `epilogue` has none.
  mlir::Value bias, aux, sums;
  KernelOp widening; ///< Reads `sums` converted to the product's type; or null.
  AccumulateOp adds; ///< Adds up `result`, or null.
  llvm::SmallVector<mlir::Operation *> parts; ///< What does the same.
  /// Stands before the product, and can only run behind it.
  llvm::SmallVector<mlir::Operation *> waiting;

  bool isNothing() const { return epilogue == "none" && !adds; }
};

/// True for what lies in its operand's buffer, of ops that move data.
bool isMarkedView(mlir::Operation *op);

/// Lets sums of rows read a value rather than a copy of it in f32.
void sumNarrowValues(mlir::Block &block);

/// What stands behind `product`, with sums of its rows; or what adds it up, and
/// sums of its factors' rows. Nothing where there is none.
std::optional<ProductEnding> endingBehind(MatmulOp product);
std::optional<ProductEnding> endingBeside(MatmulOp product);

/// Lets the products of a step's loop do what follows them. What is done
/// already stays.
void endProducts(mlir::func::FuncOp step);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FUSEEPILOGUES_H
