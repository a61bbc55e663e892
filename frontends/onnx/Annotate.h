//===- Annotate.h - Plan shardings in an ONNX model -------------*- C++ -*-===//
//
// Writes a copy of the source model with the plan's shardings. Since version 11
// of its IR, ONNX has a ShardingSpecProto for each input and output of a node.
//
// - The spec of an output is the sharding with which the plan computes it, and
//   the spec of an input is the sharding with which the node reads it. For a
//   value that was fused away, the ops' sharding rules determine the sharding.
// - If a dimension is the product of several sharded factors, it has one
//   simple_sharding per factor.
// - Devices that hold replicas form a device group.
// - If the plan has pipeline stages, pipeline_stage is the stage of the node,
//   and the specs of the node list only the devices of this stage.
// - Specs cannot express partial sums. The node's metadata dpc.partial.NAME
//   lists the mesh axes of the sum instead.
// - Specs state the number of shards. ONNX does not define the sizes of uneven
//   shards, so the model's metadata does: k shards of a dimension of size n
//   have the size ceil(n/k).
//
// Device i is rank i of the plan. Values known at import time have no spec.
// Specs cannot express micro-batches, so the metadata records the strategy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/onnx/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

struct OnnxAnnotation {
  int64_t nodes = 0;     ///< nodes of the graph
  int64_t annotated = 0; ///< nodes with a sharding spec or a stage
  int64_t partial = 0;   ///< node outputs that are partial sums
  /// The files with external weights, as `source` names them.
  std::vector<std::string> externalFiles;
};

/// Copies the ONNX model `source` to `target` and adds shardings. `options` are
/// those with which `source` was imported, and `sharded` is the program at the
/// sharded altitude that was compiled from it. The metadata records `strategy`.
/// Weights stay in the model or in its external files.
llvm::Expected<OnnxAnnotation> writeAnnotatedOnnx(llvm::StringRef source,
                                                  llvm::StringRef target,
                                                  const ImportOptions &options,
                                                  mlir::func::FuncOp sharded,
                                                  const std::string &strategy);

} // namespace dpc
