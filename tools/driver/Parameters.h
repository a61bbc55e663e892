//===- Parameters.h - Which parameters are trained --------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_PARAMETERS_H
#define DPC_TOOLS_DRIVER_PARAMETERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace dpc {

/// Whether an optimizer updates every parameter of `program`. One that the loss
/// does not depend on meets none.
bool trainsAllParameters(mlir::func::FuncOp program);

/// The names of the parameters of `program`, the trained ones and the others
/// with the buffers. `trains`: it is, or becomes, a training step; of @forward
/// then those are left out that nobody reads.
void listParameters(mlir::func::FuncOp program, bool trains,
                    std::vector<std::string> &trained,
                    std::vector<std::string> &frozen);

/// Makes @forward of `module`, which is not trained, ready for inference:
/// removes stops of gradients. `message` says what only training does.
mlir::LogicalResult prepareInference(mlir::ModuleOp module,
                                     std::string &message);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_PARAMETERS_H
