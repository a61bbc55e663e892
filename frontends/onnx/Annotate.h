//===- Annotate.h - Plan shardings in an ONNX model -------------*- C++ -*-===//
//
// Since version 11 of its IR, ONNX can state on which devices the inputs and
// outputs of a node lie and how they are sharded (ShardingSpecProto). This file
// writes a copy of the source model that states, for each node, what the plan
// does there:
//
// - A value that exists in the plan has the sharding with which it is computed;
//   the inputs of a node have the sharding with which the node reads them. The
//   sharding of a value that was fused away follows from the others by the
//   sharding rules of the ops.
// - A dimension with several factors has one simple_sharding per factor.
// - Replicas on several devices are device groups.
// - Pipeline stages are pipeline_stage and the devices of that stage.
// - Partial sums have no spec, because specs cannot express them. Instead the
//   node's metadata dpc.partial.NAME lists the mesh axes of the sum.
// - Specs state only the number of uneven shards. The model's metadata gives
//   their size as ceil(n/k), because ONNX does not define it.
//
// Device i is rank i of the plan. Micro-batches are points in time, which specs
// cannot express; the model's metadata records the strategy. Values known at
// compile time have no spec.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_ANNOTATE_H
#define DPC_FRONTENDS_ONNX_ANNOTATE_H

#include "frontends/onnx/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// Statistics of a written model.
struct OnnxAnnotation {
  int64_t nodes = 0;     ///< nodes of the graph
  int64_t annotated = 0; ///< nodes with shardings
  int64_t partial = 0;   ///< outputs that are partial sums
  /// Files that hold weights, as the source names them.
  std::vector<std::string> externalFiles;
};

/// Writes the ONNX model `source`, imported with `options`, to `target`
/// together with shardings. `sharded` is the program at the sharded altitude to
/// which `source` was lowered. `strategy` is recorded in the metadata. Weights
/// stay in the file, or in the external files that it refers to.
llvm::Expected<OnnxAnnotation> writeAnnotatedOnnx(llvm::StringRef source,
                                                  llvm::StringRef target,
                                                  const ImportOptions &options,
                                                  mlir::func::FuncOp sharded,
                                                  const std::string &strategy);

} // namespace dpc

#endif // DPC_FRONTENDS_ONNX_ANNOTATE_H
