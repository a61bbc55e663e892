//===- Explain.h - How a value is sharded, and alternatives -----*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_EXPLAIN_H
#define DPC_TOOLS_DRIVER_EXPLAIN_H

#include "cost-model/report/StepDetail.h"
#include "passes/shard/LoweringSpec.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// A plan and its simulated step.
struct ExplainedPlan {
  mlir::ModuleOp program; ///< Without shardings.
  const cost::Cluster &cluster;
  LoweringSpec spec; ///< As the cost model prices them.
  const cost::StepDetail &detail;
  double memoryLimitBytes; ///< Of a rank.
};

/// Explains how the value called `name` is sharded in `plan`, and what other
/// ways cost. The name may be a part that only one value has; equal layers
/// count as one. For the weight of an operator it compiles and simulates the
/// whole step with each other way to shard the weight over tensor axes, and
/// with other values of zero. For other parameters, optimizer states, buffers,
/// inputs and operators it does so for the keys of --strategy that affect the
/// value. An error is one line with similar names, if no value or several
/// values match.
Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPLAIN_H
