//===- Inputs.h - Inputs, weights and their files ------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_INPUTS_H
#define DPC_TOOLS_DRIVER_INPUTS_H

#include "runtime/io/InitialValues.h"
#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Sets Port::limit for each integer input of `plan` that indexes tables, or
/// the classes of a cross entropy, in `program`. The limit is the smallest
/// indexed size.
void setInputLimits(mlir::func::FuncOp program, rt::Plan &plan);

/// The absolute path of `file`, or `file` if the current folder does not exist.
std::string absoluteFile(const std::string &file);

/// Makes the file names in all `dpc.source` attributes absolute, because a plan
/// may run from another folder.
void makeSourcesAbsolute(mlir::ModuleOp module);

/// Applies --init to the tensors of `plan`.
void setInitialValues(rt::Plan &plan, const rt::InitChoice &choice);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_INPUTS_H
