//===- StepQueues.h - The queues of a rank ----------------------*- C++ -*-===//
// Private to passes/price. StepEstimate.h describes the rules.
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Placement.h"
#include "passes/price/StepRecord.h"

namespace dpc {

/// Simulates the queues of one rank. Each queue has a clock.
class StepQueues {
public:
  /// Runs on the slowest device of the stage, or on `device`.
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster);
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster,
             const cost::Device &device);

  /// Runs one op. The sums count the op `times` times.
  void run(mlir::Operation *op, double times);

  double computeEnd() const { return computeFree; }
  double end() const { return std::max({computeFree, commEnd(), copyFree}); }

  /// Lets computation wait for the collective that writes `value`.
  void wait(mlir::Value value);

  /// Lets computation wait for all queues.
  void drain() { computeFree = end(); }

  /// Makes computeEnd() the new time 0. Other queues may end later.
  void rebase();

  const CollectivePricing pricing;
  double computeSeconds = 0;
  double transferSeconds = 0; ///< Seconds of the copy queue, hidden or not.
  std::vector<double> bytesPerLevel; ///< Bytes sent.
  TrafficSums traffic;
  /// Null, or the list to which ops are appended.
  std::vector<RecordedOp> *log = nullptr;

  /// Returns the seconds of a computation that runs alone.
  double secondsOf(mlir::Operation *op) const;

private:
  const cost::Cluster &cluster;
  const cost::Device &device;
  int64_t microBatches;
  bool hasFp8;
  double computeFree = 0, copyFree = 0;
  /// By the axes of the group if each has a queue, else one for null.
  llvm::DenseMap<mlir::Attribute, double> commFree;
  double issued = 0; ///< The time at which the host issues the last kernel.
  /// By value, the end of the collective or transfer that writes it.
  llvm::DenseMap<mlir::Value, double> written;
  /// By value, the end of the computation that writes it.
  llvm::DenseMap<mlir::Value, double> made;

  double &commFreeOf(mlir::ArrayAttr axes);
  /// The end of all collectives.
  double commEnd() const;
  void addBytes(const cost::CollectiveEstimate &estimate, double times);
  /// Returns the time at which the host has issued all kernels up to `op`.
  double issue(mlir::Operation *op);
  void compute(mlir::Operation *op, double times);
  void communicate(mlir::Operation *op, double times);
  void exchange(ExpertTilesOp op, double times);
  void transfer(mlir::Operation *op, double times);
  void record(mlir::Operation *op, StepQueue queue, double begin, double end);
  double hostLink(mlir::Value argument) const;
};

} // namespace dpc
