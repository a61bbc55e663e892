//===- Compiler.cpp - dpc-opt's pipeline ----------------------------------===//
#include "tools/driver/Compiler.h"
#include "tools/driver/CompilerSteps.h"

#include "codegen/Codegen.h"
#include "cost-model/machine/HeterogeneousCluster.h"
#include "ir/Attributes.h"
#include "passes/graph/Passes.h"
#include "passes/local/Passes.h"
#include "passes/shard/Passes.h"
#include "passes/shrink/Passes.h"
#include "runtime/base/OneLine.h"
#include "runtime/plan/PlanJson.h"
#include "tools/driver/Calibration.h"
#include "tools/driver/Emit.h"
#include "tools/driver/Fp8Checks.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/LoadModel.h"
#include "tools/driver/NamedStrategy.h"
#include "tools/driver/OutputFolder.h"
#include "tools/driver/Parameters.h"
#include "tools/driver/PlanDiff.h"
#include "tools/driver/PlanSearch.h"
#include "tools/driver/Remarks.h"
#include "tools/driver/WriteCommand.h"
#include "tools/driver/WriteReport.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

void registerEverything(DialectRegistry &registry) {
  registry.insert<DpcDialect, func::FuncDialect>();
  registerVjpModels(registry);
  codegen::registerLoweringModels(registry);
  codegen::registerCodegenDialects(registry);
  registerGraphPasses();
  registerShardPasses();
  registerLocalPasses();
  registerShrinkPasses();
  registerTransformsPasses();
}

/// What is printed to: 100 columns and no colors where it is no terminal.
static cost::TextForm formOfOutput() {
  cost::TextForm form;
  winsize size{};
  if (!isatty(STDOUT_FILENO))
    return form;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 60)
    form.width = size.ws_col;
  const char *refused = std::getenv("NO_COLOR"); // no-color.org: not empty
  const char *term = std::getenv("TERM");
  form.hasColors = !(refused && *refused) && term && StringRef(term) != "dumb";
  return form;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

bool Compiler::fail(const std::string &message) {
  phase.clear();
  if (!reported)
    firstError = rt::oneLine(message); // names of a model may hold anything
  if (!reported && !isSilent)
    llvm::errs() << "dpc-opt: error: " << firstError << "\n";
  reported = true;
  return false;
}

/// One line per error: the first one, without notes.
void Compiler::installDiagnostics() {
  context->getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    text = placeOf(diagnostic.getLocation(), text) + text;
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      fail(text);
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning ||
             diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      addRemark(text);
    return success();
  });
}

/// Once: the programs with few layers and the whole say the same.
void Compiler::addRemark(const std::string &text) {
  if (!llvm::is_contained(reportContext.remarks, text))
    reportContext.remarks.push_back(text);
}

void Compiler::dump(StringRef phase, ModuleOp module) {
  if (options.dumpIrDir.empty())
    return;
  std::error_code code;
  fs::create_directories(options.dumpIrDir, code);
  std::string number = std::to_string(dumps++);
  std::string name = std::string(2 - std::min<size_t>(2, number.size()), '0') +
                     number + "-" + phase.str() + ".mlir";
  llvm::raw_fd_ostream file((fs::path(options.dumpIrDir) / name).string(),
                            code);
  if (!code)
    module.print(file);
}

//===----------------------------------------------------------------------===//
// From the model to a training step
//===----------------------------------------------------------------------===//

/// Writes what was measured; returns "" or a one-line error.
static std::string calibrate(const CompileOptions &options) {
  if (!options.calibrated.empty() && options.calibrated != "cpu")
    return calibrateGpuTo(options.calibrated, options.calibrate);
  return options.links.empty() ? calibrateMachine(options.calibrate)
                               : calibrateLinks(options.cluster, options.links,
                                                options.calibrate);
}

bool Compiler::loadCluster() {
  std::string device = options.device, file = options.cluster;
  if (!options.calibrate.empty()) {
    std::string error = calibrate(options);
    if (!error.empty())
      return fail(error);
    (options.links.empty() ? device : file) = options.calibrate;
  }
  if (options.cluster.empty())
    return fail("--cluster is missing: give a cluster.json, or local:N for N "
                "ranks on this machine");
  Expected<cost::Cluster> loaded = cost::loadCluster(file, device);
  if (!loaded)
    return fail(loaded.message());
  cluster = *loaded;
  Status arranged = cost::arrangeInPlace(
      cluster, cost::groupsNamedIn(options.strategy), places);
  isArranged = !places.empty();
  return arranged ? true : fail(arranged.message());
}

