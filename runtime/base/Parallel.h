//===- Parallel.h - a parallel loop -----------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_PARALLEL_H
#define DPC_RUNTIME_BASE_PARALLEL_H

#include <cstddef>
#include <functional>

namespace dpc {

/// Runs `work(i)` for all i below `count` on as many threads as there are
/// cores, `grain` consecutive indices at a time, and returns when all have run.
/// The result of one call must not depend on the others or on their timing.
/// `work` must not throw. It may call parallelFor itself: idle threads take
/// part in the inner loop.
void parallelFor(size_t count, size_t grain,
                 const std::function<void(size_t)> &work);

} // namespace dpc

#endif // DPC_RUNTIME_BASE_PARALLEL_H
