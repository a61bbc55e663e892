//===- Parallel.h - The same work on many things ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_PARALLEL_H
#define DPC_RUNTIME_BASE_PARALLEL_H

#include <cstddef>
#include <functional>

namespace dpc {

/// Runs `work(i)` for all i below `count` on as many threads as there are
/// cores, `grain` neighbours at a time, and returns when all have run. What one
/// gives must not depend on the others, nor on when they run; it must not
/// throw. It may call this again: threads that have nothing else to do take
/// part in that.
void parallelFor(size_t count, size_t grain,
                const std::function<void(size_t)> &work);

} // namespace dpc

#endif // DPC_RUNTIME_BASE_PARALLEL_H
