//===- ModelShape.h - Sizes of a transformer from its graph -----*- C++ -*-===//
#pragma once

#include "codegen/export/Job.h"
#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Derives sizes from the first attention, the norms and the GEMM weights of
/// `func`, a fused @forward or a @train_step.
exports::ModelShape modelShapeOf(mlir::func::FuncOp func);

/// Returns the number of attentions in each virtual stage, or an empty list if
/// there are no attentions or only one stage.
std::vector<int64_t> layersByStage(mlir::ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &spec);

} // namespace dpc
