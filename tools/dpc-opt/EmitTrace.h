//===- EmitTrace.h - The simulated step as a trace --------------*- C++ -*-===//
//
// The plan's instructions, in its order, by the runtime's own writer: what
// `dpc-run --trace` writes of one step, with simulated times. An instruction
// takes the time of the op that it is of, shared where there are several; what
// codegen adds (loads, copies) takes none.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_OPT_EMITTRACE_H
#define DPC_TOOLS_DPC_OPT_EMITTRACE_H

#include "cost-model/Cluster.h"
#include "passes/shard/Degrees.h"
#include "runtime/exec/Trace.h"
#include "tools/dpc-opt/Options.h"

#include "mlir/IR/BuiltinOps.h"

#include <filesystem>

namespace dpc {

/// Simulates a step of `program` under `degrees` and hands the plan and its
/// events to `use`, which returns "" or a one-line error: those of all ranks,
/// or where they are more than `mostEvents` of the first rank of each stage.
/// The plan has no kernels and ends with the call.
std::string
simulateStep(const CompileOptions &options, mlir::ModuleOp program,
             const cost::Cluster &cluster, const ShardDegrees &degrees,
             int64_t mostEvents,
             llvm::function_ref<std::string(const rt::Plan &,
                                            const std::vector<rt::TraceLane> &)>
                 use);

/// Writes `path` for `program` under `degrees`, for all ranks, or for the first
/// of each stage where there are many. Returns "" or a one-line error.
std::string emitTrace(const CompileOptions &options, mlir::ModuleOp program,
                      const cost::Cluster &cluster, const ShardDegrees &degrees,
                      const std::filesystem::path &path);

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_EMITTRACE_H
