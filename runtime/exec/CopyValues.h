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

/// Copies the current tensor values of `from` to the tensors of `to`, for any
/// layouts of both plans. All processes call this between two steps, after
/// checkCopy(). Each rank sends the parts of its own shards that other ranks
/// need, tensor by tensor, so at most one tensor is in transit.
Status copyValues(const Running &from, const Running &to);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_COPYVALUES_H
