//===- CompileKernels.cpp - Kernels to a shared object --------------------===//
#include "codegen/cpu/CompileKernels.h"
#include "codegen/cpu/KernelLinker.h"
#include "codegen/kernel/CompileStages.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

using namespace mlir;

namespace dpc::codegen {

void registerCodegenDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
              LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

//===----------------------------------------------------------------------===//
// The target
//===----------------------------------------------------------------------===//

static llvm::Triple hostTriple() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  return llvm::Triple(llvm::sys::getProcessTriple());
}

/// Wide vectors: LLVM prefers 256 bits where clocks used to drop, which memory
/// bound loops do not notice.
static std::string attributesOf(bool isNative) {
  llvm::SubtargetFeatures attributes;
  if (isNative)
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      attributes.AddFeature(feature.first(), feature.second);
  if (hostTriple().isX86())
    attributes.AddFeature("prefer-256-bit", false);
  return attributes.getString();
}

/// Whether compiled loops may use instructions of the feature `name`: vectors
/// and bits, not what manages processes or memory.
static bool isUsedByLoops(llvm::StringRef name) {
  if (name.starts_with("avx10")) // a sum of features that are listed too
    return false;
  for (const char *prefix :
       {"sse", "ssse", "avx", "fma", "f16c", "bmi", "lzcnt", "popcnt", "movbe",
        "gfni", "vaes", "vpclmulqdq", "adx", "xop"})
    if (name.starts_with(prefix))
      return true;
  return false;
}

std::optional<TargetCpu> resolveTargetCpu(llvm::StringRef name,
                                          std::string &error) {
  llvm::Triple triple = hostTriple();
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return std::nullopt;
  std::string cpu =
      name == "native" ? llvm::sys::getHostCPUName().str() : name.str();
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(triple, "", ""));
  if (!info || !info->isCPUStringValid(cpu)) {
    error = "--target-cpu: unknown processor '" + cpu +
            "'; 'native', 'x86-64-v3', 'x86-64-v4' and LLVM's processor names "
            "are accepted";
    return std::nullopt;
  }
  TargetCpu result{cpu, {}, attributesOf(name == "native")};
  info.reset(target->createMCSubtargetInfo(triple, cpu, result.attributes));
  if (!triple.isX86())
    return result;
  // A processor's features are those that hosts are asked for; others of
  // LLVM's are about tuning.
  llvm::StringMap<bool> known = llvm::sys::getHostCPUFeatures();
  for (const llvm::SubtargetFeatureKV &feature :
       info->getEnabledProcessorFeatures())
    if (known.contains(feature.Key) && isUsedByLoops(feature.Key))
      result.features.push_back(feature.Key);
  llvm::sort(result.features);
  return result;
}

static std::unique_ptr<llvm::TargetMachine> createMachine(const TargetCpu &cpu,
                                                          std::string &error) {
  llvm::Triple triple = hostTriple();
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu.name, cpu.attributes, llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

//===----------------------------------------------------------------------===//
// The stages
//===----------------------------------------------------------------------===//

/// Lowering leaves a loop's annotation on the branch of its header; LLVM reads
/// that of the latch.
static void moveLoopMetadata(llvm::Function &function) {
  llvm::DominatorTree dominators(function);
  llvm::LoopInfo loops(dominators);
  for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
    llvm::Instruction *branch = loop->getHeader()->getTerminator();
    llvm::MDNode *id = branch->getMetadata(llvm::LLVMContext::MD_loop);
    if (!id)
      continue;
    branch->setMetadata(llvm::LLVMContext::MD_loop, nullptr);
    loop->setLoopID(id);
  }
}

/// Kernel bodies keep their own functions: their arguments are `noalias`,
/// which inlining would weaken.
static void setFunctionAttributes(llvm::Module &module, const TargetCpu &cpu) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", cpu.name);
    if (!cpu.attributes.empty())
      function.addFnAttr("target-features", cpu.attributes);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    moveLoopMetadata(function);
    if (function.getName().ends_with("_impl")) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      function.addFnAttr(llvm::Attribute::NoInline);
    }
  }
}

static llvm::PipelineTuningOptions tuningForCpus() {
  // Loops are vectorized as loops; straight-line code is not worth the search.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  tuning.SLPVectorization = false;
  // The vectorizer interleaves; more unrolling triples code and compile time.
  tuning.LoopUnrolling = false;
  return tuning;
}

std::optional<std::string> kernelLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld", "ld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  auto found = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
  return found ? std::optional(*found) : std::nullopt;
}

static LogicalResult linkObject(const std::string &object,
                                const std::string &path, std::string &error) {
  std::optional<std::string> linker = kernelLinker();
  if (!linker) {
    error = "no linker found: install lld-22 (ld.lld-22, ld.lld and ld were "
            "looked for in PATH)";
    return failure();
  }
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      *linker, {*linker, "-shared", "-o", path, object}, std::nullopt, {},
      /*SecondsToWait=*/120, /*MemoryLimit=*/0, &message);
  (void)llvm::sys::fs::remove(object);
  if (status != 0) {
    error = *linker + " failed on " + object + " (status " +
            std::to_string(status) + ") " + message;
    return failure();
  }
  return success();
}

LogicalResult compileToSharedObject(ModuleOp module, const TargetCpu &cpu,
                                    const std::string &path) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(cpu, error);
  if (!machine)
    return module.emitError(error);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateKernels(module, context, *machine);
  if (!llvmModule)
    return failure();
  setFunctionAttributes(*llvmModule, cpu);
  optimizeModule(*llvmModule, *machine, tuningForCpus());
  std::string object = path + ".o";
  if (failed(writeMachineCode(*llvmModule, *machine,
                              llvm::CodeGenFileType::ObjectFile, object,
                              error)) ||
      failed(linkObject(object, path, error)))
    return module.emitError(error);
  return success();
}

} // namespace dpc::codegen
