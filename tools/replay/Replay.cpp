//===- Replay.cpp - Runs through the real path ----------------------------===//
#include "tools/replay/Replay.h"

#include "frontends/onnx/Import.h"
#include "frontends/dims/ModelBuilder.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Compiler.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <mutex>

using namespace mlir;

namespace dpc::validate {

Replay::Replay() = default;
Replay::~Replay() { dropProgram(); }

void Replay::dropProgram() {
  evaluators.clear();
  family.reset();
  fused = {};
}

/// Types and attributes of a context live as long as it does, so every program
/// has one of its own.
void Replay::startContext() {
  dropProgram();
  static std::mutex registers; // passes are registered for the process
  DialectRegistry registry;
  {
    std::lock_guard<std::mutex> lock(registers);
    registerEverything(registry);
  }
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

/// From the fused @forward to what is sharded.
static std::string trainingPipeline(const CompileOptions &options) {
  std::string text;
  if (options.precision != "fp32")
    text = std::string("func.func(dpc-mixed-precision{type=") +
           (options.precision == "fp16" ? "f16" : "bf16") + "},canonicalize),";
  return text + graphPipeline(options, /*trains=*/true);
}

bool Replay::makeProgram(const PublishedRun &run) {
  startContext();
  std::string bytes;
  model::buildModel(run.dims).proto.SerializeToString(&bytes);
  ImportOptions import;
  import.globalBatch = run.globalBatch;
  auto imported = importOnnx(llvm::MemoryBuffer::getMemBufferCopy(bytes),
                             run.id + ".onnx", *context, import);
  if (failed(imported))
    return false;
  fused = std::move(*imported);
  // How attention ran is said by the cluster's software.
  PassManager passes(context.get());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(parsePassPipeline("func.func(dpc-simplify,dpc-fuse,dpc-simplify)",
                               passes, stream))) {
    error = message;
    return false;
  }
  if (failed(passes.run(*fused)))
    return false;
  family =
      std::make_unique<ProgramFamily>(*fused, trainingPipeline(optionsOf(run)));
  // A program that cannot be made is not asked for strategies.
  return family->isDeep() || succeeded(family->whole());
}

ProgramEvaluator &Replay::evaluatorOf(const PublishedRun &run) {
  OnCluster &entry = evaluators[run.clusterKey()];
  if (!entry.evaluator) {
    entry.cluster = run.cluster;
    entry.evaluator = std::make_unique<ProgramEvaluator>(
        *family, entry.cluster, commonDegrees(optionsOf(run)));
  }
  return *entry.evaluator;
}

Expected<cost::Evaluation> Replay::evaluate(const PublishedRun &run) {
  error.clear();
  if (run.programKey() != key) {
    key = run.programKey();
    if (!makeProgram(run))
      dropProgram();
  }
  if (!family)
    return Error{error.empty() ? "the model cannot be made" : error};
  ProgramEvaluator &evaluator = evaluatorOf(run);
  bool isExact = run.strategy.recompute != cost::Recompute::Full && run.strategy.zero != 3;
  cost::Strategy strategy = run.strategy;
  strategy.placement = "tp.cp.ep.dpi.dp.pp"; // as frameworks number ranks
  cost::Evaluation evaluation = isExact ? evaluator.evaluate(strategy)
                                        : evaluator.evaluateWhole(strategy);
  if (!evaluation.rejected.empty())
    return Error{evaluation.rejected};
  return evaluation;
}

} // namespace dpc::validate
