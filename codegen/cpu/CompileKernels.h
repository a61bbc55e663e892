//===- CompileKernels.h - Kernels to a shared object ------------*- C++ -*-===//
#ifndef DPC_CODEGEN_CPU_COMPILEKERNELS_H
#define DPC_CODEGEN_CPU_COMPILEKERNELS_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace dpc::codegen {

/// A processor as LLVM describes it.
struct TargetCpu {
  std::string name; ///< LLVM's name: "sapphirerapids", "x86-64-v3"
  /// Features that generated code may use and a machine may lack.
  std::vector<std::string> features;
  /// LLVM's "+avx2,-avx512f,...": for "native" what this machine has, which may
  /// be less than its name implies (virtual machines mask features).
  std::string attributes;
};

/// Resolves "native" or one of LLVM's CPU names. Fails with a message in
/// `error` that says which names exist nearby.
std::optional<TargetCpu> resolveTargetCpu(llvm::StringRef name,
                                          std::string &error);

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) and writes
/// `path`, a shared object with its public functions. Fails with a diagnostic
/// on the module.
llvm::LogicalResult compileToSharedObject(mlir::ModuleOp module,
                                          const TargetCpu &cpu,
                                          const std::string &path);

/// Registers the translations that compileToSharedObject needs.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_CPU_COMPILEKERNELS_H
