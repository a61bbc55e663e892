//===- Remarks.h - Remarks on options that may be a mistake -----*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/strategy/Strategy.h"
#include "passes/shard/LoweringSpec.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/lower/FirstError.h"

#include <string>
#include <vector>

namespace dpc {

/// Returns why splitting a batch into micro-batches would change the results of
/// `program`, or "".
std::string whyOneMicroBatch(mlir::func::FuncOp program);

/// Returns a line for each key of `asked` (the text of --strategy) that has no
/// effect, for a micro-batch that is larger than a rank's share, and for
/// data-parallel ranks that get no sample of `globalBatch`.
std::vector<std::string> remarksOn(const std::string &asked,
                                   const cost::Strategy &chosen,
                                   int64_t globalBatch,
                                   const cost::Software &software);

/// Returns why a plan for `targetGpu` ("sm_90", or "") does not suit the
/// devices of the cluster, or "". The generation of a device follows from its
/// peaks.
std::string remarkOnTarget(const std::string &targetGpu,
                           const cost::Cluster &cluster);

/// Returns why --precision=fp8 is impossible, or "". It is possible on CPUs,
/// for which the runtime has loops.
std::string whyNoFp8(const CompileOptions &options,
                     const cost::Cluster &cluster);

/// Returns a remark if --precision=fp8 has no effect on the plan, or "".
std::string remarkOnFp8(const CompileOptions &options, bool hasFp8);

/// Returns a remark if --precision is slower than fp32 on the CPUs of this
/// machine, or "". `hasBf16` says whether its processor has bf16 instructions.
std::string remarkOnNarrowCpu(const CompileOptions &options, bool hasBf16);

/// Returns a remark if the scale of --loss-scale has no effect on gradients of
/// the type of --precision, or "".
std::string remarkOnLossScale(const CompileOptions &options);

/// Returns remarks on a learning rate, weight decay or eps that cannot train.
std::vector<std::string> remarksOnRates(const CompileOptions &options);

/// Returns a remark if AdamW averages gradients over more steps than their
/// squares, or "".
std::string remarkOnBetas(const CompileOptions &options);

/// Replaces remarks that differ only in the names of nodes by the first of
/// them, and says how many there are. The first `notices` remarks, which a
/// terminal always shows, stay in front; `notices` becomes their new number.
std::vector<std::string> groupedRemarks(const std::vector<std::string> &remarks,
                                        size_t &notices);

/// Returns why the requested compression is impossible, or "".
std::string refusedCompression(const LoweringSpec &spec, bool trains,
                               bool scalesLoss);

} // namespace dpc
