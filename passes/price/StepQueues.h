//===- StepQueues.h - The queues of a rank ----------------------*- C++ -*-===//
//
// Private to passes/price: see StepEstimate.h for the rules.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STEPQUEUES_H
#define DPC_PASSES_PRICE_STEPQUEUES_H

#include "cost-model/machine/Placement.h"
#include "passes/price/StepRecord.h"

namespace dpc {

/// Simulates the queues of one rank. Each queue has a clock.
class StepQueues {
public:
  /// The rank runs on the slowest device of its stage, or on `device` if given.
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster);
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster,
             const cost::Device &device);

  /// Runs one op, and counts it `times` times in the sums.
  void run(mlir::Operation *op, double times);

  /// The time when the compute queue is free, and when all queues are free.
  double computeEnd() const { return computeFree; }
  double end() const { return std::max({computeFree, commFree, copyFree}); }

  /// Makes computeEnd() the new origin of time. Other queues may end after it.
  void rebase();

  const CollectivePricing pricing;
  double computeSeconds = 0;         ///< Of all ops that have run.
  double transferSeconds = 0;        ///< Of all transfers on the copy queue.
  std::vector<double> bytesPerLevel; ///< Bytes sent.
  TrafficSums traffic;
  std::vector<RecordedOp> *log = nullptr; ///< If not null, records the ops.

  /// The seconds of a computation when it runs alone.
  double secondsOf(mlir::Operation *op) const;

private:
  const cost::Cluster &cluster;
  const cost::Device &device;
  double computeFree = 0, commFree = 0, copyFree = 0;
  double issued = 0; ///< When the host issues the last kernel.
  /// When the collective or transfer that writes a value ends.
  llvm::DenseMap<mlir::Value, double> written;
  /// When the computation that writes a value ends.
  llvm::DenseMap<mlir::Value, double> made;

  /// Adds the bytes that one rank sends.
  void addBytes(const cost::CollectiveEstimate &estimate, double times);
  /// When the host has issued all kernels up to `op`.
  double issue(mlir::Operation *op);
  void compute(mlir::Operation *op, double times);
  void communicate(mlir::Operation *op, double times);
  void transfer(mlir::Operation *op, double times);
  void record(mlir::Operation *op, StepQueue queue, double begin, double end);
  double hostLink(mlir::Value argument) const;
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPQUEUES_H
