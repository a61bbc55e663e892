//===- CompilePtx.h - Compiles kernels to PTX -------------------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace dpc::codegen {

/// Returns true if `name` is a GPU for which dpc is tested, "sm_80" or "sm_90".
/// Otherwise, sets `error` and returns false.
bool checkTargetGpu(llvm::StringRef name, std::string &error);

/// A unit attribute of functions that keep many values in registers. With it,
/// the assembler assigns enough registers to avoid spills.
inline constexpr llvm::StringLiteral kKeepsManyValues = "dpc.keeps_many_values";

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) and writes
/// PTX for `targetGpu` to `path`. The functions named in `launches` become
/// kernels. Reads libdevice from the CUDA toolkit only if a kernel needs a math
/// function that dpc does not implement. Fails with a diagnostic on the module.
llvm::LogicalResult
compileToPtx(mlir::ModuleOp module, const std::string &targetGpu,
             const std::map<std::string, rt::KernelLaunch> &launches,
             const std::string &path);

} // namespace dpc::codegen
