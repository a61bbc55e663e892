//===- Shardings.h - Shardings in the imported ONNX model -------*- C++ -*-===//
//
// The ShardingSpecs of nodes (IR version 11) become constraints on the search:
//
//   batch dimension of the graph's inputs      degree of dp
//   other dimensions of integer inputs         degree of cp
//   dimensions of weights and of float inputs  degree of tp, dpc.user_split
//   pipeline_stage                             degrees of pp and vpp
//
// If a node lists several device configurations, only the first one is used. A
// remark lists the values whose shardings are left to the search: weights that
// are sharded over the same devices as the batch (experts, ZeRO), weights that
// nodes read with different shardings, and values inside the model.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// Adds the shardings in the nodes of `file` to `made`, the module imported
/// from `file`. `values` are the values of the main graph.
llvm::Error keepShardings(const ModelFile &file,
                          const llvm::StringMap<Val> &values,
                          mlir::ModuleOp made);

} // namespace dpc::frontend
