//===- Parallel.h - a parallel loop -----------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_PARALLEL_H
#define DPC_RUNTIME_BASE_PARALLEL_H

#include <cstddef>
#include <functional>

namespace dpc {

/// Runs `work(i)` for all i below `count` on as many threads as there are
/// cores, `grain` consecutive indices at a time, and returns when all have run.
/// The calls of `work` must be independent of each other and must not throw.
/// `work` may call parallelFor itself; idle threads then help with the inner
/// loop.
void parallelFor(size_t count, size_t grain,
                 const std::function<void(size_t)> &work);

} // namespace dpc

#endif // DPC_RUNTIME_BASE_PARALLEL_H
