//===- RankInterpreter.h - All ranks of @step in one process ----*- C++ -*-===//
//
// The oracle of partitioning: packs global inputs by `dpc.global`, runs every
// rank and micro-batch of @step op by op with real collectives, unpacks the
// outputs and compares replicas. Padding is filled with NaN (floats) or an
// innocent-looking 1 (integers), so that a forgotten mask shows.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TEST_SUPPORT_RANKINTERPRETER_H
#define DPC_TEST_SUPPORT_RANKINTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/RankOps.h"

namespace dpc::test {

/// Coordinates of all ranks, row-major over all axes but `mb`, which is 0.
std::vector<Coordinates> allRanks(MeshAttr mesh);

/// What the rank at `coordinates` holds of `global`. A partial value is held
/// whole by coordinate 0 and is the neutral element elsewhere.
HostArray pack(const HostArray &global, mlir::RankedTensorType type,
               const Coordinates &coordinates);

/// Evaluates a function of global tensors, encodings ignored.
std::vector<HostArray> runGlobal(mlir::func::FuncOp func,
                                 const std::vector<HostArray> &inputs);

/// What a run gave and what it sent.
struct RankResult {
  /// Global results; NaN where ranks held none or different values.
  std::vector<HostArray> outputs;
  /// First difference between replicas, or empty.
  std::string disagreement;
  /// Collectives executed, counted once per run of the op.
  std::map<std::string, int64_t> collectives;
};

/// Runs @step on global inputs.
RankResult runRanks(mlir::func::FuncOp step,
                    const std::vector<HostArray> &inputs);

} // namespace dpc::test

#endif // DPC_TEST_SUPPORT_RANKINTERPRETER_H
