//===- Exports.cpp - Files for other programs -----------------------------===//
#include "tools/driver/Exports.h"

#include "codegen/export/Chakra.h"
#include "cost-model/report/Report.h"
#include "passes/shard/Passes.h"
#include "tools/driver/EmitTrace.h"
#include "tools/driver/ExpressiblePlan.h"
#include "tools/driver/ModelShape.h"
#include "tools/driver/Pipelines.h"

#include <nlohmann/json.hpp>

#include <fstream>

using namespace mlir;

namespace dpc {

std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision) {
  if (software.empty() || cluster.software.name == software ||
      precision == "fp32")
    return std::nullopt;
  auto profile = cost::loadSoftware(software);
  bool hasKernels = std::ranges::all_of(cluster.groups, [](const auto &group) {
    return group.device.hasFusedAttention();
  });
  if (!profile || !hasKernels)
    return std::nullopt;
  cost::Cluster theirs = cluster;
  theirs.setSoftware(*profile);
  return theirs;
}

std::optional<TargetForecast> forecastOf(const std::string &target,
                                         const std::string &software,
                                         const cost::SearchResult &found) {
  if (found.candidates.empty() ||
      !found.candidates.front().evaluation.rejected.empty())
    return std::nullopt;
  const cost::Evaluation &plan = found.candidates.front().evaluation;
  return TargetForecast{.target = target,
                        .software = software,
                        .stepSeconds = plan.stepSeconds,
                        .memoryBytes = plan.memory.total(),
                        .limitBytes = plan.memoryLimitBytes > 0
                                          ? plan.memoryLimitBytes
                                          : found.memoryLimitBytes};
}

std::string forecastText(const TargetForecast &forecast,
                         const cost::Evaluation &here) {
  using cost::formatBytes;
  using cost::formatSeconds;
  std::string text = "--emit=" + forecast.target + ": with " +
                     forecast.software + " the plan is expected to take " +
                     formatSeconds(forecast.stepSeconds) + " a step and " +
                     formatBytes(forecast.memoryBytes) + " of " +
                     formatBytes(forecast.limitBytes) + "; with dpc-run, " +
                     formatSeconds(here.stepSeconds) + " and " +
                     formatBytes(here.memory.total());
  if (!forecast.fits())
    text += "; it does not fit there: \"software\": \"" + forecast.software +
            "\" in the cluster.json searches for a plan that does";
  return text;
}

std::string writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                               const std::string &strategy,
                               const std::filesystem::path &dir,
                               const std::vector<TargetForecast> &forecasts) {
  nlohmann::ordered_json index = {{"generator", "dpc-opt"},
                                  {"strategy", strategy},
                                  {"files", nlohmann::json::array()}};
  std::vector<exports::ExportedFile> all = files;
  for (const exports::ExportedFile &file : files)
    index["files"].push_back(file.name);
  for (const TargetForecast &forecast : forecasts)
    index["expected"][forecast.target] = {
        {"software", forecast.software},
        {"step_seconds", forecast.stepSeconds},
        {"memory_bytes", std::llround(forecast.memoryBytes)},
        {"memory_limit_bytes", std::llround(forecast.limitBytes)},
        {"fits", forecast.fits()}};
  all.push_back({"index.json", index.dump(2) + "\n"});
  std::error_code code;
  std::filesystem::create_directories(dir / kExports, code);
  for (const exports::ExportedFile &file : all) {
    std::filesystem::path path = dir / kExports / file.name;
    if (std::string error = writeText(path, file.text); !error.empty())
      return error;
    if (path.extension() == ".sh")
      std::filesystem::permissions(path, std::filesystem::perms::owner_exec,
                                   std::filesystem::perm_options::add, code);
  }
  return "";
}

static std::vector<const exports::Target *>
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

static exports::ModelShape shapeOf(const Searched &searched) {
  const cost::ModelTotals &totals = searched.result.totals;
  exports::ModelShape shape =
      modelShapeOf(findProgram(searched.program.source()));
  if (shape.sequence == 0)
    shape.sequence = static_cast<int64_t>(totals.tokensPerSample);
  shape.experts = totals.experts;
  return shape;
}

static exports::Job jobOf(const CompileOptions &options,
                          const Searched &searched) {
  const cost::Candidate &winner = searched.winner();
  bool trains = searched.program.trains();
  exports::Job job;
  job.strategy =
      cost::placedStrategy(winner.strategy, winner.evaluation.decisions);
  job.devicesPerNode = searched.used.devicesPerNode();
  job.globalBatch = searched.result.totals.globalBatch;
  job.precision = options.precision;
  job.trains = trains;
  bool isSgd = options.train == "sgd";
  job.optimizer = {.name = isSgd ? "sgd" : "adamw",
                   .lr = options.lr,
                   .beta1 = options.beta1,
                   .beta2 = options.beta2,
                   .eps = options.eps,
                   .weightDecay =
                       options.weightDecay.value_or(isSgd ? 0 : 0.01),
                   .momentum = options.momentum,
                   .clipGradNorm = options.clipGradNorm};
  job.schedule = {.kind = options.lrSchedule,
                  .warmup = options.warmup,
                  .total = options.totalSteps,
                  .min = options.minLr};
  job.lossScale = {.isUsed = trains && scalesLoss(options),
                   .initial = options.lossScale,
                   .interval = options.lossScaleInterval};
  job.frozen = options.frozen;
  job.model = shapeOf(searched);
  job.levels = levelsOf(searched.used, winner.evaluation);
  if (winner.strategy.pp > 1)
    if (FailureOr<ModuleOp> whole = searched.program.whole(); succeeded(whole))
      job.stageLayers =
          layersByStage(*whole, searched.used, searched.spec(options));
  return job;
}

