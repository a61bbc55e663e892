//===- Build.cpp - The plan and what --emit names beside it ---------------===//
#include "cost-model/machine/HeterogeneousCluster.h"
#include "frontends/onnx/Annotate.h"
#include "passes/shard/Passes.h"
#include "runtime/base/NameList.h"
#include "runtime/io/WeightMatch.h"
#include "runtime/io/WeightValues.h"
#include "runtime/plan/PlanCommand.h"
#include "runtime/plan/PlanFp8.h"
#include "runtime/plan/PlanJson.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Dependences.h"
#include "tools/driver/EmitTrace.h"
#include "tools/driver/Exports.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Load.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Remarks.h"

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

static std::string writeMlir(ModuleOp module, const std::string &path) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  module.print(file);
  file.flush();
  if (!code)
    code = file.error();
  file.clear_error();
  return code ? "'" + path + "' cannot be written: " + code.message() : "";
}

static std::string writeOnnx(const CompileOptions &options, ModuleOp module,
                             const std::string &path,
                             const std::string &strategy,
                             std::vector<std::string> &remarks) {
  auto written = writeAnnotatedOnnx(options.model, path, importOptions(options),
                                    findProgram(module), strategy);
  if (!written)
    return llvm::toString(written.takeError());
  std::string remark = "annotated.onnx: " + std::to_string(written->annotated) +
                       " of " + std::to_string(written->nodes) +
                       " nodes have shardings; the others are constant at "
                       "compile time or part of another node";
  if (written->partial)
    remark += "; " + std::to_string(written->partial) +
              " outputs are partial sums, which ONNX cannot express "
              "(dpc.partial in the metadata of their nodes)";
  if (!written->externalFiles.empty())
    remark += "; move it next to '" + written->externalFiles.front() +
              "', which it refers to";
  remarks.push_back(remark);
  return "";
}

/// Writes the files of --emit that `phase` determines into `dir`: program.mlir
/// for "local", annotated.onnx for "sharded". Returns "" or one line about a
/// file that cannot be written.
static std::string emitPhase(const CompileOptions &options, StringRef phase,
                             ModuleOp module, const fs::path &dir,
                             const std::string &strategy,
                             std::vector<std::string> &remarks) {
  if (phase == "local" && options.emit.count("mlir"))
    return writeMlir(module, (dir / "program.mlir").string());
  if (phase == "sharded" && options.emit.count("onnx"))
    return writeOnnx(options, module, (dir / "annotated.onnx").string(),
                     strategy, remarks);
  return "";
}

static std::function<void(StringRef, ModuleOp)>
observerInto(Session &session, const Searched &searched, const fs::path &dir) {
  std::string strategy = cost::stringifyStrategy(searched.winner().strategy);
  return [&session, dir, strategy](StringRef phase, ModuleOp module) {
    session.dump(phase, module);
    std::string error = emitPhase(session.options(), phase, module, dir,
                                  strategy, session.remarks());
    if (!error.empty())
      (void)session.fail(error);
  };
}

static LogicalResult writeProgram(Session &session, const Searched &searched,
                                  const fs::path &dir) {
  FailureOr<ModuleOp> whole = wholeProgram(session, searched);
  if (failed(whole))
    return failure();
  auto lowered =
      lowerForStrategy(*whole, searched.used, searched.spec(session.options()),
                       observerInto(session, searched, dir));
  return succeeded(lowered) ? success()
                            : session.fail("the program cannot be made");
}

static Status writeCommand(const CompileOptions &options,
                           const std::string &dir) {
  rt::PlanCommand command;
  command.model = absoluteFile(options.model);
  // The cluster is the file that --calibrate wrote.
  bool isMeasured = !options.calibrate.empty();
  bool hasLinks = !options.links.empty();
  bool isLocal = options.cluster.starts_with("local:");
  std::string cluster =
      isMeasured && hasLinks ? options.calibrate : options.cluster;
  command.cluster = isLocal ? cluster : absoluteFile(cluster);
  command.words = options.words;
  if (options.globalBatch > 0)
    command.words.push_back("--global-batch=" +
                            std::to_string(options.globalBatch));
  command.words.push_back("--precision=" + options.precision);
  if (!options.train.empty())
    command.words.push_back("--train=" + options.train);
  std::string device =
      isMeasured && !hasLinks ? options.calibrate : options.device;
  if (isLocal && !device.empty())
    command.words.push_back("--device-file=" + absoluteFile(device));
  return rt::writePlanCommand(command, dir);
}

/// Says which trained weights of the model file have values that may be a
/// mistake. matchWeights() does so for an --init file.
static void remarkOnValues(Session &session, const rt::Plan &plan,
                           const std::string &dir) {
  const std::string &model = session.options().model;
  std::vector<rt::TrainedWeight> weights = rt::trainedSources(plan, dir);
  if (auto names = rt::zeroMatrices(weights); !names.empty())
    session.remark(rt::textOnZeros(names, model));
  if (auto names = rt::constantMatrices(weights); !names.empty())
    session.remark("all values of " + rt::listed(rt::quoted(names)) +
                   " are one number in " + model +
                   ": their units never become different");
  if (auto pairs = rt::equalMatrices(weights); !pairs.empty())
    session.remark(rt::textOnEqual(pairs, model));
}

