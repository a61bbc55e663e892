//===- RankInterpreter.h - All ranks of @step in one process ----*- C++ -*-===//
//
// The oracle of partitioning. It packs global inputs by `dpc.global`, runs
// every rank and micro-batch of @step op by op with actual collectives, unpacks
// the outputs and compares replicas. Padding contains NaN (floats) or a
// plausible 1 (integers), so that a missing mask changes the result.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_SUPPORT_RANKINTERPRETER_H
#define DPC_TEST_SUPPORT_RANKINTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/RankOps.h"

namespace dpc::test {

/// Coordinates of all ranks, row-major over all axes except `mb`, which is 0.
std::vector<Coordinates> allRanks(MeshAttr mesh);

/// The part of `global` on the rank at `coordinates`. Of a partial sum,
/// coordinate 0 holds the whole value and the others hold the neutral element.
HostArray pack(const HostArray &global, mlir::RankedTensorType type,
               const Coordinates &coordinates);

/// Evaluates a function of global tensors and ignores encodings.
std::vector<HostArray> runGlobal(mlir::func::FuncOp func,
                                 const std::vector<HostArray> &inputs);

/// The results and the communication of a run.
struct RankResult {
  /// Global results; NaN where ranks hold no value or different values.
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
