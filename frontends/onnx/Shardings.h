//===- Shardings.h - Shardings in the imported ONNX model -------*- C++ -*-===//
//
// The ShardingSpecs of nodes (IR version 11) become constraints on the search:
//
//   the batch of the graph's inputs split in n      dp = n
//   another dimension of an integer input           cp, the sequence
//   dimensions of weights and of float inputs       tp, and dpc.user_split
//   pipeline_stage                                  pp, and vpp
//
// The search decides, and a remark says so, for weights that are sharded over
// the devices of the batch (experts, ZeRO), for weights that are read with two
// shardings, and for values inside the model. If there are several
// configurations, only the first one is used.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_SHARDINGS_H
#define DPC_FRONTENDS_ONNX_SHARDINGS_H

#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// Adds the shardings in the nodes of `file` to `made`, the module that it was
/// imported into. `values` are the values of the main graph.
llvm::Error keepShardings(const ModelFile &file,
                          const llvm::StringMap<Val> &values,
                          mlir::ModuleOp made);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_SHARDINGS_H
