//===- ElementwiseProbe.cpp - A generated kernel to measure ---------------===//
#include "tools/driver/ElementwiseProbe.h"

#include "codegen/Codegen.h"
#include "ir/Dialect.h"

#include "mlir/Parser/Parser.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"

#include <filesystem>

using namespace mlir;

namespace dpc {

/// Elements of an array: 64 KiB.
constexpr int64_t kElements = 16384;

static std::string textOfStep() {
  std::string type = "tensor<" + std::to_string(kElements) + "xf32>";
  std::string text = "func.func @step(%x: " + type +
                     " {dpc.role = \"input\", dpc.name = \"x\"}) -> (" + type +
                     " {dpc.name = \"y\"}, " + type + " {dpc.name = \"dy\"}) {";
  for (const char *kind : {"gelu", "gelu_grad"})
    text += std::string("\n%") + kind + " = dpc.unary " + kind +
            " %x : " + type + " -> " + type;
  return text + "\nreturn %gelu, %gelu_grad : " + type + ", " + type + "\n}";
}

/// Compiles @step into `folder`; what is wrong goes to diagnostics.
static FailureOr<rt::Plan> compileStep(MLIRContext &context,
                                       const std::string &folder) {
  context.loadDialect<DpcDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(textOfStep(), &context);
  if (!module)
    return failure();
  codegen::CodegenOptions options;
  options.model = "calibration";
  auto draft =
      codegen::buildPlan({module->lookupSymbol<func::FuncOp>("step")}, options);
  if (failed(draft) || failed(codegen::writeKernels(*draft, folder)))
    return failure();
  return std::move(draft->plan);
}

std::optional<ElementwiseProbe> ElementwiseProbe::compile(std::string &error) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("dpc-calibrate", folder)) {
    error = "a folder for kernels cannot be made";
    return std::nullopt;
  }
  llvm::scope_exit remove([&] {
    std::error_code ignored;
    std::filesystem::remove_all(folder.str().str(), ignored);
  });
  MLIRContext context;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    error = diagnostic.str();
    return success();
  });
  auto plan = compileStep(context, folder.str().str());
  if (failed(plan))
    return std::nullopt;
  auto library = rt::KernelLibrary::load(*plan, folder.str().str());
  if (!library) {
    error = library.status().message();
    return std::nullopt;
  }
  ElementwiseProbe probe;
  probe.loaded = *library;
  probe.x.assign(kElements, 0.5f);
  probe.y.resize(kElements);
  for (const auto &[phase, instructions] : plan->phases)
    for (const rt::Instruction &instruction : instructions)
      if (auto *call = std::get_if<rt::KernelOp>(&instruction.op)) {
        if (call->buffers.size() != 2 || !call->scalars.empty()) {
          error = "the probe's kernel takes other arguments than x and y";
          return std::nullopt;
        }
        probe.kernels.push_back(library->find(call->symbol));
        probe.flops += instruction.flops;
      }
  return probe;
}

void ElementwiseProbe::run() {
  void *buffers[] = {x.data(), y.data()};
  for (rt::KernelFunction kernel : kernels)
    kernel(buffers, nullptr);
}

} // namespace dpc
