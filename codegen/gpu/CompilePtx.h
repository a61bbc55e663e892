//===- CompilePtx.h - Kernels to PTX ----------------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_GPU_COMPILEPTX_H
#define DPC_CODEGEN_GPU_COMPILEPTX_H

#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace dpc::codegen {

/// Whether kernels can be compiled for `name`: "sm_80" and "sm_90" are what is
/// tested. Fails with a message in `error`.
bool checkTargetGpu(llvm::StringRef name, std::string &error);

/// A unit attribute of functions that keep many values in registers: the
/// assembler is told to give them some more, so that none is spilled.
inline constexpr llvm::StringLiteral kKeepsManyValues = "dpc.keeps_many_values";

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed), whose
/// functions named in `launches` become kernels, and writes `path`, PTX text
/// for `targetGpu`. Math that has no code here is taken from the CUDA toolkit's
/// libdevice, which is looked for only then. Fails with a diagnostic on the
/// module.
llvm::LogicalResult
compileToPtx(mlir::ModuleOp module, const std::string &targetGpu,
             const std::map<std::string, rt::KernelLaunch> &launches,
             const std::string &path);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_GPU_COMPILEPTX_H
