//===- Write.cpp - The report, and the folder is put in place -------------===//
#include "tools/driver/Alternatives.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Remarks.h"
#include "tools/driver/WriteReport.h"

#include <nlohmann/json.hpp>

using namespace mlir;

namespace dpc {

/// What fp8 was asked for in vain is known from a rank's own program: of a
/// report without a plan from the step that it describes, described for this
/// alone where need be.
static void remarkOnPlanOfFp8(Session &session, const Verified &verified,
                              cost::StepDetail &detail) {
  if (session.options().precision != "fp8" || verified.plan)
    return;
  if (detail.empty())
    detail = describePlan(session, verified);
  if (detail.empty())
    return;
  if (std::string text =
          remarkOnFp8(session.options(), /*hasFp8=*/detail.fp8Share > 0);
      !text.empty())
    session.remark(text);
}

/// What the report says beside the result. Describes the step and asks
/// --what-if where it `reports` on a strategy that can be executed.
static cost::ReportContext contextOf(Session &session, const Verified &verified,
                                     bool reports) {
  const CompileOptions &options = session.options();
  cost::ReportContext context;
  context.model = options.model;
  context.readAs = options.readAs;
  context.trained = verified.trained;
  context.frozen = verified.frozen;
  context.verification = verified.verification;
  if (!options.strategyFile.empty())
    context.better = searchFreely(session, verified);
  if (verified.isExecutable()) {
    if (reports)
      context.detail = describePlan(session, verified);
    remarkOnPlanOfFp8(session, verified, context.detail);
    if (reports && options.whatIf)
      context.whatIfs = searchChanges(session, verified);
  }
  context.remarks = session.remarks();
  return context;
}

FailureOr<Written> write(Session &session, Verified verified) {
  const CompileOptions &options = session.options();
  session.begin("reporting");
  bool reports = options.emit.count("plan") || options.emit.count("report");
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