bool Compiler::loadInitialValues() {
  if (options.init.empty())
    return true;
  Expected<rt::InitChoice> choice = rt::InitChoice::parse(options.init);
  if (!choice)
    return fail(choice.status().message());
  initialValues = std::move(*choice);
  return true;
}

bool Compiler::loadProgram() {
  program = loadModel(options, *context);
  if (!program)
    return fail(options.model + ": cannot be imported");
  std::string wrong = whyNoStep(options, *program);
  if (!wrong.empty())
    return fail(wrong);
  bool isWhole = (*program)->hasAttr(attr::kWholeStep);
  return !isWhole || runPasses("func.func(dpc-simplify)");
}

bool Compiler::runPasses(StringRef pipeline) {
  PassManager pm(context.get());
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (failed(parsePassPipeline(pipeline, pm, stream)))
    return fail("internal pipeline '" + pipeline.str() + "': " + errors);
  return succeeded(pm.run(*program))
             ? true
             : fail("pass pipeline failed: " + pipeline.str());
}

bool Compiler::hasLoss() {
  auto forward = program->lookupSymbol<func::FuncOp>(kForwardFunction);
  return forward &&
         llvm::any_of(llvm::seq(forward.getNumResults()), [&](auto i) {
           return forward.getResultAttr(i, attr::kLoss);
         });
}

bool Compiler::prepareProgram() {
  makeSourcesAbsolute(*program);
  dump("import", *program);
  if (program->lookupSymbol<func::FuncOp>(kTrainStepFunction))
    return true; // .mlir that was differentiated before
  if (!program->lookupSymbol<func::FuncOp>(kForwardFunction))
    return fail(options.model + ": has no function @forward or @train_step");
  if (!options.loss.empty()) {
    auto [kind, output] = StringRef(options.loss).split(':');
    std::string pass = "dpc-append-loss{loss=" + kind.str();
    if (!output.empty())
      pass += " output=" + output.str();
    if (!runPasses(pass + "}"))
      return false;
  }
  bool trains = hasLoss() && !options.infer;
  if (!trains && !options.train.empty())
    return fail(options.model + ": --train=" + options.train +
                " needs a loss, a scalar float output; add one with --loss="
                "cross_entropy or mse");
  if (!trains && !options.infer)
    addRemark("no output is a loss, so it is compiled for inference; "
              "--loss=cross_entropy or mse adds one, --infer says it is meant");
  if (std::string why; !trains && failed(prepareInference(*program, why)))
    return fail(options.model + " " + why);
  if (!runPasses("func.func(dpc-simplify,dpc-fuse,dpc-simplify)"))
    return false;
  dump("fused", *program);
  fused = std::move(program);
  return makeFamily(trains);
}

/// What search asks for is made when it asks: of a deep model a few layers.
bool Compiler::makeFamily(bool trains) {
  if (std::string why = whyNoFp8(options, cluster); !why.empty())
    return fail(why);
  if (std::string text = remarkOnTarget(options.targetGpu, cluster);
      !text.empty())
    addRemark(text);
  std::string pipeline;
  if (options.precision != "fp32")
    pipeline = "func.func(dpc-mixed-precision{type=" +
               std::string(options.precision == "fp16"  ? "f16"
                           : options.precision == "fp8" ? "bf16 fp8=true"
                                                        : "bf16") +
               "},canonicalize),";
  pipeline += graphPipeline(options, trains);
  family = std::make_unique<ProgramFamily>(*fused, pipeline);
  if (!options.dumpIrDir.empty() && whole())
    dump(trains ? "train-step" : "forward", whole());
  return sample() ? true : fail("pass pipeline failed: " + pipeline);
}

/// The program ready to be sharded; null after a message when it cannot be
/// made.
ModuleOp Compiler::whole() {
  if (!family)
    return *program;
  FailureOr<ModuleOp> made = family->whole();
  return succeeded(made) ? *made : ModuleOp();
}

/// The same, or of a deep model one with a few layers: what kinds of ops there
/// are.
ModuleOp Compiler::sample() {
  if (!family || !family->isDeep())
    return whole();
  constexpr int64_t kLayers = 3;
  FailureOr<ModuleOp> made = family->program(kLayers);
  return succeeded(made) ? *made : ModuleOp();
}

