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

/// Explains how the value called `name` is sharded in `plan`, and compares the
/// costs of alternatives. `name` may be a part of a name that only one value
/// has; equal layers count as one value. Each alternative is compiled, and its
/// whole step is simulated. For the weight of an operator, the alternatives are
/// all other shardings over tensor axes, and other values of zero. For other
/// parameters, optimizer states, buffers, inputs and operators, they are other
/// values of the keys of --strategy that affect the value. If no value or
/// several values match, returns a one-line error with similar names.
Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPLAIN_H
