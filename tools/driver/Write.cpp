//===- Write.cpp - Writes the report and puts the folder in place ---------===//
#include "tools/driver/Alternatives.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Remarks.h"
#include "tools/driver/WriteReport.h"

#include <nlohmann/json.hpp>

using namespace mlir;

namespace dpc {

/// Adds the remark on fp8. Without a plan it follows from the simulated step,
/// which is described here if necessary.
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

/// The rest of the report. `reports`: a report is written, with the simulated
/// step and the answers of --what-if.
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
