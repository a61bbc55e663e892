//===- Explain.h - How a value is sharded, and alternatives -----*- C++ -*-===//
#pragma once

#include "cost-model/report/StepDetail.h"
#include "passes/shard/LoweringSpec.h"
#include "runtime/base/Status.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

struct ExplainedPlan {
  mlir::ModuleOp program; ///< Without shardings.
  const cost::Cluster &cluster;
  LoweringSpec spec; ///< in the form that the cost model evaluates
  const cost::StepDetail &detail;
  double memoryLimitBytes; ///< Of a rank.
};

/// Explains how the value called `name` is sharded in `plan`, and compares the
/// costs of alternatives. `name` may be a part of a name, if only one value has
/// it; equal layers count as one value. Each alternative is compiled, and its
/// whole step is simulated. The alternatives are:
/// * for the weight of an operator: all other shardings over tensor axes, and
/// other
///   values of zero;
/// * for other parameters, optimizer states, buffers, inputs and operators:
/// other
///   values of the keys of --strategy that affect the value.
/// If no value or several values match, returns a one-line error with similar
/// names.
Expected<std::string> explain(const std::string &name,
                              const ExplainedPlan &plan);

} // namespace dpc
