//===- Inputs.h - What is known about a program's inputs ---------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_OPT_INPUTS_H
#define DPC_TOOLS_DPC_OPT_INPUTS_H

#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Sets Port::limit of the plan's integer inputs that index a table or the
/// classes of a cross entropy in `program`: values lie below the smallest of
/// those sizes.
void setInputLimits(mlir::func::FuncOp program, rt::Plan &plan);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_INPUTS_H
