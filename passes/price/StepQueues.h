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

/// Runs ops of one step function on three clocks.
class StepQueues {
public:
  /// On the slowest of its devices, or on `device`.
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster);
  StepQueues(mlir::func::FuncOp step, const cost::Cluster &cluster,
             const cost::Device &device);

  /// Runs one op now; it counts `times` times in the sums.
  void run(mlir::Operation *op, double times);

  /// When the compute queue is free, and when all are.
  double computeEnd() const { return computeFree; }
  double end() const { return std::max({computeFree, commFree, copyFree}); }

  /// Makes the time at which the compute queue is free the new 0. What other
  /// queues still do reaches into the new time.
  void rebase();

  const CollectivePricing pricing;        ///< Of its collectives and messages.
  double computeSeconds = 0;              ///< Of all ops that ran.
  double transferSeconds = 0;             ///< The same of the copy queue.
  std::vector<double> bytesPerLevel;      ///< Sent.
  TrafficSums traffic;                    ///< The same, by axes.
  std::vector<RecordedOp> *log = nullptr; ///< Where ops go, where wanted.

  /// Seconds of a computation, alone.
  double secondsOf(mlir::Operation *op) const;

private:
  const cost::Cluster &cluster;
  const cost::Device &device;
  double computeFree = 0, commFree = 0, copyFree = 0;
  double issued = 0; ///< When the host has issued the last kernel.
  /// When the collective or transfer that writes a buffer has ended.
  llvm::DenseMap<mlir::Value, double> written;
  /// When the computation that makes a value has ended.
  llvm::DenseMap<mlir::Value, double> made;

  /// Adds bytes that one rank sends.
  void addBytes(const cost::CollectiveEstimate &estimate, double times);
  /// When the host has issued `op` as well.
  double issue(mlir::Operation *op);
  void compute(mlir::Operation *op, double times);
  void communicate(mlir::Operation *op, double times);
  void transfer(mlir::Operation *op, double times);
  void record(mlir::Operation *op, StepQueue queue, double begin, double end);
  double hostLink(mlir::Value argument) const;
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_STEPQUEUES_H
