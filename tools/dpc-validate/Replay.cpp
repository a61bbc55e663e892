//===- Replay.cpp - Runs through the real path ----------------------------===//
#include "tools/dpc-validate/Replay.h"

#include "frontends/onnx/Import.h"
#include "passes/search/Evaluator.h"
#include "tools/dpc-model/ModelBuilder.h"
#include "tools/dpc-opt/BuildPlan.h"
#include "tools/dpc-opt/Compiler.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace dpc::validate {

Replay::Replay() = default;
Replay::~Replay() { program = {}; }

/// Types and attributes of a context live as long as it does, so every program
/// has one of its own.
void Replay::startContext() {
  program = {};
  DialectRegistry registry;
  registerEverything(registry);
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    if (error.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      error = diagnostic.str();
    return success();
  });
}

static CompileOptions optionsOf(const PublishedRun &run) {
  CompileOptions options;
  options.globalBatch = run.globalBatch;
  options.precision = run.precision;
  options.clipGradNorm = 1.0; // all published recipes clip
  return options;
}

static std::string pipelineOf(const CompileOptions &options) {
  // How attention ran is said by the cluster's software.
  std::string text = "func.func(dpc-simplify,dpc-fuse,dpc-simplify";
  if (options.precision != "fp32")
    text += std::string(",dpc-mixed-precision{type=") +
            (options.precision == "fp16" ? "f16" : "bf16") + "},canonicalize";
  return text + ")," + graphPipeline(options, /*trains=*/true);
}

bool Replay::makeProgram(const PublishedRun &run) {
  startContext();
  std::string bytes;
  model::buildModel(run.dims).proto.SerializeToString(&bytes);
  CompileOptions options = optionsOf(run);
  ImportOptions import;
  import.globalBatch = run.globalBatch;
  auto imported = importOnnx(llvm::MemoryBuffer::getMemBufferCopy(bytes),
                             run.id + ".onnx", *context, import);
  if (failed(imported))
    return false;
  program = std::move(*imported);
  PassManager passes(context.get());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(parsePassPipeline(pipelineOf(options), passes, stream))) {
    error = message;
    return false;
  }
  return succeeded(passes.run(*program));
}

cost::Result<cost::Evaluation> Replay::evaluate(const PublishedRun &run) {
  error.clear();
  if (run.programKey() != key) {
    key = run.programKey();
    if (!makeProgram(run))
      program = {};
  }
  if (!program)
    return cost::Error{error.empty() ? "the model cannot be made" : error};
  CompileOptions options = optionsOf(run);
  ProgramEvaluator evaluator(*program, run.cluster, commonDegrees(options));
  cost::Evaluation evaluation = evaluator.evaluate(run.strategy);
  if (!evaluation.rejected.empty())
    return cost::Error{evaluation.rejected};
  return evaluation;
}

} // namespace dpc::validate
