//===- CompilePtx.cpp - Compiles kernels to PTX ---------------------------===//
#include "codegen/gpu/CompilePtx.h"
#include "codegen/kernel/CompileStages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"

#include <cstdlib>
#include <mutex>
#include <set>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;

namespace dpc::codegen {

/// A PTX version that old drivers accept.
static constexpr const char *kPtxVersion = "+ptx80";

bool checkTargetGpu(llvm::StringRef name, std::string &error) {
  if (name == "sm_80" || name == "sm_90")
    return true;
  error = "--target-gpu: '" + name.str() +
          "' is not known; sm_80 and sm_90 are accepted (later devices run "
          "code for sm_90)";
  return false;
}

static void initializeNvptx() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

/// Returns the libdevice function that computes `op`, or "" if there is none.
static std::string deviceFunction(Operation *op) {
  auto name = llvm::StringSwitch<std::string>(op->getName().getStringRef())
                  .Case("math.exp", "exp")
                  .Case("math.log", "log")
                  .Case("math.sin", "sin")
                  .Case("math.cos", "cos")
                  .Case("math.tanh", "tanh")
                  .Case("math.erf", "erf")
                  .Case("math.powf", "pow")
                  .Case("arith.remf", "fmod")
                  .Default("");
  if (name.empty())
    return "";
  return "__nv_" + name + (op->getResult(0).getType().isF32() ? "f" : "");
}

/// Returns whether any op was replaced by a call.
static bool callDeviceFunctions(ModuleOp module) {
  bool any = false;
  module.walk([&](Operation *op) {
    std::string name = deviceFunction(op);
    if (name.empty())
      return;
    any = true;
    OpBuilder builder(op);
    if (!module.lookupSymbol(name)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(module.getBody());
      auto type =
          builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
      func::FuncOp::create(builder, op->getLoc(), name, type).setPrivate();
    }
    auto call = func::CallOp::create(builder, op->getLoc(), name,
                                     op->getResultTypes(), op->getOperands());
    op->replaceAllUsesWith(call);
    op->erase();
  });
  return any;
}

static std::string findLibdevice() {
  std::vector<std::string> roots;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable))
      roots.push_back(root);
  roots.push_back("/usr/local/cuda");
  roots.push_back("/usr/lib/cuda");
  for (const std::string &root : roots) {
    std::string path = root + "/nvvm/libdevice/libdevice.10.bc";
    if (llvm::sys::fs::exists(path))
      return path;
  }
  return "";
}

/// Returns an error message, or "".
static std::string linkLibdevice(llvm::Module &module) {
  std::string path = findLibdevice();
  if (path.empty())
    return "a kernel needs a function of libdevice, and no CUDA toolkit was "
           "found: set CUDA_HOME to the folder that has "
           "nvvm/libdevice/libdevice.10.bc, or install it in /usr/local/cuda";
  llvm::SMDiagnostic diagnostic;
  auto library = llvm::parseIRFile(path, diagnostic, module.getContext());
  if (!library)
    return path + ": " + diagnostic.getMessage().str();
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  for (llvm::Function &function : *library)
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  if (llvm::Linker::linkModules(module, std::move(library),
                                llvm::Linker::LinkOnlyNeeded))
    return path + ": cannot be linked";
  // Keeps denormals and makes divisions and square roots exact.
  module.addModuleFlag(llvm::Module::Override, "nvvm-reflect-ftz", uint32_t(0));
  return "";
}

/// Removes the attribute kKeepsManyValues; returns the functions that had it.
static std::set<std::string> takeMarks(ModuleOp module) {
  std::set<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->removeAttr(kKeepsManyValues))
      names.insert(function.getName().str());
  return names;
}

/// The number of threads that run on a multiprocessor at once. Each thread has
/// 64 of the 65,536 registers, and 32 warps keep enough loads in flight.
constexpr int64_t kThreadsOfSm = 1024;

static void markKernels(llvm::Module &module,
                        const std::map<std::string, rt::KernelLaunch> &launches,
                        const std::set<std::string> &keepMany) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    auto launch = launches.find(function.getName().str());
    if (launch == launches.end()) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      continue;
    }
    function.setCallingConv(llvm::CallingConv::PTX_Kernel);
    int64_t threads = launch->second.threads;
    function.addFnAttr("nvvm.maxntid", std::to_string(threads));
    if (int64_t blocks = kThreadsOfSm / threads;
        blocks > 0 && keepMany.count(function.getName().str()))
      function.addFnAttr("nvvm.minctasm", std::to_string(blocks));
  }
}

LogicalResult
compileToPtx(ModuleOp module, const std::string &targetGpu,
             const std::map<std::string, rt::KernelLaunch> &launches,
             const std::string &path) {
  initializeNvptx();
  bool needsLibrary = callDeviceFunctions(module);
  std::set<std::string> keepMany = takeMarks(module);
  CompileOptions options{llvm::Triple("nvptx64-nvidia-cuda"),
                         targetGpu,
                         kPtxVersion,
                         llvm::CodeGenOptLevel::Aggressive,
                         {},
                         llvm::CodeGenFileType::AssemblyFile};
  options.tuning.LoopVectorization = options.tuning.SLPVectorization = false;
  return compileKernels(
      module, options, path, [&](llvm::Module &llvmModule) -> std::string {
        std::string error = needsLibrary ? linkLibdevice(llvmModule) : "";
        if (error.empty())
          markKernels(llvmModule, launches, keepMany);
        return error;
      });
}

} // namespace dpc::codegen
