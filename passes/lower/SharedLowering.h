//===- SharedLowering.h - Strategies lowered together -----------*- C++ -*-===//
//
// Strategies that differ only by what backward makes again are the same program
// until dpc-recompute: that is made once, and each of them goes on with a clone
// of it. Invariant: what comes out is what lowerForStrategy makes (tested).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOWER_SHAREDLOWERING_H
#define DPC_PASSES_LOWER_SHAREDLOWERING_H

#include "passes/lower/Lower.h"

#include <list>
#include <memory>
#include <mutex>

namespace dpc {

/// Lowers programs for the strategies of one cluster. Safe to use from several
/// threads.
class SharedLowering {
public:
  /// `cluster` must outlive this.
  explicit SharedLowering(const cost::Cluster &cluster);
  ~SharedLowering();

  const cost::Cluster &cluster;

  /// lowerForStrategy. `program` must live, and stay as it is, as long as this.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
  lower(mlir::ModuleOp program, const LoweringSpec &degrees);

private:
  struct Entry;

  std::mutex mutex;                         ///< Of the list.
  std::list<std::shared_ptr<Entry>> recent; ///< The last one asked for first.

  std::shared_ptr<Entry> find(mlir::ModuleOp program,
                              const LoweringSpec &degrees);
  void forgetOld();
};

} // namespace dpc

#endif // DPC_PASSES_LOWER_SHAREDLOWERING_H
