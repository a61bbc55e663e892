//===- Compile.cpp - From a model to a plan, in stages --------------------===//
#include "tools/driver/Compile.h"

#include "passes/lower/Lower.h"
#include "passes/price/DescribeStep.h"
#include "passes/price/Evaluator.h"
#include "passes/shard/Passes.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Explain.h"
#include "tools/driver/Exports.h"
#include "tools/driver/Load.h"
#include "tools/driver/ModelShape.h"
#include "tools/driver/PlanSearch.h"

#include "mlir/IR/Diagnostics.h"

#include <nlohmann/json.hpp>

using namespace mlir;

namespace dpc {

bool Searched::isExecutable() const {
  return !result.candidates.empty() && winner().evaluation.rejected.empty();
}

LoweringSpec Searched::spec(const CompileOptions &options) const {
  return specOf(winner().strategy, winner().evaluation.decisions,
                result.totals.globalBatch, commonSpec(options));
}

LoweringSpec Searched::priced(const CompileOptions &options) const {
  return pricedSpec(spec(options), used.software, result.totals.computeType);
}

FailureOr<ModuleOp> wholeProgram(Session &session, const Prepared &prepared) {
  FailureOr<ModuleOp> whole = prepared.program.whole();
  if (failed(whole))
    return session.fail("the program cannot be made");
  return whole;
}

cost::StepDetail describePlan(Session &session, const Searched &searched) {
  if (auto seen = searched.winner().evaluation.detail)
    return *seen;
  ScopedDiagnosticHandler quiet(&session.context(), [](Diagnostic &) {
    return success(); // The search already reported the error.
  });
  FailureOr<ModuleOp> whole = searched.program.whole();
  if (failed(whole))
    return {};
  auto detail =
      describeStep(*whole, searched.used, searched.priced(session.options()));
  return succeeded(detail) ? std::move(*detail) : cost::StepDetail();
}

/// Fails if --strategy=@FILE states sizes that the model does not have.
static LogicalResult checkStatedSizes(Session &session,
                                      const Prepared &prepared) {
  const CompileOptions &options = session.options();
  if (options.statedSizes.empty())
    return success();
  exports::ModelShape shape =
      modelShapeOf(findProgram(prepared.program.source()));
  shape.experts =
      prepared.program
          .evaluator(prepared.machine.cluster, prepared.machine.isArranged,
                     commonSpec(options))
          ->totals()
          .experts;
  std::string why = exports::whyOtherModel(options.statedSizes, shape);
  return why.empty() ? success()
                     : session.fail(options.strategyFile + ": " + why +
                                    "; expected a file for " + options.model);
}

static void remarkOnCompression(Session &session) {
  const CompileOptions &options = session.options();
  auto remark = [&](const char *what, const std::string &form,
                    const char *option) {
    if (!form.empty())
      session.remarks().push_back(std::string("approximate: ") + what +
                                  " are sent as " + form + " (" + option + ")");
  };
  remark("gradients", options.compressGradients, "--compress-gradients");
  remark("gathered weights", options.compressWeights, "--compress-weights");
}

/// Returns why no strategy can run.
static std::string whyNoWinner(const CompileOptions &options,
                               const cost::SearchResult &result) {
  if (result.candidates.empty())
    return "no strategy was found";
  const cost::Candidate &nearest = result.candidates.front();
  if (!nearest.evaluation.rejected.empty())
    return nearest.evaluation.rejected;
  return "no strategy fits" +
         (result.headroom > 0 && options.headroom
              ? " with --headroom=" + cost::formatShare(result.headroom)
              : "") +
         "; nearest: " + cost::stringifyStrategy(nearest.strategy) + " (" +
         nearest.why + ")";
}

/// Searches the strategies that the target of --for can express. If the request
/// leaves none, searches all, so that the export can name the broken rule.
static Expected<cost::PartResult> searchFor(Session &session,
                                            const Prepared &prepared) {
  PlanSearch search{session.options(),
                    prepared.machine.cluster,
                    prepared.program,
                    prepared.machine.isArranged,
                    session.reporter().progress(),
                    prepared.accepts};
  auto found = search.run(session.remarks());
  if (!prepared.accepts || !found || !found->search.candidates.empty())
    return found;
  search.accepts = nullptr;
  return search.run(session.remarks());
}

FailureOr<Searched> search(Session &session, Prepared prepared) {
  const CompileOptions &options = session.options();
  bool plans = options.emit.count("plan");
  if (std::string why = OutputFolder::refusal(options.output, plans);
      !why.empty())
    return session.fail(why);
  if (failed(checkStatedSizes(session, prepared)))
    return failure();
  remarkOnCompression(session);
  auto found = searchFor(session, prepared);
  if (!found)
    return session.fail(found.message());
  Searched searched{std::move(prepared), std::move(found->search),
                    std::move(found->used)};
  // A plan that does not fit is explained, too.
  if (searched.isExecutable() &&
      (searched.result.hasWinner() || !options.explain.empty()))
    return searched;
  std::string why = whyNoWinner(options, searched.result);
  if (plans || !options.explain.empty() || options.printPipeline)
    return session.fail(why + (searched.isExecutable()
                                   ? "; no plan is written, --emit=report has "
                                     "details"
                                   : ""));
  if (exportsAny(options))
    session.refuse(why + "; no export is written, the report has details");
  return searched;
}

Expected<cost::PartResult> searchPartAgain(Session &session,
                                           const Prepared &prepared,
                                           const CompileOptions &options,
                                           const cost::Cluster &cluster,
                                           Accepts accepts, bool baselines) {
  std::vector<std::string> remarks;
  return PlanSearch{.options = options,
                    .cluster = cluster,
                    .program = prepared.program,
                    .isArranged = prepared.machine.isArranged,
                    .progress = session.reporter().progress(),
                    .accepts = accepts ? std::move(accepts) : prepared.accepts,
                    .baselines = baselines}
      .run(remarks);
}

Expected<cost::SearchResult> searchAgain(Session &session,
                                         const Prepared &prepared,
                                         const CompileOptions &options,
                                         const cost::Cluster &cluster,
                                         Accepts accepts, bool baselines) {
  auto found = searchPartAgain(session, prepared, options, cluster,
                               std::move(accepts), baselines);
  if (!found)
    return found.status();
  return std::move(found->search);
}

static LogicalResult printProgram(Session &session, const Prepared &prepared) {
  FailureOr<ModuleOp> whole = wholeProgram(session, prepared);
  if (failed(whole))
    return failure();
  whole->print(session.reporter().output());
  session.reporter().output() << "\n";
  return success();
}

static LogicalResult printExplanation(Session &session,
                                      const Searched &searched) {
  const CompileOptions &options = session.options();
  cost::StepDetail detail = describePlan(session, searched);
  FailureOr<ModuleOp> whole = searched.program.whole();
  if (detail.empty() || failed(whole))
    return session.fail(
        "--explain: the chosen plan's step cannot be simulated");
  double limit = searched.winner().evaluation.memoryLimitBytes;
  auto text =
      explain(options.explain,
              {.program = *whole,
               .cluster = searched.used,
               .spec = searched.priced(options),
               .detail = detail,
               .memoryLimitBytes =
                   limit > 0 ? limit : searched.result.memoryLimitBytes});
  if (!text)
    return session.fail(text.message());
  session.reporter().output()
      << cost::stringifyStrategy(searched.winner().strategy)
      << (searched.result.hasWinner()
              ? ""
              : ", which does not fit: " + searched.winner().why)
      << "\n"
      << *text;
  return success();
}

static LogicalResult printPipeline(Session &session, const Searched &searched) {
  const CompileOptions &options = session.options();
  const cost::Cluster &cluster = searched.machine.cluster;
  if (!options.calibrated.empty() || !options.device.empty() ||
      searched.used.numDevices() != cluster.numDevices() ||
      !searched.winner().evaluation.decisions.groups.empty())
    return session.fail(
        "--print-pipeline: passes read the cluster from its file, and this "
        "plan "
        "is for measured devices or for a part of the cluster; expected a "
        "cluster.json with the devices that the plan uses");
  session.reporter().output()
      << pipelineText(searched.spec(options), searched.used, options.cluster)
      << "\n";
  return success();
}

static LogicalResult printReport(Session &session, const Written &written) {
  const CompileOptions &options = session.options();
  const cost::Cluster &cluster = written.machine.cluster;
  Reporter &reporter = session.reporter();
  if (options.report == "json")
    reporter.output() << reportText(
        cost::reportToJson(cluster, written.result, written.context));
  else
    reporter.output() << cost::reportToText(cluster, written.result,
                                            written.context, reporter.form())
                      << "\nwrote " << options.output << "\n";
  return written.isExecutable()
             ? success()
             : session.fail("no strategy can be executed; the report says why");
}

static LogicalResult compile(Session &session) {
  auto then = [&](auto stage, auto next) {
    using Next = decltype(next(session, std::move(*stage)));
    return succeeded(stage) ? next(session, std::move(*stage))
                            : Next(failure());
  };
  FailureOr<Prepared> prepared = then(load(session), prepare);
  session.clearProgress();
  if (succeeded(prepared) && printsProgram(session.options()))
    return printProgram(session, *prepared);
  FailureOr<Searched> searched = then(std::move(prepared), search);
  if (succeeded(searched) && !session.options().explain.empty())
    return printExplanation(session, *searched);
  if (succeeded(searched) && session.options().printPipeline)
    return printPipeline(session, *searched);
  FailureOr<Built> built = then(std::move(searched), build);
  FailureOr<Verified> verified = then(std::move(built), verify);
  FailureOr<Written> written = then(std::move(verified), write);
  return succeeded(written) ? printReport(session, *written) : failure();
}

/// Whether this command ends with a plan in the output folder.
static bool writesPlan(const CompileOptions &options) {
  return options.emit.count("plan") && options.explain.empty() &&
         !options.printPipeline && !printsProgram(options);
}

LogicalResult compileModel(CompileOptions options, Reporter &reporter) {
  // If this compilation fails, no earlier plan passes for its result.
  std::string error, previous;
  if (writesPlan(options))
    previous = OutputFolder::setPlanAside(options.output, error);
  if (error.empty())
    error = readNamedStrategy(options);
  Session session(options, reporter);
  session.noteOnFailure(OutputFolder::noteOf(previous));
  LogicalResult result = error.empty() ? compile(session) : session.fail(error);
  return session.end(result);
}

} // namespace dpc
