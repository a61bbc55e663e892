//===- RankInterpreter.h - All ranks of @step in one process ----*- C++ -*-===//
//
// The reference for tests of partitioning. It shards global inputs by
// `dpc.global`, runs @step op by op for every rank and micro-batch, executes
// the collectives, assembles the global outputs and compares replicas. Padding
// is NaN for floats. For integers it is 1, which is a plausible value, so a
// missing mask changes the result.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/RankOps.h"

namespace dpc::test {

/// Returns the coordinates of all ranks, row-major over all axes except `mb`
/// (the micro-batches). The coordinate on `mb` is 0.
std::vector<Coordinates> allRanks(MeshAttr mesh);

/// Returns the shard of `global` on the rank at `coordinates`. If `type` is a
/// partial sum, the rank at coordinate 0 gets the whole value, and the other
/// ranks get the neutral element.
HostArray pack(const HostArray &global, mlir::RankedTensorType type,
               const Coordinates &coordinates);

/// Evaluates a function on global tensors. Shardings are ignored.
std::vector<HostArray> runGlobal(mlir::func::FuncOp func,
                                 const std::vector<HostArray> &inputs);

struct RankResult {
  /// An element is NaN if no rank stores it or if ranks store different values.
  std::vector<HostArray> outputs;
  /// The first difference between replicas, or "".
  std::string disagreement;
  /// How often each kind of collective was executed, by op name. All ranks
  /// together count as one execution.
  std::map<std::string, int64_t> collectives;
};

RankResult runRanks(mlir::func::FuncOp step,
                    const std::vector<HostArray> &inputs);

} // namespace dpc::test
