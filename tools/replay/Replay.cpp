//===- Replay.cpp - Predictions of published runs -------------------------===//
#include "tools/replay/Replay.h"

#include "frontends/dims/ModelBuilder.h"
#include "frontends/onnx/Import.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"

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

/// One context per program, because a context keeps all types and attributes.
void Replay::startContext() {
  dropProgram();
  static std::mutex registers; // registration of passes is global
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
  if (failed(runPasses(*fused, addFusionPhase)))
    return false;
  family = std::make_unique<ProgramFamily>(
      *fused, stepPasses(optionsOf(run), /*trains=*/true));
  return family->isDeep() || succeeded(family->whole());
}

ProgramEvaluator &Replay::evaluatorOf(const PublishedRun &run) {
  OnCluster &entry = evaluators[run.clusterKey()];
  if (!entry.evaluator) {
    entry.cluster = run.cluster;
    entry.evaluator = std::make_unique<ProgramEvaluator>(
        *family, entry.cluster, commonSpec(optionsOf(run)));
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
  bool isExact =
      run.strategy.recompute != cost::Recompute::Full && run.strategy.zero != 3;
  cost::Strategy strategy = run.strategy;
  strategy.placement.axes = {"tp",  "cp", "ep",
                             "dpi", "dp", "pp"}; // as frameworks number ranks
  cost::Evaluation evaluation = isExact ? evaluator.evaluate(strategy)
                                        : evaluator.evaluateWhole(strategy);
  if (!evaluation.rejected.empty())
    return Error{evaluation.rejected};
  return evaluation;
}

} // namespace dpc::validate
