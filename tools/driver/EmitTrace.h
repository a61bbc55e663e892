//===- EmitTrace.h - The simulated step as a trace --------------*- C++ -*-===//
//
// The plan's instructions, in its order, by the runtime's own writer: what
// `dpc-run --trace` writes of one step, with simulated times. An instruction
// takes the time of the op that it is of, shared where there are several; what
// codegen adds (loads, copies) takes none.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DRIVER_EMITTRACE_H
#define DPC_TOOLS_DRIVER_EMITTRACE_H

#include "cost-model/machine/Cluster.h"
#include "passes/shard/Degrees.h"
#include "runtime/observe/Trace.h"
#include "tools/driver/CompileOptions.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

/// Events of a simulated step.
struct SimulatedStep {
  const rt::Plan &plan; ///< Without kernels.
  /// In the order of ranks, three queues each.
  std::vector<rt::TraceLane> lanes;
  std::string leftOut; ///< What the lanes do not hold, in words; or "".
};

/// Simulates a step of `program` under `degrees` and hands it to `use`, which
/// returns "" or a one-line error. No more than `mostEvents`: of all ranks,
/// else of the first rank of each stage, else of as many of these as that
/// allows, the outermost first, else the beginning of the first one's. The
/// step, and what it points to, ends with the call.
std::string
simulateStep(const CompileOptions &options, mlir::ModuleOp program,
             const cost::Cluster &cluster, const LoweringSpec &degrees,
             int64_t mostEvents,
             llvm::function_ref<std::string(const SimulatedStep &)> use);

/// Writes `path` for `program` under `degrees`, at most 200,000 events; what is
/// not there is said in `leftOut`. Returns "" or a one-line error.
std::string emitTrace(const CompileOptions &options, mlir::ModuleOp program,
                      const cost::Cluster &cluster, const LoweringSpec &degrees,
                      const std::filesystem::path &path, std::string &leftOut);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EMITTRACE_H
