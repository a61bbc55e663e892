//===- Vjp.h - Gradients of ops ---------------------------------*- C++ -*-===//
//
// Each op has one function that builds its vector-Jacobian product at the
// builder's insertion point:
//
//   gradient of operand i = sum_r (gradient of result r) * d result_r / d x_i
//
// `attach` makes a model of VjpOpInterface from such a function.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_VJP_VJP_H
#define DPC_PASSES_GRAPH_VJP_VJP_H

#include "passes/graph/GraphBuilder.h"

namespace dpc::vjp {

/// The arguments of VjpOpInterface::buildVjp.
struct Request {
  llvm::ArrayRef<mlir::Value> resultGrads; ///< null: the gradient is zero
  llvm::ArrayRef<bool> wanted;             ///< per operand
  llvm::SmallVectorImpl<mlir::Value> &operandGrads;

  /// Sets the gradient of operand `i` to `build()` if it is wanted.
  template <typename Build> void set(unsigned i, Build build) const {
    if (wanted[i])
      operandGrads[i] = build();
  }
};

template <auto build> struct Model;

/// `build` returns the gradient of operand 0 for the gradient of result 0; the
/// other operands have no gradient.
template <typename Op, mlir::Value (*build)(GraphBuilder, Op, mlir::Value)>
struct Model<build> : VjpOpInterface::ExternalModel<Model<build>, Op> {
  using Target = Op;
  llvm::LogicalResult
  buildVjp(mlir::Operation *op, mlir::OpBuilder &builder,
           llvm::ArrayRef<mlir::Value> resultGrads, llvm::ArrayRef<bool> wanted,
           llvm::SmallVectorImpl<mlir::Value> &operandGrads) const {
    operandGrads.assign(op->getNumOperands(), mlir::Value());
    if (wanted[0] && resultGrads[0])
      operandGrads[0] = build(GraphBuilder(builder, op->getLoc()),
                              mlir::cast<Op>(op), resultGrads[0]);
    return llvm::success();
  }
};

/// `build` sets the gradients of all operands, which are null before.
template <typename Op,
          llvm::LogicalResult (*build)(GraphBuilder, Op, const Request &)>
struct Model<build> : VjpOpInterface::ExternalModel<Model<build>, Op> {
  using Target = Op;
  llvm::LogicalResult
  buildVjp(mlir::Operation *op, mlir::OpBuilder &builder,
           llvm::ArrayRef<mlir::Value> resultGrads, llvm::ArrayRef<bool> wanted,
           llvm::SmallVectorImpl<mlir::Value> &operandGrads) const {
    operandGrads.assign(op->getNumOperands(), mlir::Value());
    return build(GraphBuilder(builder, op->getLoc()), mlir::cast<Op>(op),
                 {resultGrads, wanted, operandGrads});
  }
};

template <auto... builds> void attach(mlir::MLIRContext &context) {
  (Model<builds>::Target::template attachInterface<Model<builds>>(context),
   ...);
}

void attachElementwise(mlir::MLIRContext &context);
void attachMovement(mlir::MLIRContext &context);
void attachContraction(mlir::MLIRContext &context);
void attachRows(mlir::MLIRContext &context);
void attachSpatial(mlir::MLIRContext &context);

} // namespace dpc::vjp

#endif // DPC_PASSES_GRAPH_VJP_VJP_H