/// Returns the end of a refusal, which names plans that satisfy `rules`.
static std::string expressibleFor(Session &session, const Searched &searched,
                                  const exports::Job &job,
                                  const std::vector<exports::Rule> &rules,
                                  const exports::Legality &legality) {
  const cost::Cluster &cluster = searched.machine.cluster;
  auto search = [&](const CompileOptions &asked,
                    const ExpressiblePlan::Accepts &accepts) {
    return searchAgain(session, searched, asked, cluster, accepts,
                       /*baselines=*/static_cast<bool>(accepts));
  };
  return ExpressiblePlan(session.options(), job, rules, searched.result,
                         cluster.numDevices(), search)
      .text(legality);
}

std::optional<PlannedExports> planExports(Session &session,
                                          const Searched &searched) {
  const CompileOptions &options = session.options();
  PlannedExports planned;
  planned.job = jobOf(options, searched);
  const exports::Job &job = planned.job;
  for (const exports::Target *target : namedTargets(options)) {
    std::vector<exports::Rule> rules = target->rules();
    exports::Legality legality = exports::checkLegality(job, rules);
    if (legality.ok())
      planned.targets.push_back(target);
    else
      session.refuse("--emit=" + std::string(target->name) + ": " +
                     cost::stringifyStrategy(
                         job.strategy, searched.machine.cluster.numDevices()) +
                     " cannot be expressed: " + legality.rule +
                     expressibleFor(session, searched, job, rules, legality));
  }
  bool isAnyLeft = !planned.targets.empty() || options.emit.count("chakra");
  return isAnyLeft ? std::optional(std::move(planned)) : std::nullopt;
}

static std::optional<TargetForecast>
forecastFor(Session &session, const Searched &searched, const exports::Job &job,
            const exports::Target &target) {
  const cost::Cluster &cluster = searched.machine.cluster;
  std::string software(target.software);
  auto theirs = clusterRunBy(cluster, software, session.options().precision);
  if (!theirs)
    return std::nullopt;
  CompileOptions asked = session.options();
  asked.strategy = cost::stringifyStrategy(job.strategy, cluster.numDevices());
  auto found = searchAgain(session, searched, asked, *theirs, nullptr,
                           /*baselines=*/false);
  return found ? forecastOf(std::string(target.name), software, *found)
               : std::nullopt;
}

static std::string simulateForChakra(const CompileOptions &options,
                                     const Searched &searched,
                                     exports::Exported &written) {
  FailureOr<ModuleOp> whole = searched.program.whole();
  if (failed(whole))
    return "the program cannot be made";
  return simulateStep(
      options, *whole, searched.used, searched.spec(options),
      exports::kMostChakraNodes, [&](const SimulatedStep &step) {
        if (!step.leftOut.empty())
          return "the steps of " + std::to_string(step.plan.ranks()) +
                 " ranks have more than " +
                 std::to_string(exports::kMostChakraNodes) +
                 " nodes; expected fewer ranks (--strategy=ranks=N) or "
                 "micro-batches (--global-batch)";
        written = exports::writeChakra(step.plan, step.lanes);
        return std::string();
      });
}

LogicalResult writeExports(Session &session, const Searched &searched,
                           const PlannedExports &planned,
                           const std::filesystem::path &dir) {
  std::vector<exports::ExportedFile> files;
  std::vector<TargetForecast> forecasts;
  if (exports::Exported traces; session.options().emit.count("chakra")) {
    std::string refusal =
        simulateForChakra(session.options(), searched, traces);
    if (!refusal.empty())
      session.refuse("--emit=chakra: " + refusal);
    llvm::append_range(files, traces.files);
  }
  if (files.empty() && planned.targets.empty())
    return success();
  for (const exports::Target *target : planned.targets) {
    exports::Exported written = target->write(planned.job);
    llvm::append_range(files, written.files);
    for (const std::string &remark : written.remarks)
      session.remark(remark);
    auto forecast = forecastFor(session, searched, planned.job, *target);
    if (!forecast)
      continue;
    std::string text = forecastText(*forecast, searched.winner().evaluation);
    session.remark(text);
    if (!forecast->fits())
      session.reporter().warning(text);
    forecasts.push_back(*forecast);
  }
  std::string error = writeExportedFiles(
      files, cost::stringifyStrategy(planned.job.strategy), dir, forecasts);
  return error.empty() ? success() : session.fail(error);
}

} // namespace dpc
