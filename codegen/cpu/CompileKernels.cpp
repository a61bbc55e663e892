//===- CompileKernels.cpp - Compiles kernels to a shared object -----------===//
#include "codegen/cpu/CompileKernels.h"
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
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
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

static llvm::Triple hostTriple() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  return llvm::Triple(llvm::sys::getProcessTriple());
}

/// By default, LLVM limits vectors to 256 bits, because wider vectors lower the
/// clock of some CPUs. A lower clock does not slow down memory-bound loops, so
/// this function allows all widths.
static std::string attributesOf(bool isNative) {
  llvm::SubtargetFeatures attributes;
  if (isNative)
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      attributes.AddFeature(feature.first(), feature.second);
  if (hostTriple().isX86())
    attributes.AddFeature("prefer-256-bit", false);
  return attributes.getString();
}

static bool isUsedByLoops(llvm::StringRef name) {
  // LLVM lists the parts of avx10 as separate features.
  if (name.starts_with("avx10"))
    return false;
  static constexpr llvm::StringLiteral prefixes[] = {
      "sse",    "ssse",  "avx",  "fma",  "f16c",       "bmi", "lzcnt",
      "popcnt", "movbe", "gfni", "vaes", "vpclmulqdq", "adx", "xop"};
  return llvm::any_of(prefixes, [&](llvm::StringRef prefix) {
    return name.starts_with(prefix);
  });
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
  // The features that a machine can be checked for; the others are for tuning.
  llvm::StringMap<bool> known = llvm::sys::getHostCPUFeatures();
  for (const llvm::SubtargetFeatureKV &feature :
       info->getEnabledProcessorFeatures())
    if (known.contains(feature.Key) && isUsedByLoops(feature.Key))
      result.features.push_back(feature.Key);
  llvm::sort(result.features);
  return result;
}

/// MLIR puts the metadata at a loop's header; LLVM expects it at the latch.
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

/// Inlining kernel bodies would weaken the `noalias` of their arguments.
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

std::optional<std::string> kernelLinker() {
  for (const char *name : {"ld.lld-22", "ld.lld", "ld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  auto found = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin"});
  return found ? std::optional(*found) : std::nullopt;
}

/// Returns an error message, or "".
static std::string linkObject(const std::string &object,
                              const std::string &path) {
  std::optional<std::string> linker = kernelLinker();
  if (!linker)
    return "no linker found: install lld-22 (PATH has none of ld.lld-22, "
           "ld.lld and ld)";
  llvm::FileRemover remover(object);
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      *linker, {*linker, "-shared", "-o", path, object}, std::nullopt, {},
      /*SecondsToWait=*/120, /*MemoryLimit=*/0, &message);
  if (status == 0)
    return "";
  return *linker + " failed on " + object + " (status " +
         std::to_string(status) + ") " + message;
}

LogicalResult compileToSharedObject(ModuleOp module, const TargetCpu &cpu,
                                    const std::string &path) {
  CompileOptions options{hostTriple(), cpu.name, cpu.attributes};
  options.tuning.LoopVectorization = true;
  options.tuning.LoopInterleaving = true;
  // SLP vectorization (of straight-line code) takes too long.
  options.tuning.SLPVectorization = false;
  // Unrolling after vectorization would triple code size and compile time.
  options.tuning.LoopUnrolling = false;
  std::string object = path + ".o";
  if (failed(compileKernels(module, options, object,
                            [&](llvm::Module &llvmModule) -> std::string {
                              setFunctionAttributes(llvmModule, cpu);
                              return "";
                            })))
    return failure();
  std::string error = linkObject(object, path);
  return error.empty() ? success() : LogicalResult(module.emitError(error));
}

} // namespace dpc::codegen
