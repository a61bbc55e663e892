//===- PlanValidate.h - everything checked before a plan runs ---*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANVALIDATE_H
#define DPC_RUNTIME_PLAN_PLANVALIDATE_H

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Checks ids and ranges, byte counts, layouts, group membership, symbols and
/// file names; that every buffer is written before it is read and that its
/// bytes still hold it then; that conflicting accesses of the two queues are
/// ordered by events; and that all ranks meet the same collectives in the same
/// order with every send received (so that no rank waits for ever).
/// The error names `file`, the instruction ("forward[12]") and the value.
Status validatePlan(const Plan &plan, const std::string &file);

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANVALIDATE_H
