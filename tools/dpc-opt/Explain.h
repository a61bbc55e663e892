//===- Explain.h - Why a weight is split as it is ---------------*- C++ -*-===//
#ifndef DPC_TOOLS_DPC_OPT_EXPLAIN_H
#define DPC_TOOLS_DPC_OPT_EXPLAIN_H

#include "cost-model/Result.h"
#include "cost-model/StepDetail.h"
#include "passes/shard/Degrees.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// A plan, and what its simulated step looks like.
struct ExplainedPlan {
  mlir::ModuleOp program; ///< Without shardings.
  const cost::Cluster &cluster;
  ShardDegrees degrees; ///< As priced.
  const cost::StepDetail &detail;
};

/// How the weight, or operator, `name` is split in `plan` (in full, or a part
/// that only one has; layers that are alike count as one), and what every other
/// way to split it over tensor axes costs: the whole step is compiled and
/// simulated again with the weight held to it and all else chosen anew. One
/// line on a name that no operator or several have.
cost::Result<std::string> explain(const std::string &name,
                                  const ExplainedPlan &plan);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_EXPLAIN_H
