//===- Explain.h - Why a value is placed as it is ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_EXPLAIN_H
#define DPC_TOOLS_DRIVER_EXPLAIN_H

#include "cost-model/report/StepDetail.h"
#include "passes/shard/Degrees.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// A plan, and what its simulated step looks like.
struct ExplainedPlan {
  mlir::ModuleOp program; ///< Without shardings.
  const cost::Cluster &cluster;
  LoweringSpec degrees; ///< As priced.
  const cost::StepDetail &detail;
  double memoryLimitBytes; ///< What a rank can have.
};

/// How what is called `name` lies in `plan` (in full, or a part that only one
/// has; layers that are alike count as one), and what others cost. Of a weight
/// of an operator: every other way to split it over tensor axes, where the
/// whole step is compiled and simulated again with the weight held to it and
/// all else chosen anew; and other values of zero. Of other parameters,
/// optimizer states, buffers, inputs and operators with their results: the keys
/// of --strategy that say where they lie. One line on a name that none or
/// several have, with near ones.
Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPLAIN_H
