//===- Inputs.h - What is known about a program's inputs ---------*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_INPUTS_H
#define DPC_TOOLS_DRIVER_INPUTS_H

#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Sets Port::limit of the plan's integer inputs that index a table or the
/// classes of a cross entropy in `program`: values lie below the smallest of
/// those sizes.
void setInputLimits(mlir::func::FuncOp program, rt::Plan &plan);

/// The path of `file` from the root on; `file` itself where the working folder
/// is gone.
std::string absoluteFile(const std::string &file);

/// Makes the file names of all `dpc.source` absolute: they are relative to the
/// current folder, a plan may be run from any other.
void makeSourcesAbsolute(mlir::ModuleOp module);

/// Records in `plan` what --init says about weights that the model lacks.
void setInitialValues(rt::Plan &plan, const rt::InitChoice &choice);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_INPUTS_H
