//===- CompileKernels.h - Compiles kernels to a shared object ---*- C++ -*-===//
#ifndef DPC_CODEGEN_CPU_COMPILEKERNELS_H
#define DPC_CODEGEN_CPU_COMPILEKERNELS_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc::codegen {

/// A processor as LLVM describes it.
struct TargetCpu {
  std::string name; ///< LLVM's name: "sapphirerapids", "x86-64-v3"
  /// Features that generated code may use and that a machine may lack.
  std::vector<std::string> features;
  /// LLVM's "+avx2,-avx512f,...". For "native" these are the features of this
  /// machine. They can be fewer than its name implies, because virtual machines
  /// mask some.
  std::string attributes;
};

/// Resolves "native" or one of LLVM's CPU names. On failure, `error` names
/// accepted values.
std::optional<TargetCpu> resolveTargetCpu(llvm::StringRef name,
                                          std::string &error);

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) and writes
/// the shared object `path` with its public functions. Fails with a diagnostic
/// on the module.
llvm::LogicalResult compileToSharedObject(mlir::ModuleOp module,
                                          const TargetCpu &cpu,
                                          const std::string &path);

/// Returns the path of the program that links kernels: an lld or ld in PATH, or
/// else LLVM's own lld.
std::optional<std::string> kernelLinker();

/// Registers the dialects and translations that compileToSharedObject() needs.
void registerCodegenDialects(mlir::DialectRegistry &registry);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_CPU_COMPILEKERNELS_H
