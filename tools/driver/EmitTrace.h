//===- EmitTrace.h - The simulated step as a trace --------------*- C++ -*-===//
//
// The trace has the form of `dpc-run --trace` for one step, with simulated
// times. If an op becomes several instructions, they share the time of the op
// equally. Instructions that codegen adds (loads, copies) take no time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "passes/shard/LoweringSpec.h"
#include "runtime/observe/Trace.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

struct SimulatedStep {
  const rt::Plan &plan; ///< Without kernels.
  /// Three queues per rank, ordered by rank.
  std::vector<rt::TraceLane> lanes;
  std::string leftOut; ///< Describes what the lanes lack, or "".
};

/// Simulates a step of `program`, and passes at most `mostEvents` events to
/// `use`, which returns "" or a one-line error. The argument of `use` is valid
/// only during the call. Shows all ranks if they fit; otherwise the first rank
/// of each stage; otherwise as many of these ranks as fit, starting with the
/// first and the last stage; otherwise the beginning of the first rank's step.
std::string
simulateStep(const CompileOptions &options, mlir::ModuleOp program,
             const cost::Cluster &cluster, const LoweringSpec &spec,
             int64_t mostEvents,
             llvm::function_ref<std::string(const SimulatedStep &)> use);

/// Writes a trace of `program` with at most 200,000 events to `path`. Describes
/// what the trace lacks in `leftOut`. Returns "" or a one-line error.
std::string emitTrace(const CompileOptions &options, mlir::ModuleOp program,
                      const cost::Cluster &cluster, const LoweringSpec &spec,
                      const std::filesystem::path &path, std::string &leftOut);

} // namespace dpc
