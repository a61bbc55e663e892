//===- CompilerExports.cpp - The plan for others, and explained -----------===//
#include "codegen/export/Chakra.h"
#include "passes/graph/Passes.h"
#include "passes/price/Evaluator.h"
#include "passes/price/HeterogeneousPipeline.h"
#include "passes/shard/Passes.h"
#include "tools/driver/CompilerSteps.h"
#include "tools/driver/EmitTrace.h"
#include "tools/driver/Explain.h"
#include "tools/driver/ModelShape.h"
#include "tools/driver/OutputFolder.h"
#include "tools/driver/PlanSearch.h"

using namespace mlir;

namespace dpc {

std::vector<const exports::Target *>
namedTargets(const CompileOptions &options) {
  std::vector<const exports::Target *> named;
  for (const exports::Target &target : exports::targets())
    if (options.emit.count(std::string(target.name)))
      named.push_back(&target);
  return named;
}

bool exportsAny(const CompileOptions &options) {
  return options.emit.count("chakra") || !namedTargets(options).empty();
}

/// The outermost level that ranks along each axis reach.
static std::map<std::string, int64_t>
levelsOf(const cost::Cluster &cluster, const cost::Evaluation &evaluation) {
  std::map<std::string, int64_t> levels;
  for (const cost::RankAxis &axis : evaluation.decisions.order) {
    std::string name = axis.name;
    if (StringRef(name).starts_with("tp"))
      name = "tp";
    else if (name == "dpi" || name == "ep")
      name = "dp";
    cost::GroupPlacement group =
        cost::placeGroup(cluster, evaluation.decisions.order, {axis.name});
    for (auto [i, ranks] : llvm::enumerate(group.ranksPerLevel))
      if (ranks > 1)
        levels[name] = std::max<int64_t>(levels[name], i);
  }
  return levels;
}

/// All but how many experts there are, which the search knows.
exports::ModelShape Compiler::modelShape() {
  return modelShapeOf(findProgram(fused ? *fused : *program));
}

/// Fails where the file of --strategy=@FILE is of another model.
bool Compiler::checkStatedSizes() {
  if (options.statedSizes.empty())
    return true;
  exports::ModelShape shape = modelShape();
  shape.experts = makeEvaluator(family.get(), family ? ModuleOp() : *program,
                                cluster, isArranged, commonDegrees(options))
                      ->totals()
                      .experts;
  std::string why = exports::whyOtherModel(options.statedSizes, shape);
  return why.empty() || fail(options.strategyFile + ": " + why +
                             "; expected a file of " + options.model);
}

exports::Job Compiler::jobOf(const cost::SearchResult &result,
                             const cost::Candidate &candidate) {
  bool trains = static_cast<bool>(sample().lookupSymbol(kTrainStepFunction));
  exports::Job job;
  job.strategy =
      cost::placedStrategy(candidate.strategy, candidate.evaluation.decisions);
  job.devicesPerNode = used.devicesPerNode();
  job.globalBatch = result.totals.globalBatch;
  job.precision = options.precision;
  job.trains = trains;
  bool isSgd = options.train == "sgd";
  job.optimizer = {isSgd ? "sgd" : "adamw",
                   options.lr,
                   options.beta1,
                   options.beta2,
                   options.eps,
                   options.weightDecay.value_or(isSgd ? 0 : 0.01),
                   options.momentum,
                   options.clipGradNorm};
  job.schedule = {options.lrSchedule, options.warmup, options.totalSteps,
                  options.minLr};
  job.lossScale = {trains && scalesLoss(options), options.lossScale,
                   options.lossScaleInterval};
  job.frozen = options.frozen;
  job.model = modelShape();
  if (job.model.sequence == 0)
    job.model.sequence = static_cast<int64_t>(result.totals.tokensPerSample);
  job.model.experts = result.totals.experts;
  job.levels = levelsOf(used, candidate.evaluation);
  return job;
}

/// Another search of the same model. With `accepts` it sees the baselines, too.
Expected<cost::SearchResult>
Compiler::searchAs(const CompileOptions &asked, const cost::Cluster &where,
                   const ExpressiblePlan::Accepts &accepts) {
  std::vector<std::string> remarks;
  auto found = PlanSearch{asked,
                          where,
                          family.get(),
                          family ? ModuleOp() : *program,
                          sample(),
                          isArranged,
                          accepts,
                          /*baselines=*/static_cast<bool>(accepts)}
                   .run(remarks);
  if (!found)
    return Error{found.message()};
  return std::move(found->search);
}

/// What the plan takes where `target` runs it, if that is known.
std::optional<TargetForecast>
Compiler::forecastFor(const exports::Target &target) {
  std::string software(target.software);
  auto theirs = clusterRunBy(cluster, software, options.precision);
  if (!theirs)
    return std::nullopt;
  CompileOptions asked = options;
  asked.strategy = cost::stringifyStrategy(job->strategy, cluster.numDevices());
  auto found = searchAs(asked, *theirs, nullptr);
  return found ? forecastOf(std::string(target.name), software, *found)
               : std::nullopt;
}

/// What follows the refusal of `target`: what it takes instead.
std::string Compiler::expressibleFor(const exports::Target &target,
                                     const exports::Legality &legality,
                                     const cost::SearchResult &result) {
  auto search = [&](const CompileOptions &asked,
                    const ExpressiblePlan::Accepts &accepts) {
    return searchAs(asked, cluster, accepts);
  };
  std::vector<exports::Rule> rules = target.rules();
  return ExpressiblePlan(options, *job, rules, result, cluster.numDevices(),
                         search)
      .text(legality);
}

/// --explain. Nothing is written.
bool Compiler::printExplanation(const cost::SearchResult &result) {
  describe(result);
  if (reportContext.detail.empty() || !whole())
    return fail("--explain: the chosen plan's step cannot be simulated");
  LoweringSpec degrees = pricedDegrees(degreesOfWinner(result), used.software,
                                       result.totals.computeType);
  double limit = result.candidates.front().evaluation.memoryLimitBytes;
  auto text =
      explain(options.explain, {whole(), used, degrees, reportContext.detail,
                                limit > 0 ? limit : result.memoryLimitBytes});
  if (!text)
    return fail(text.message());
  llvm::outs() << cost::stringifyStrategy(result.candidates.front().strategy)
               << "\n"
               << *text;
  return true;
}

/// Which of the targets that --emit names can express the winner. Fails, before
/// anything is written, where none can; otherwise the others are written, and
/// told at the end (tellRefusals).
bool Compiler::checkExports(const cost::SearchResult &result) {
  if (!exportsAny(options))
    return true;
  const cost::Candidate &winner = result.candidates.front();
  job = jobOf(result, winner);
  if (winner.strategy.pp > 1 && whole())
    job->stageLayers = layersByStage(whole(), used, degreesOfWinner(result));
  for (const exports::Target *target : namedTargets(options)) {
    exports::Legality legality = exports::checkLegality(*job, target->rules());
    if (legality.ok())
      legalTargets.push_back(target);
    else
      refusals.push_back(
          "--emit=" + std::string(target->name) + ": " +
          cost::stringifyStrategy(job->strategy, cluster.numDevices()) +
          " cannot be expressed: " + legality.rule +
          expressibleFor(*target, legality, result));
  }
  bool isAnyLeft = !legalTargets.empty() || options.emit.count("chakra");
  return isAnyLeft || tellRefusals();
}

/// A line for every target that was refused; whether none was.
bool Compiler::tellRefusals() {
  for (const std::string &refusal : refusals) {
    reported = false; // each is an error of its own
    fail(refusal);
  }
  return refusals.empty();
}

/// The simulated step of every rank. Returns why there is none, or "".
std::string Compiler::simulateForChakra(const cost::SearchResult &result,
                                        exports::Exported &written) {
  if (!whole())
    return "the program cannot be made";
  return simulateStep(
      options, whole(), used, degreesOfWinner(result),
      exports::kMostChakraNodes, [&](const SimulatedStep &step) {
        if (!step.leftOut.empty())
          return "the steps of " + std::to_string(step.plan.ranks()) +
                 " ranks have more than the " +
                 std::to_string(exports::kMostChakraNodes) +
                 " nodes that are written at most; expected fewer ranks "
                 "(--strategy=ranks=N) or micro-batches (--global-batch)";
        written = exports::writeChakra(step.plan, step.lanes);
        return std::string();
      });
}

bool Compiler::writeExports(const cost::SearchResult &result,
                            const std::filesystem::path &dir) {
  std::vector<exports::ExportedFile> files;
  std::vector<TargetForecast> forecasts;
  if (exports::Exported traces; options.emit.count("chakra")) {
    std::string refusal = simulateForChakra(result, traces);
    if (!refusal.empty())
      refusals.push_back("--emit=chakra: " + refusal);
    llvm::append_range(files, traces.files);
  }
  if (files.empty() && legalTargets.empty())
    return true; // told with the other refusals
  for (const exports::Target *target : legalTargets) {
    exports::Exported written = target->write(*job);
    llvm::append_range(files, written.files);
    for (const std::string &remark : written.remarks)
      addRemark(remark);
    if (auto forecast = forecastFor(*target)) {
      std::string text =
          forecastText(*forecast, result.candidates.front().evaluation);
      addRemark(text);
      if (!forecast->fits()) // among remarks it may be left out
        llvm::errs() << "dpc-opt: warning: " << text << "\n";
      forecasts.push_back(*forecast);
    }
  }
  std::string error = writeExportedFiles(
      files, cost::stringifyStrategy(job->strategy), dir, forecasts);
  return error.empty() ? true : fail(error);
}

} // namespace dpc
