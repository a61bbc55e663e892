//===- CopyValues.h - copying tensor values between sessions ----*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"

namespace dpc::rt {

struct Running {
  const Plan &plan;
  Session &session;
};

/// Checks that `from` has every tensor of `to` except constants with the same
/// name, role, type and shape, and that both plans have the same number of
/// ranks.
Status checkCopy(const Plan &from, const Plan &to);

/// Copies the current values of the tensors of `from`, except constants, to
/// `to`, whose layouts may differ. Copies one tensor at a time, and sends each
/// rank only the parts that it needs. All processes call this between two
/// steps, after checkCopy().
Status copyValues(const Running &from, const Running &to);

} // namespace dpc::rt
