//===- Vjp.h - Gradients of ops ---------------------------------*- C++ -*-===//
//
// One external model of VjpOpInterface per op, in one file per family. An op's
// model builds, at the builder's insertion point,
//
//   operandGrads[i] = sum_r resultGrads[r] * d result_r / d operand_i
//
// A null gradient is zero. `wanted[i]` is false where nobody asks; models must
// not build ops for it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_VJP_VJP_H
#define DPC_PASSES_GRAPH_VJP_VJP_H

#include "mlir/IR/DialectRegistry.h"
#include "passes/graph/GraphBuilder.h"

namespace dpc {

/// Attaches the gradients of all ops when the dialect loads.
void registerVjpModels(mlir::DialectRegistry &registry);

namespace vjp {
/// What a model receives (see VjpOpInterface).
using Grads = llvm::SmallVectorImpl<mlir::Value>;

void attachElementwise(mlir::MLIRContext &context);
void attachMovement(mlir::MLIRContext &context);
void attachContraction(mlir::MLIRContext &context);
void attachRows(mlir::MLIRContext &context);
void attachSpatial(mlir::MLIRContext &context);
} // namespace vjp

} // namespace dpc

#endif // DPC_PASSES_GRAPH_VJP_VJP_H
