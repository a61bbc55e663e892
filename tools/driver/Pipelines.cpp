//===- Pipelines.cpp - Passes between a model and what is sharded ---------===//
#include "tools/driver/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dpc {

bool scalesLoss(const CompileOptions &options) {
  return options.precision == "fp16" || options.lossScaleInterval == 0;
}

std::string graphPipeline(const CompileOptions &options, bool trains) {
  if (!trains)
    return "func.func(dpc-expand-cross-entropy,canonicalize,cse)";
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "dpc-differentiate{optimizer="
      << (options.train.empty() ? "adamw" : options.train)
      << llvm::format(" beta1=%.17g", options.beta1)
      << llvm::format(" beta2=%.17g", options.beta2)
      << llvm::format(" eps=%.17g", options.eps)
      << llvm::format(" momentum=%.17g", options.momentum)
      << llvm::format(" clip-grad-norm=%.17g", options.clipGradNorm);
  if (options.weightDecay)
    out << llvm::format(" weight-decay=%.17g", *options.weightDecay);
  if (scalesLoss(options))
    out << llvm::format(" loss-scale=%.17g", options.lossScale)
        << " loss-scale-interval=" << options.lossScaleInterval;
  out << "},func.func(dpc-expand-cross-entropy,canonicalize)";
  return text;
}

std::string stepPipeline(const CompileOptions &options, bool trains) {
  std::string narrows;
  if (options.precision != "fp32")
    narrows = "func.func(dpc-mixed-precision{type=" +
              std::string(options.precision == "fp16"  ? "f16"
                          : options.precision == "fp8" ? "bf16 fp8=true"
                                                       : "bf16") +
              "},canonicalize),";
  return narrows + graphPipeline(options, trains);
}

LogicalResult runPipeline(ModuleOp module, StringRef pipeline) {
  PassManager passes(module.getContext());
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (failed(parsePassPipeline(pipeline, passes, stream)))
    return emitError(UnknownLoc::get(module.getContext()))
           << "internal pipeline '" << pipeline << "': " << errors;
  return passes.run(module);
}

} // namespace dpc
