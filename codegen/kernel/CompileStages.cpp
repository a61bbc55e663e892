//===- CompileStages.cpp - The compilation steps that all targets share ---===//
#include "codegen/kernel/CompileStages.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace dpc::codegen {

static LogicalResult lowerToLLVMDialect(ModuleOp module) {
  PassManager pm(module.getContext());
  pm.enableVerifier(false);
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

/// Runs LLVM's -O3 pipeline.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine,
                     const llvm::PipelineTuningOptions &tuning) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

LogicalResult
compileKernels(ModuleOp module, const CompileOptions &options,
               const std::string &path,
               llvm::function_ref<std::string(llvm::Module &)> prepare) {
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(options.triple, error);
  if (!target)
    return module.emitError(error);
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      options.triple, options.cpu, options.features, llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, options.level));
  if (failed(lowerToLLVMDialect(module)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, "kernels");
  if (!llvmModule)
    return module.emitError("cannot translate the kernels to LLVM IR");
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  error = prepare(*llvmModule);
  if (!error.empty())
    return module.emitError(error);
  optimize(*llvmModule, *machine, options.tuning);
  std::error_code code;
  llvm::raw_fd_ostream out(path, code, llvm::sys::fs::OF_None);
  if (code)
    return module.emitError("cannot write " + path + ": " + code.message());
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, options.output))
    return module.emitError("this LLVM cannot write object files");
  passes.run(*llvmModule);
  return success();
}

} // namespace dpc::codegen
