//===- Write.cpp - Writes the report and puts the folder in place ---------===//
#include "codegen/report/Page.h"
#include "passes/shard/Passes.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Exports.h"
#include "tools/driver/JobAnswers.h"
#include "tools/driver/ModelParts.h"
#include "tools/driver/Remarks.h"
#include "tools/driver/Routers.h"

#include <nlohmann/json.hpp>

using namespace mlir;

namespace dpc {

using nlohmann::ordered_json;

static std::string textOf(const ordered_json &json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

std::string reportText(const ordered_json &report) {
  const std::string mark = "@detail@";
  ordered_json outline = report;
  ordered_json &chosen = outline["chosen"];
  if (!chosen.is_object() || !chosen.contains("detail"))
    return textOf(report, 2) + "\n";
  std::string detail = textOf(chosen["detail"], -1);
  chosen["detail"] = mark;
  std::string text = textOf(outline, 2);
  // The first match is not inside a text: quotes in texts are escaped.
  std::string quoted = "\"detail\": \"" + mark + "\"";
  text.replace(text.find(quoted), quoted.size(), "\"detail\": " + detail);
  return text + "\n";
}

static void fill(std::string &page, std::string_view mark,
                 std::string_view content) {
  size_t at = page.find(mark);
  if (at != std::string::npos)
    page.replace(at, mark.size(), content);
}

/// Replaces "<", so that no text ends the surrounding script element.
static std::string embeddable(std::string json) {
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6)
    json.replace(at, 1, "\\u003c");
  return json;
}

static std::string reportPage(const ordered_json &report) {
  report::PageParts parts = report::pageParts();
  std::string page(parts.page);
  fill(page, "/*STYLE*/", parts.style);
  fill(page, "/*LIBRARY*/", parts.charts);
  fill(page, "/*SCRIPT*/", parts.script);
  fill(page, "@KEYS@", embeddable(cost::keysToJson().dump()));
  // Filled in last, because the report may contain the other marks.
  fill(page, "@REPORT@", embeddable(textOf(report, -1)));
  return page;
}

static std::string writeReportFiles(const ordered_json &report,
                                    const std::filesystem::path &dir) {
  std::string error = writeText(dir / "report.json", reportText(report));
  return error.empty() ? writeText(dir / "report.html", reportPage(report))
                       : error;
}

/// Without a plan, the remark depends on a simulated step.
static void remarkOnPlanOfFp8(Session &session, const Verified &verified,
                              cost::StepDetail &detail) {
  if (session.options().precision != "fp8" || verified.plan)
    return;
  if (detail.empty())
    detail = describePlan(session, verified);
  if (detail.empty())
    return;
  std::string text =
      remarkOnFp8(session.options(), /*hasFp8=*/detail.fp8Share > 0);
  if (!text.empty())
    session.remark(text);
}

/// Adds intervals and the answers of --tokens, --deadline and several clusters.
static void answerJob(Session &session, const Verified &verified,
                      cost::ReportContext &context) {
  auto errors = cost::loadMeasuredErrors();
  if (errors)
    context.intervals = std::make_shared<const cost::Intervals>(*errors);
  else
    session.remark("predictions have no intervals: " + errors.message());
  if (context.intervals && !context.intervals->isKnown())
    context.intervals = nullptr;
  const cost::Intervals *intervals = context.intervals.get();
  context.job = jobCostOf(session.options(), verified, intervals);
  context.deadline = searchDeadline(session, verified, intervals);
  context.clusters = compareClusters(session, verified, intervals);
}

/// Returns the contents of the report besides the search result. They include
/// the simulated step and the answers of --what-if only if `reports` is true.
static cost::ReportContext contextOf(Session &session, const Verified &verified,
                                     bool reports) {
  const CompileOptions &options = session.options();
  cost::ReportContext context;
  context.model = options.model;
  context.software = softwareLine(options, verified.machine.cluster);
  context.readAs = options.readAs;
  context.whyPrecision = options.whyPrecision;
  if (verified.program.trains())
    context.loss = verified.loss;
  context.trained = verified.trained;
  context.frozen = verified.frozen;
  context.verification = verified.verification;
  if (!options.strategyFile.empty())
    context.better = searchFreely(session, verified);
  if (verified.isExecutable()) {
    if (reports)
      context.detail = describePlan(session, verified);
    remarkOnPlanOfFp8(session, verified, context.detail);
    if (reports)
      remarkOnSkew(session, verified);
    if (reports && options.whatIf)
      context.whatIfs = searchChanges(session, verified);
  }
  if (reports)
    answerJob(session, verified, context);
  context.parts = modelPartsOf(findProgram(verified.program.source()));
  if (verified.isExecutable())
    context.experts = expertLoadsOf(
        findProgram(verified.program.source()), verified.result.totals.experts,
        verified.winner().strategy.ep, options.routing);
  context.notices = session.notices();
  context.remarks = groupedRemarks(session.remarks(), context.notices);
  return context;
}

FailureOr<Written> write(Session &session, Verified verified) {
  const CompileOptions &options = session.options();
  session.begin("reporting");
  bool reports = writesReport(options);
  cost::ReportContext context = contextOf(session, verified, reports);
  std::string error;
  if (reports)
    error = writeReportFiles(
        cost::reportToJson(verified.machine.cluster, verified.result, context),
        verified.folder->path());
  session.clearProgress();
  if (error.empty())
    error = verified.folder->commit();
  if (!error.empty())
    return session.fail(error);
  return Written{std::move(verified), std::move(context)};
}

} // namespace dpc
