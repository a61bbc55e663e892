//===- RankInterpreter.h - All ranks of @step in one process ----*- C++ -*-===//
//
// The reference for tests of partitioning. It packs global inputs by
// `dpc.global`, runs @step op by op for every rank and micro-batch with real
// collectives, unpacks the outputs and compares replicas. Padding is NaN for
// floats and 1 for integers, a plausible value, so that a missing mask changes
// the result.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_SUPPORT_RANKINTERPRETER_H
#define DPC_TEST_SUPPORT_RANKINTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/RankOps.h"

namespace dpc::test {

/// The coordinates of all ranks, row-major over all axes except `mb` (the
/// micro-batches), which is 0.
std::vector<Coordinates> allRanks(MeshAttr mesh);

/// Returns the part of `global` that the rank at `coordinates` holds. If `type`
/// is a partial sum, the rank at coordinate 0 holds the whole value, and the
/// other ranks hold the neutral element.
HostArray pack(const HostArray &global, mlir::RankedTensorType type,
               const Coordinates &coordinates);

/// Evaluates a function on global tensors and ignores shardings.
std::vector<HostArray> runGlobal(mlir::func::FuncOp func,
                                 const std::vector<HostArray> &inputs);

/// The results and the communication of a run.
struct RankResult {
  /// Global results. An element is NaN if no rank holds it or if ranks hold
  /// different values.
  std::vector<HostArray> outputs;
  /// The first difference between replicas, or "".
  std::string disagreement;
  /// Executed collectives, counted once per execution of the op.
  std::map<std::string, int64_t> collectives;
};

/// Runs @step on global inputs.
RankResult runRanks(mlir::func::FuncOp step,
                    const std::vector<HostArray> &inputs);

} // namespace dpc::test

#endif // DPC_TEST_SUPPORT_RANKINTERPRETER_H
