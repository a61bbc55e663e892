//===- Parallel.h - The same work on many things ----------------*- C++ -*-===//
#ifndef DPC_COST_MODEL_PARALLEL_H
#define DPC_COST_MODEL_PARALLEL_H

#include <cstddef>
#include <functional>

namespace dpc::cost {

/// Runs `work(i)` for all i below `count` on as many threads as there are
/// cores, `grain` neighbours at a time, and returns when all have run. What one
/// gives must not depend on the others, nor on when they run; it must not
/// throw. It may call this again: threads that have nothing else to do take
/// part in that.
void inParallel(size_t count, size_t grain,
                const std::function<void(size_t)> &work);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_PARALLEL_H
