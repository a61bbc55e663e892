//===- PlanValidate.h - validation of a plan before a run -------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Checks all fields of a plan. Also checks that values are written before they
/// are read and not overwritten in between, that events order conflicting
/// accesses of different queues, and that no rank waits forever: collectives of
/// all ranks match, and all messages are received. The error contains `file`,
/// the instruction ("forward[12]") and the wrong value.
Status validatePlan(const Plan &plan, const std::string &file);

} // namespace dpc::rt
