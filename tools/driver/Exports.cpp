//===- Exports.cpp - Files for other programs -----------------------------===//
#include "tools/driver/Exports.h"

#include "codegen/export/Chakra.h"
#include "cost-model/report/Report.h"
#include "passes/shard/Passes.h"
#include "tools/driver/EmitTrace.h"
#include "tools/driver/ExportJob.h"
#include "tools/driver/NearestPlan.h"

#include <nlohmann/json.hpp>

#include <fstream>

using namespace mlir;

namespace dpc {

std::optional<cost::Cluster> clusterRunBy(const cost::Cluster &cluster,
                                          const std::string &software,
                                          const std::string &precision) {
  if (software.empty() || cluster.software.name == software ||
      !whyNoProfile(cluster, software, precision).empty())
    return std::nullopt;
  auto profile = cost::loadSoftware(software);
  if (!profile)
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
    text += "; it does not fit there: --for=" + forecast.target +
            " searches for a plan that does";
  return text;
}

std::string
writeExportedFiles(const std::vector<exports::ExportedFile> &files,
                   const std::string &strategy,
                   const std::filesystem::path &dir,
                   const std::vector<TargetForecast> &forecasts,
                   const std::map<std::string, std::string> &strategies) {
  nlohmann::ordered_json index = {{"generator", "dpc-opt"},
                                  {"strategy", strategy},
                                  {"strategies", strategies},
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

bool writesReport(const CompileOptions &options) {
  return options.emit.count("plan") || options.emit.count("report") ||
         exportsAny(options);
}

namespace {

/// Chooses what one target of --emit gets.
class ExportChoice {
public:
  ExportChoice(Session &session, const Searched &searched,
               const exports::Target &target)
      : session(session), searched(searched), target(target), name(target.name),
        devices(searched.machine.cluster.numDevices()),
        job(jobOf(session.options(), searched, searched.winner(),
                  searched.used)),
        nearest(session.options(), target, job, searched.result, searched.used,
                devices, [this](const std::string &strategy) {
                  return search(strategy);
                }) {}

  /// Returns nullopt after a refusal.
  std::optional<PlannedExport> choose();

private:
  Expected<cost::PartResult> search(const std::string &strategy) const;
  std::optional<PlannedExport> refuse(const std::string &why) const;
  /// "--emit=megatron", or the option --for if it names the target
  std::string option() const;
  /// "--for=megatron searches only what it can express"
  std::string hint() const;

  Session &session;
  const Searched &searched;
  const exports::Target &target;
  std::string name;
  int64_t devices;
  exports::Job job;
  NearestPlan nearest;
};

} // namespace

Expected<cost::PartResult>
ExportChoice::search(const std::string &strategy) const {
  CompileOptions asked = session.options();
  asked.strategy = strategy;
  if (strategy != session.options().strategy)
    asked.microBatch = 0;
  return searchPartAgain(session, searched, asked, searched.machine.cluster,
                         acceptedBy(target, job), /*baselines=*/false);
}

std::string ExportChoice::option() const {
  return (targetOf(session.options()) == &target ? "--for=" : "--emit=") + name;
}

std::string ExportChoice::hint() const {
  bool isPlannedFor = targetOf(session.options()) == &target;
  return target.software.empty() || isPlannedFor
             ? ""
             : "; --for=" + name + " searches only what it can express";
}

std::optional<PlannedExport>
ExportChoice::refuse(const std::string &why) const {
  session.refuse(option() + ": " + why);
  return std::nullopt;
}

std::optional<PlannedExport> ExportChoice::choose() {
  exports::Legality legality = exports::checkLegality(job, target.rules());
  if (legality.ok())
    return PlannedExport{&target, job, searched.winner().evaluation};
  std::string why = cost::stringifyStrategy(job.strategy, devices) +
                    " cannot be expressed: " + legality.rule;
  if (legality.isOfJob)
    return refuse(why);
  bool isFixed = nearest.isFixed();
  auto plan = isFixed ? nearest.mended(legality) : nearest.find(legality);
  if (isFixed)
    return refuse(why + (plan ? "; nearest: " + nearest.describe(*plan) : "") +
                  hint());
  if (!plan)
    return refuse(why + "; no strategy that it can express fits");
  PlannedExport planned{
      &target, jobOf(session.options(), searched, plan->candidate, plan->used),
      plan->candidate.evaluation};
  if (auto again = exports::checkLegality(planned.job, target.rules());
      !again.ok())
    return refuse(
        why + "; the nearest plan breaks another rule: " + again.rule + hint());
  session.notice(option() + ": the file has " + nearest.describe(*plan) +
                 ", because " + why + hint());
  return planned;
}

std::vector<PlannedExport> planExports(Session &session,
                                       const Searched &searched) {
  std::vector<PlannedExport> planned;
  for (const exports::Target *target : namedTargets(session.options()))
    if (auto choice = ExportChoice(session, searched, *target).choose())
      planned.push_back(std::move(*choice));
  return planned;
}

void remarkOnSoftware(Session &session, const Searched &searched) {
  const CompileOptions &options = session.options();
  const std::string &software = searched.machine.cluster.software.name;
  if (targetOf(options))
    return;
  for (const exports::Target *target : exports::trainingTargets()) {
    if (!target->isFitted || target->software != software)
      continue;
    exports::Job job =
        jobOf(options, searched, searched.winner(), searched.used);
    exports::Legality legality = exports::checkLegality(job, target->rules());
    if (!legality.ok() && !legality.isOfJob)
      session.remark("\"software\": \"" + software +
                     "\" prices all strategies, and the chosen one cannot be "
                     "expressed: " +
                     legality.rule + "; --for=" + std::string(target->name) +
                     " searches only what it can express");
  }
}

static std::optional<TargetForecast>
forecastFor(Session &session, const Searched &searched, const exports::Job &job,
            const exports::Target &target) {
  const cost::Cluster &cluster = searched.machine.cluster;
  std::string software(target.isFitted ? target.software : "");
  auto theirs = clusterRunBy(cluster, software, session.options().precision);
  if (!theirs)
    return std::nullopt;
  CompileOptions asked = session.options();
  asked.strategy = cost::stringifyStrategy(job.strategy, cluster.numDevices());
  asked.microBatch = 0;
  auto found = searchAgain(session, searched, asked, *theirs,
                           acceptedBy(target, job), /*baselines=*/false);
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
      options, *whole, searched.used, searched.priced(options),
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

/// Writes the files of one target. Adds its remarks and its forecast.
static void writeExport(Session &session, const Searched &searched,
                        const PlannedExport &planned,
                        std::vector<exports::ExportedFile> &files,
                        std::vector<TargetForecast> &forecasts) {
  exports::Exported written = planned.target->write(planned.job);
  llvm::append_range(files, written.files);
  for (const std::string &remark : written.remarks)
    session.remark(remark);
  auto forecast = forecastFor(session, searched, planned.job, *planned.target);
  if (!forecast)
    return;
  std::string text = forecastText(*forecast, planned.evaluation);
  session.remark(text);
  if (!forecast->fits())
    session.reporter().warning(text);
  forecasts.push_back(*forecast);
}

LogicalResult writeExports(Session &session, const Searched &searched,
                           const std::vector<PlannedExport> &planned,
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
  if (files.empty() && planned.empty())
    return success();
  std::map<std::string, std::string> strategies;
  int64_t devices = searched.machine.cluster.numDevices();
  for (const PlannedExport &each : planned) {
    writeExport(session, searched, each, files, forecasts);
    strategies[std::string(each.target->name)] =
        cost::stringifyStrategy(each.job.strategy, devices);
  }
  const cost::Candidate &winner = searched.winner();
  std::string strategy = cost::stringifyStrategy(
      cost::placedStrategy(winner.strategy, winner.evaluation.decisions),
      devices);
  std::string error =
      writeExportedFiles(files, strategy, dir, forecasts, strategies);
  return error.empty() ? success() : session.fail(error);
}

} // namespace dpc
