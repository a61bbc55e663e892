//===- LoadModel.cpp - A model of any format ------------------------------===//
#include "tools/driver/LoadModel.h"

#include "frontends/onnx/Import.h"
#include "frontends/stablehlo/Import.h"
#include "frontends/torch/Import.h"
#include "ir/Attributes.h"

#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace dpc {

ImportOptions importOptions(const CompileOptions &options) {
  ImportOptions import;
  import.bind = options.bind;
  import.globalBatch = options.globalBatch;
  import.frozen = options.frozen;
  import.trainable = options.trainable;
  import.appendsLoss = !options.loss.empty();
  import.seed = options.seed;
  return import;
}

static OwningOpRef<ModuleOp> failWith(const CompileOptions &options,
                                      MLIRContext &context,
                                      const llvm::Twine &why) {
  emitError(UnknownLoc::get(&context)) << options.model << ": " << why;
  return {};
}

static OwningOpRef<ModuleOp> loadIr(const CompileOptions &options,
                                    MLIRContext &context) {
  auto bytes = llvm::MemoryBuffer::getFile(options.model);
  if (bytes && isStableHlo((*bytes)->getBuffer())) {
    auto imported = importStableHlo(std::move(*bytes), options.model, context,
                                    importOptions(options));
    return succeeded(imported) ? std::move(*imported) : OwningOpRef<ModuleOp>();
  }
  auto program = parseSourceFile<ModuleOp>(options.model, &context);
  return program ? std::move(program)
                 : failWith(options, context, "cannot be read as dpc IR");
}

OwningOpRef<ModuleOp> loadModel(const CompileOptions &options,
                                MLIRContext &context) {
  StringRef file = options.model;
  if (file.ends_with(".mlir") || file.ends_with(".mlirbc"))
    return loadIr(options, context);
  bool isTorch = file.ends_with(".pt2");
  if (!isTorch && !file.ends_with(".onnx"))
    return failWith(options, context,
                    "unknown kind of model; .onnx, .pt2, and .mlir of "
                    "StableHLO or dpc are accepted");
  auto imported = isTorch ? importTorch(file, context, importOptions(options))
                          : importOnnx(file, context, importOptions(options));
  return succeeded(imported) ? std::move(*imported) : OwningOpRef<ModuleOp>();
}

std::string whyNoStep(const CompileOptions &options, ModuleOp program) {
  if (!program->hasAttr(attr::kWholeStep))
    return "";
  std::string option = !options.train.empty()  ? "--train=" + options.train
                       : !options.loss.empty() ? "--loss=" + options.loss
                       : options.precision != "fp32"
                           ? "--precision=" + options.precision
                       : options.clipGradNorm > 0 ? "--clip-grad-norm"
                       : options.infer            ? "--infer"
                                                  : "";
  return option.empty() ? ""
                        : options.model +
                              " is a training step already, with gradients "
                              "and optimizer inside: " +
                              option + " is for models without";
}

} // namespace dpc