void Compiler::listParameters() {
  func::FuncOp few = findProgram(sample()), all = few;
  // In all layers as in these few, or it has to be looked up.
  if (family && family->isDeep())
    all = findProgram(trainsAllParameters(few) ? *fused : whole());
  dpc::listParameters(all, few.getName() == kTrainStepFunction,
                      reportContext.trained, reportContext.frozen);
  ModuleOp module = fused ? *fused : *program;
  if (auto names = module->getAttrOfType<ArrayAttr>(attr::kConstants))
    for (auto name : names.getAsRange<StringAttr>())
      reportContext.frozen.push_back(name.getValue().str());
  reportContext.model = options.model;
  if (!options.compressGradients.empty())
    reportContext.remarks.push_back("approximate: gradients travel as " +
                                    options.compressGradients +
                                    " (--compress-gradients)");
  if (!options.compressWeights.empty())
    reportContext.remarks.push_back("approximate: gathered weights travel as " +
                                    options.compressWeights +
                                    " (--compress-weights)");
}

//===----------------------------------------------------------------------===//
// Search and plan
//===----------------------------------------------------------------------===//

std::optional<cost::SearchResult> Compiler::search() {
  PlanSearch search{options,      cluster,
                    family.get(), family ? ModuleOp() : *program,
                    sample(),     isArranged};
  auto found = search.run(reportContext.remarks);
  if (!found) {
    fail(found.message());
    return std::nullopt;
  }
  used = std::move(found->used);
  return std::move(found->search);
}

/// Dumps phases, and writes what is asked for of them.
std::function<void(StringRef, ModuleOp)>
Compiler::observerInto(const cost::SearchResult &result, const fs::path &dir) {
  std::string strategy =
      cost::stringifyStrategy(result.candidates.front().strategy);
  return [this, dir, strategy](StringRef phase, ModuleOp module) {
    dump(phase, module);
    std::string error =
        emitPhase(options, phase, module, dir, strategy, reportContext.remarks);
    if (!error.empty())
      fail(error);
  };
}

/// program.mlir and annotated.onnx without a plan.
bool Compiler::writeProgram(const cost::SearchResult &result,
                            const fs::path &dir) {
  if (!whole() ||
      failed(lowerForStrategy(whole(), used, degreesOfWinner(result),
                              observerInto(result, dir))))
    return fail("the program cannot be made");
  return true;
}

LoweringSpec Compiler::degreesOfWinner(const cost::SearchResult &result) const {
  const cost::Candidate &winner = result.candidates.front();
  return specOf(winner.strategy, winner.evaluation.decisions,
                   result.totals.globalBatch, commonDegrees(options));
}

bool Compiler::writePlan(const cost::SearchResult &result,
                         const fs::path &dir) {
  LoweringSpec degrees = degreesOfWinner(result);
  bool trains = static_cast<bool>(sample().lookupSymbol(kTrainStepFunction));
  if (std::string why =
          refusedCompression(degrees, trains, scalesLoss(options));
      !why.empty())
    return fail(why);
  if (!whole())
    return fail("the program cannot be made");
  plan = PlanBuilder{options, initialValues, places}.build(
      whole(), used, degrees, dir, observerInto(result, dir));
  if (!plan)
    return fail("the plan could not be built");
  if (std::string text = remarkOnFp8(options, rt::hasFp8(*plan)); !text.empty())
    addRemark(text);
  Status status = rt::writePlan(*plan, dir.string());
  if (status.ok())
    status = writeCommand(options, dir.string());
  if (!status.ok())
    return fail(status.message());
  auto checked = rt::readPlan(dir.string());
  if (!checked)
    return fail("the plan is not valid: " + checked.status().message());
  return true;
}

/// Why there is nothing to write a plan of.
static std::string whyNoPlan(const cost::SearchResult &result) {
  if (result.candidates.empty())
    return "no strategy was found";
  const cost::Candidate &nearest = result.candidates.front();
  if (!nearest.evaluation.rejected.empty())
    return nearest.evaluation.rejected;
  return "no strategy fits; nearest: " +
         cost::stringifyStrategy(nearest.strategy) + " (" + nearest.why +
         "); no plan is written, --emit=report tells more";
}

void Compiler::print(const cost::SearchResult &result) const {
  if (options.report == "json")
    llvm::outs() << reportText(reportOf(result));
  else
    llvm::outs() << cost::reportToText(cluster, result, reportContext,
                                       formOfOutput())
                 << "\nwrote " << options.output << "\n";
}

