//===- Parallel.h - a parallel loop -----------------------------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <functional>

namespace dpc {

/// Calls `work(i)` for all i < `count` on one thread per core, and returns when
/// all calls have returned. A thread takes `grain` consecutive indices at a
/// time. The calls must be independent and must not throw. They may call
/// parallelFor; idle threads then help.
void parallelFor(size_t count, size_t grain,
                 const std::function<void(size_t)> &work);

} // namespace dpc
