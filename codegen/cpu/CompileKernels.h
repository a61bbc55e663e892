//===- CompileKernels.h - Compiles kernels to a shared object ---*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::codegen {

struct TargetCpu {
  std::string name; ///< LLVM's name: "sapphirerapids", "x86-64-v3"
  /// CPU features that generated code may use. Machines without one of them
  /// cannot run it.
  std::vector<std::string> features;
  /// LLVM's feature string "+avx2,-avx512f,...". For "native" it lists the
  /// features of this machine, because a virtual machine can lack features of
  /// the CPU model that it reports.
  std::string attributes;
};

/// Resolves "native" or one of LLVM's CPU names. On failure, `error` names
/// accepted values.
std::optional<TargetCpu> resolveTargetCpu(llvm::StringRef name,
                                          std::string &error);

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) and writes
/// its public functions to the shared object `path`. Fails with a diagnostic on
/// the module.
llvm::LogicalResult compileToSharedObject(mlir::ModuleOp module,
                                          const TargetCpu &cpu,
                                          const std::string &path);

/// Returns the path of the program that links kernels: an lld or ld in PATH, or
/// else LLVM's own lld.
std::optional<std::string> kernelLinker();

void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace dpc::codegen
