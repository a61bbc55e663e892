//===- CopyValues.h - copying tensor values between sessions ----*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_COPYVALUES_H
#define DPC_RUNTIME_EXEC_COPYVALUES_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// A plan and the session that runs it.
struct Running {
  const Plan &plan;
  Session &session;
};

/// Checks that `from` has every tensor of `to`, by name, role, type and shape,
/// and that both plans have the same number of ranks.
Status checkCopy(const Plan &from, const Plan &to);

/// Copies the current values of all tensors of `from` to `to`. The layouts of
/// the two plans may differ. All processes call this between two steps, after
/// checkCopy(). Copies one tensor after the other: each rank sends the parts of
/// its shard that other ranks need.
Status copyValues(const Running &from, const Running &to);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_COPYVALUES_H
