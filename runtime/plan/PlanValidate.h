//===- PlanValidate.h - validation of a plan before a run -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANVALIDATE_H
#define DPC_RUNTIME_PLAN_PLANVALIDATE_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Checks ids and ranges, byte counts, layouts, group membership, symbols and
/// file names; that every buffer is written before it is read and not
/// overwritten in between; that events order the conflicting accesses of
/// different queues; and that all ranks issue matching collectives in the same
/// order and receive every message, so no rank waits forever. The error names
/// `file`, the instruction ("forward[12]") and the value.
Status validatePlan(const Plan &plan, const std::string &file);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANVALIDATE_H
