//===- ModelShape.h - Sizes of a transformer from its graph -----*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_MODELSHAPE_H
#define DPC_TOOLS_DRIVER_MODELSHAPE_H

#include "codegen/export/Job.h"
#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// The sizes of `func` (a fused @forward, or @train_step), from its first
/// attention, its norms and the weights of its GEMMs.
exports::ModelShape modelShapeOf(mlir::func::FuncOp func);

/// The attentions in each virtual stage of `program`; empty if there are none
/// or one stage.
std::vector<int64_t> layersByStage(mlir::ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &spec);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_MODELSHAPE_H
