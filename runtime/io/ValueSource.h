//===- ValueSource.h - where tensors get their values from ------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_VALUESOURCE_H
#define DPC_RUNTIME_IO_VALUESOURCE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// Values of a plan's tensors. Safe to use from several threads.
class ValueSource {
public:
  virtual ~ValueSource() = default;

  /// Whether the plan's tensors can be filled, as far as is known before.
  virtual Status check(const Plan &plan) const = 0;
  /// Copies the shard of `rank` to `local`, whose padding keeps its contents.
  virtual Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
                      void *local) const = 0;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_VALUESOURCE_H
