//===- Reduce.h - reductions of arrays --------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Group.h"

#include <vector>

namespace dpc::rt {

/// Sets out[i] to the reduction of parts[0][first + i], parts[1][first + i],
/// ... in this order, for 0 <= i < count. `out` may be parts[p] + first. The
/// types are those of Communicator::allReduce.
void reduceParts(const std::vector<const void *> &parts, void *out,
                 int64_t first, int64_t count, DType type, ReduceKind kind);

} // namespace dpc::rt
