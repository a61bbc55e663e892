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

/// Simulates the queues of one rank; each queue has a clock.
class StepQueues {
public:
  /// The rank runs on the slowest device of its stage, or on `device`.
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster);
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster,
             const cost::Device &device);

  /// Runs one op, which counts `times` times in the sums.
  void run(mlir::Operation *op, double times);

  /// When the compute queue is free, and when all queues are.
  double computeEnd() const { return computeFree; }
  double end() const { return std::max({computeFree, commFree, copyFree}); }

  /// Moves the origin of time to computeEnd(). Other queues may end after it.
  void rebase();

  const CollectivePricing pricing;
  double computeSeconds = 0;         ///< Of all ops that ran.
  double transferSeconds = 0;        ///< Of the copy queue.
  std::vector<double> bytesPerLevel; ///< Sent.
  TrafficSums traffic;
  std::vector<RecordedOp> *log = nullptr; ///< Records the ops unless null.

  /// Seconds of a computation that runs alone.
  double secondsOf(mlir::Operation *op) const;

private:
  const cost::Cluster &cluster;
  const cost::Device &device;
  double computeFree = 0, commFree = 0, copyFree = 0;
  double issued = 0; ///< When the host issued the last kernel.
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
