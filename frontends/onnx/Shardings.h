//===- Shardings.h - Shardings that an ONNX model comes with ---*- C++ -*-===//
//
// The ShardingSpecs of nodes (IR version 11) become constraints on the search:
//
//   the batch of the graph's inputs split in n      dp = n
//   another dimension of an integer input           cp, the sequence
//   dimensions of weights and of float inputs       tp, and dpc.user_split
//   pipeline_stage                                  pp, and vpp
//
// A weight that is split over the devices of the batch (experts, ZeRO), or read
// in two ways, is left to search, and so are values inside of the model; a
// remark says so. Of several configurations the first one counts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_SHARDINGS_H
#define DPC_FRONTENDS_ONNX_SHARDINGS_H

#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// Puts what the nodes of `file` say on `made`, the module that it became.
/// `values` are the values of the main graph.
llvm::Error keepShardings(const ModelFile &file,
                          const llvm::StringMap<Val> &values,
                          mlir::ModuleOp made);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_SHARDINGS_H