/// Checks the names and shapes of an --init file. Says if --init=random or
/// zeros has no effect.
static LogicalResult checkWeights(Session &session, const rt::Plan &plan,
                                  const rt::InitChoice &choice) {
  if (choice.kind == rt::InitChoice::Kind::None)
    return success();
  if (!choice.file) {
    if (llvm::all_of(plan.tensors, [](const rt::Tensor &tensor) {
          return tensor.source || !tensor.isWeight();
        }))
      session.notice("no weight lacks an initial value: --init=" +
                     session.options().init + " changes nothing");
    return success();
  }
  rt::WeightMatch match = rt::matchWeights(plan, *choice.file);
  if (Status status = match.check(choice.isPartial); !status.ok())
    return session.fail(status.message());
  for (const std::string &line : match.remarks())
    session.notice(line);
  return success();
}

/// Measures how the scores and the loss of a model depend on inputs. If it is
/// trained, says what is probably a mistake. --verify=off runs nothing.
static std::map<std::string, rt::Dependence>
measureDependences(Session &session, const Searched &searched,
                   const fs::path &dir) {
  if (searched.loss.empty() || !searched.program.fused() ||
      session.options().verify == "off")
    return {};
  PlanSettings settings{.options = session.options(),
                        .initialValues = searched.initialValues,
                        .sourceFiles = searched.sourceFiles};
  Dependences dependences =
      dependencesOf(searched.program.fused(), settings, dir / "small");
  std::error_code code;
  fs::remove_all(dir / "small", code);
  if (!searched.program.trains())
    return std::move(dependences.inputs);
  for (const std::string &text : dependences.mistakes)
    session.notice(text);
  if (!dependences.failure.empty())
    session.remark("what the scores depend on was not measured: " +
                   dependences.failure);
  return std::move(dependences.inputs);
}

static FailureOr<rt::Plan> makePlan(Session &session, const Built &searched,
                                    const fs::path &dir) {
  const CompileOptions &options = session.options();
  LoweringSpec spec = searched.spec(options);
  if (std::string why = refusedCompression(spec, searched.program.trains(),
                                           scalesLoss(options));
      !why.empty())
    return session.fail(why);
  FailureOr<ModuleOp> whole = wholeProgram(session, searched);
  if (failed(whole))
    return failure();
  PlanSettings settings{.options = options,
                        .initialValues = searched.initialValues,
                        .places = searched.machine.places,
                        .sourceFiles = searched.sourceFiles};
  auto plan = buildForRanks(settings, *whole, searched.used, spec, dir,
                            observerInto(session, searched, dir));
  if (!plan)
    return session.fail("the plan could not be built");
  if (failed(checkWeights(session, *plan, searched.initialValues)))
    return failure();
  if (plan->trains && !searched.initialValues.file)
    remarkOnValues(session, *plan, dir.string());
  plan->lossOutput = searched.loss;
  plan->settings = searched.settings;
  for (rt::Port &port : plan->inputs)
    if (auto found = searched.dependences.find(port.name);
        found != searched.dependences.end())
      port.dependence = found->second;
  return std::move(*plan);
}

static LogicalResult writePlan(Session &session, Built &built) {
  const CompileOptions &options = session.options();
  std::string dir = built.folder->path().string();
  FailureOr<rt::Plan> plan = makePlan(session, built, dir);
  if (failed(plan))
    return failure();
  built.plan = std::move(*plan);
  if (std::string text = remarkOnFp8(options, rt::hasFp8(*built.plan));
      !text.empty())
    session.remark(text);
  Status status = rt::writePlan(*built.plan, dir);
  if (status.ok())
    status = writeCommand(options, dir);
  if (!status.ok())
    return session.fail(status.message());
  auto checked = rt::readPlan(dir);
  if (!checked)
    return session.fail("the plan is not valid: " + checked.status().message());
  return success();
}

static LogicalResult writeTrace(Session &session, const Searched &searched,
                                const fs::path &dir) {
  const CompileOptions &options = session.options();
  FailureOr<ModuleOp> whole = wholeProgram(session, searched);
  if (failed(whole))
    return failure();
  std::string leftOut;
  std::string error =
      emitTrace(options, *whole, searched.used, searched.priced(options),
                dir / "trace.json", leftOut);
  if (!leftOut.empty())
    session.remark("trace.json: " + leftOut);
  return error.empty() ? success() : session.fail("trace.json: " + error);
}

static LogicalResult writeEmitted(Session &session, Built &built,
                                  const std::vector<PlannedExport> &exports) {
  const std::set<std::string> &emit = session.options().emit;
  const fs::path &dir = built.folder->path();
  if (emit.count("plan")) {
    if (failed(writePlan(session, built)))
      return failure();
  } else if (emit.count("mlir") || emit.count("onnx")) {
    if (failed(writeProgram(session, built, dir)))
      return failure();
  }
  if (emit.count("trace") && failed(writeTrace(session, built, dir)))
    return failure();
  return writeExports(session, built, exports, dir);
}

FailureOr<Built> build(Session &session, Searched searched) {
  const CompileOptions &options = session.options();
  std::vector<PlannedExport> exports;
  if (searched.isExecutable()) {
    if (searched.result.hasWinner())
      exports = planExports(session, searched);
    remarkOnSoftware(session, searched);
  }
  Built built{std::move(searched), nullptr, {}, std::nullopt};
  if (!built.result.candidates.empty())
    (void)cost::arrangeInPlace(built.used,
                               built.winner().evaluation.decisions.groups,
                               built.machine.places);
  bool plans = options.emit.count("plan");
  std::string error;
  built.folder = std::make_unique<OutputFolder>(options.output, plans, error);
  if (!error.empty())
    return session.fail(error);
  session.begin(plans ? "writing the plan and its kernels" : "writing");
  if (built.isExecutable()) {
    built.dependences =
        measureDependences(session, built, built.folder->path());
    if (failed(writeEmitted(session, built, exports)))
      return failure();
  }
  if (session.hasFailed())
    return failure();
  return built;
}

} // namespace dpc
