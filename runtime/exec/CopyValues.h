//===- CopyValues.h - one session's values into another's ------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_COPYVALUES_H
#define DPC_RUNTIME_EXEC_COPYVALUES_H

#include "runtime/exec/Session.h"

namespace dpc::rt {

/// A plan and the session that runs it.
struct Running {
  const Plan &plan;
  Session &session;
};

/// Whether `from` has every tensor of `to`: name, role, type and shape; and as
/// many ranks.
Status checkCopy(const Plan &from, const Plan &to);

/// Gives the tensors of `to` the values that those of `from` have now, however
/// both plans lay them out. Called by all processes between two steps, after
/// checkCopy(). Each rank sends what others need of the shards that it owns,
/// tensor by tensor: no more than one is ever on its way.
Status copyValues(const Running &from, const Running &to);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_COPYVALUES_H
