//===- Annotate.h - The plan as an annotated ONNX model --------*- C++ -*-===//
//
// ONNX can say, since version 11 of its IR, on which devices the inputs and
// outputs of a node lie and how they are split (ShardingSpecProto). This writes
// the source model again, each node with what the plan does there:
//
// - A value that the plan has is written as it is made; inputs as the node
//   reads them. One that was fused away is what the rules of the ops make of
//   the others.
// - A factor of a dimension is several simple_shardings, one a factor.
// - Copies on several devices are groups of devices.
// - Stages of a pipeline are pipeline_stage, and the devices of that stage.
// - Partial sums get no spec, which cannot say it; the node's metadata
//   dpc.partial.NAME says over what.
// - Uneven shards are given by their number (ONNX leaves the rest open); the
//   model's metadata says ceil(n/k).
//
// Device i is rank i of the plan. Micro-batches are points in time, which specs
// do not have; the model's metadata has the strategy. Values known when the
// model is compiled have no spec.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_ANNOTATE_H
#define DPC_FRONTENDS_ONNX_ANNOTATE_H

#include "frontends/onnx/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// What was written.
struct OnnxAnnotation {
  int64_t nodes = 0;     ///< of the graph
  int64_t annotated = 0; ///< of them
  int64_t partial = 0;   ///< outputs that are partial sums
  /// Files that weights are in, as the source names them.
  std::vector<std::string> externalFiles;
};

/// Writes the ONNX model `source`, imported with `options`, to `target` with
/// the shardings of `sharded`, the program at the sharded altitude that it
/// became. `strategy` goes into the metadata. Weights stay where they are: in
/// the file, or referred to by it.
llvm::Expected<OnnxAnnotation> writeAnnotatedOnnx(llvm::StringRef source,
                                                  llvm::StringRef target,
                                                  const ImportOptions &options,
                                                  mlir::func::FuncOp sharded,
                                                  const std::string &strategy);

} // namespace dpc

#endif // DPC_FRONTENDS_ONNX_ANNOTATE_H
