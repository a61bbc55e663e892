//===- CompileStages.h - What all targets' compilation shares ---*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_COMPILESTAGES_H
#define DPC_CODEGEN_KERNEL_COMPILESTAGES_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace dpc::codegen {

/// Lowers `module` (func, scf, arith, math and llvm ops; consumed) to LLVM IR
/// for the machine. Null after a diagnostic on the module.
std::unique_ptr<llvm::Module> translateKernels(mlir::ModuleOp module,
                                               llvm::LLVMContext &context,
                                               llvm::TargetMachine &machine);

/// LLVM's -O3 for the machine.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    const llvm::PipelineTuningOptions &tuning);

/// Writes an object file or assembly. Fails with a message in `error`.
llvm::LogicalResult writeMachineCode(llvm::Module &module,
                                     llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType kind,
                                     const std::string &path,
                                     std::string &error);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_COMPILESTAGES_H
