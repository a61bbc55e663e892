//===- ModelTerms.h - Properties of a transformer from its graph *- C++ -*-===//
#pragma once

#include "codegen/export/Job.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Adds to `shape`, which has the sizes of `func`, what else defines the model:
/// biases, ties, positions, norms, activations and experts.
void readTerms(mlir::func::FuncOp func, exports::ModelShape &shape);

} // namespace dpc
