//===- SharedLowering.h - Strategies lowered together -----------*- C++ -*-===//
//
// Strategies that differ only in recomputation have the same program before
// dpc-recompute. This program is built once, and each strategy continues with a
// clone. Invariant: the result equals the result of lowerForStrategy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/lower/Lower.h"

#include <list>
#include <memory>
#include <mutex>

namespace dpc {

/// Lowers programs for strategies on one cluster. Thread-safe.
class SharedLowering {
public:
  /// `cluster` must outlive this object.
  explicit SharedLowering(const cost::Cluster &cluster);
  ~SharedLowering();

  const cost::Cluster &cluster;

  /// Returns the result of lowerForStrategy. `program` must outlive this object
  /// and not change.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
  lower(mlir::ModuleOp program, const LoweringSpec &spec);

private:
  struct Entry;

  std::mutex mutex;                         ///< Protects the list.
  std::list<std::shared_ptr<Entry>> recent; ///< Most recently used first.

  std::shared_ptr<Entry> find(mlir::ModuleOp program, const LoweringSpec &spec);
  void forgetOld();
};

} // namespace dpc
