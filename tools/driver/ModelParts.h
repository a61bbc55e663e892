//===- ModelParts.h - Known parts of a program ------------------*- C++ -*-===//
#pragma once

#include "cost-model/report/ModelParts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Returns the known parts of a fused program. Of several kinds of attention,
/// the first one counts.
cost::ModelParts modelPartsOf(mlir::func::FuncOp program);

} // namespace dpc
