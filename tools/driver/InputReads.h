//===- InputReads.h - What the ops of a model do with its inputs *- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>

namespace dpc {

/// Sets, for each input of `forward`, a fused @forward with a loss, what
/// its ops tell without a run: Dependence::padding, readsLast, convertedTo,
/// shift, scale, classWeights, classDim and countedBy.
void addReads(mlir::func::FuncOp forward,
              std::map<std::string, rt::Dependence> &inputs);

} // namespace dpc
