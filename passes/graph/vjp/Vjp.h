//===- Vjp.h - Gradients of ops ---------------------------------*- C++ -*-===//
//
// For each op, one function builds its vector-Jacobian product at the builder's
// insertion point:
//
//   gradient of operand i = sum_r (gradient of result r) * d result_r / d x_i
//
// `attach` wraps such a function in a model of VjpOpInterface.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/GraphBuilder.h"

namespace dpc::vjp {

/// The arguments of VjpOpInterface::buildVjp.
struct Request {
  llvm::ArrayRef<mlir::Value> resultGrads; ///< null means zero
  llvm::ArrayRef<bool> wanted;             ///< per operand
  llvm::SmallVectorImpl<mlir::Value> &operandGrads;

  /// Sets the gradient of operand `i` to `build()` if this gradient is wanted.
  template <typename Build> void set(unsigned i, Build build) const {
    if (wanted[i])
      operandGrads[i] = build();
  }
};

/// A model of `Op` that calls `build`, which has one of two forms:
///   Value (GraphBuilder, Op, Value dy)
///     returns the gradient of operand 0; `dy` is the gradient of result 0
///   LogicalResult (GraphBuilder, Op, const Request &)
///     sets gradients, which are initially null
template <auto build, typename Op>
struct Model : VjpOpInterface::ExternalModel<Model<build, Op>, Op> {
  llvm::LogicalResult
  buildVjp(mlir::Operation *op, mlir::OpBuilder &builder,
           llvm::ArrayRef<mlir::Value> resultGrads, llvm::ArrayRef<bool> wanted,
           llvm::SmallVectorImpl<mlir::Value> &operandGrads) const {
    operandGrads.assign(op->getNumOperands(), mlir::Value());
    GraphBuilder g(builder, op->getLoc());
    Request request{resultGrads, wanted, operandGrads};
    if constexpr (std::is_invocable_v<decltype(build), GraphBuilder, Op,
                                      const Request &>)
      return build(g, mlir::cast<Op>(op), request);
    else if (wanted[0] && resultGrads[0])
      operandGrads[0] = build(g, mlir::cast<Op>(op), resultGrads[0]);
    return llvm::success();
  }
};

template <auto build, typename Result, typename Op, typename Last>
void attachOne(mlir::MLIRContext &context, Result (*)(GraphBuilder, Op, Last)) {
  Op::template attachInterface<Model<build, Op>>(context);
}

/// Attaches a model for each function in `builds`.
template <auto... builds> void attach(mlir::MLIRContext &context) {
  (attachOne<builds>(context, builds), ...);
}

void attachElementwise(mlir::MLIRContext &context);
void attachMovement(mlir::MLIRContext &context);
void attachContraction(mlir::MLIRContext &context);
void attachRows(mlir::MLIRContext &context);
void attachSpatial(mlir::MLIRContext &context);

} // namespace dpc::vjp
