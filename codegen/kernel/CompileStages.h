//===- CompileStages.h - Compilation steps of all targets -------*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/TargetParser/Triple.h"

#include <string>

namespace dpc::codegen {

struct CompileOptions {
  llvm::Triple triple;
  std::string cpu, features; ///< as LLVM names them
  llvm::CodeGenOptLevel level = llvm::CodeGenOptLevel::Default;
  llvm::PipelineTuningOptions tuning;
  llvm::CodeGenFileType output = llvm::CodeGenFileType::ObjectFile;
};

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) to LLVM IR,
/// applies `prepare` and LLVM's -O3 pipeline, and writes machine code to
/// `path`. `prepare` returns an error message, or "". Fails with a diagnostic
/// on the module.
llvm::LogicalResult
compileKernels(mlir::ModuleOp module, const CompileOptions &options,
               const std::string &path,
               llvm::function_ref<std::string(llvm::Module &)> prepare);

} // namespace dpc::codegen
