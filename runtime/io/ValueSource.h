//===- ValueSource.h - the source of tensor values --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_VALUESOURCE_H
#define DPC_RUNTIME_IO_VALUESOURCE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// Values for the tensors of a plan. Safe to use from several threads.
class ValueSource {
public:
  virtual ~ValueSource() = default;

  /// Checks whether the plan's tensors can be filled, as far as this is known
  /// in advance.
  virtual Status check(const Plan &plan) const = 0;
  /// Copies the shard of `rank` to `local`. Does not write the padding.
  virtual Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
                      void *local) const = 0;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_VALUESOURCE_H