/// The plan and what --emit names beside plan and report.
bool Compiler::writeEmitted(const cost::SearchResult &result,
                            const fs::path &dir) {
  bool plans = options.emit.count("plan");
  bool writesProgram =
      !plans && (options.emit.count("mlir") || options.emit.count("onnx"));
  return (!plans || writePlan(result, dir)) &&
         (!writesProgram || writeProgram(result, dir)) &&
         (!options.emit.count("trace") || writeTrace(result, dir)) &&
         (!job || writeExports(result, dir));
}

/// Everything or, after an error, nothing; then what is printed.
bool Compiler::writeAll(const cost::SearchResult &result, bool plans) {
  bool isExecutable = !result.candidates.empty() &&
                      result.candidates.front().evaluation.rejected.empty();
  std::string error;
  OutputFolder folder(options.output, plans, error);
  if (!error.empty())
    return fail(error);
  phase.begin(plans ? "writing the plan and its kernels" : "writing");
  if (isExecutable && !writeEmitted(result, folder.path()))
    return false;
  phase.begin("verifying");
  if (reported || !verify(result, folder.path()))
    return false;
  phase.begin("reporting");
  bool reports = plans || options.emit.count("report");
  if (reports && !writeReport(result, folder.path()))
    return false;
  if (isExecutable)
    remarkOnPlanOfFp8(result);
  phase.clear();
  error = folder.commit();
  if (!error.empty())
    return fail(error);
  print(result);
  if (!isExecutable)
    return fail("no strategy can be executed; the report says why");
  return true;
}

int Compiler::run() {
  registerEverything(registry);
  context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  installDiagnostics();
  reportContext.remarks = options.notes;
  reportContext.readAs = options.readAs;
  bool printsOnly = options.cluster.empty() && options.emit.count("mlir");
  phase.begin("reading " + rt::oneLine(options.model));
  if ((!printsOnly && !loadCluster()) || !loadInitialValues() ||
      !loadProgram() || !prepareProgram())
    return 1;
  phase.clear();
  if (printsOnly) {
    if (!whole())
      return fail("the program cannot be made"), 1;
    whole().print(llvm::outs());
    llvm::outs() << "\n";
    return 0;
  }
  bool plans = options.emit.count("plan");
  std::string error = OutputFolder::refusal(options.output, plans);
  if (!error.empty())
    return fail(error), 1;
  if (!checkStatedSizes())
    return 1;
  listParameters();
  std::optional<cost::SearchResult> result = search();
  if (!result)
    return 1;
  bool isExecutable = !result->candidates.empty() &&
                      result->candidates.front().evaluation.rejected.empty();
  bool explains = !options.explain.empty();
  bool needsWinner = plans || explains || exportsAny(options);
  if (needsWinner && !(isExecutable && result->hasWinner()))
    return fail(whyNoPlan(*result)), 1;
  if (explains)
    return printExplanation(*result) ? 0 : 1;
  if (!checkExports(*result))
    return 1;
  if (!options.strategyFile.empty())
    askForBetter(*result);
  if (!result->candidates.empty())
    (void)cost::arrangeInPlace(
        used, result->candidates.front().evaluation.decisions.groups, places);
  bool isWritten = writeAll(*result, plans);
  return tellRefusals() && isWritten ? 0 : 1;
}

static int printDiff(const CompileOptions &options) {
  auto text = diffOfPlans(options.diff[0], options.diff[1]);
  if (!text) {
    llvm::errs() << "dpc-opt: error: " << text.message() << "\n";
    return 1;
  }
  llvm::outs() << *text;
  return 0;
}

int compileModel(const CompileOptions &asked) {
  CompileOptions options = asked;
  if (!options.diff.empty())
    return printDiff(options);
  if (std::string error = readNamedStrategy(options); !error.empty()) {
    llvm::errs() << "dpc-opt: error: " << error << "\n";
    return 1;
  }
  if (options.model.empty()) { // only --calibrate
    std::string error = calibrate(options);
    if (!error.empty())
      llvm::errs() << "dpc-opt: error: " << error << "\n";
    else
      llvm::outs() << "wrote " << options.calibrate << "\n";
    return error.empty() ? 0 : 1;
  }
  return Compiler(options).run();
}

} // namespace dpc
