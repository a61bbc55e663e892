//===- Remarks.h - What the user may not have meant -------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_REMARKS_H
#define DPC_TOOLS_DRIVER_REMARKS_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/strategy/Strategy.h"
#include "passes/shard/Degrees.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace dpc {

/// "model.mlir:3:7: " or "node name: ", unless `text` says it by itself.
std::string placeOf(mlir::Location location, const std::string &text);

/// Why micro-batches would change what `program` computes, or "".
std::string whyOneMicroBatch(mlir::func::FuncOp program);

/// One line for each key that `asked` (the text of --strategy) sets without
/// effect on the plan of `chosen` with this software, for a micro-batch larger
/// than a rank's share of `globalBatch`, and for data-parallel ranks without a
/// sample.
std::vector<std::string> remarksOn(const std::string &asked,
                                   const cost::Strategy &chosen,
                                   int64_t globalBatch,
                                   const cost::Software &software);

/// What speaks against running a plan of `targetGpu` ("sm_90", or "") on the
/// devices that it is planned for, as far as their peaks tell; or "".
std::string remarkOnTarget(const std::string &targetGpu,
                           const cost::Cluster &cluster);

/// Why `options` ask for fp8 where there is none, or "". CPUs, whose device
/// files know no type of 16 bits either, have the runtime's loops.
std::string whyNoFp8(const CompileOptions &options,
                     const cost::Cluster &cluster);

/// What to say of a plan that fp8 was asked for and that has some, or not; or
/// "".
std::string remarkOnFp8(const CompileOptions &options, bool hasFp8);

/// Why nothing would be compressed that the user wants compressed, or "".
std::string refusedCompression(const LoweringSpec &degrees, bool trains,
                               bool scalesLoss);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_REMARKS_H
