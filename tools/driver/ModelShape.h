//===- ModelShape.h - Sizes of a transformer, by its graph ------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_MODELSHAPE_H
#define DPC_TOOLS_DRIVER_MODELSHAPE_H

#include "codegen/export/Job.h"
#include "cost-model/machine/Cluster.h"
#include "passes/shard/Degrees.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// What `func` (a fused @forward, or @train_step) shows of its layers: sizes of
/// the first attention, of norms, of the products with weights. `layers` where
/// the function has only some of them, else 0 (it counts its attentions).
exports::ModelShape modelShapeOf(mlir::func::FuncOp func, int64_t layers = 0);

/// Attentions by virtual stage when `program` is cut for `degrees`; empty where
/// there are none, or one stage.
std::vector<int64_t> layersByStage(mlir::ModuleOp program,
                                   const cost::Cluster &cluster,
                                   const LoweringSpec &degrees);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_MODELSHAPE_H
