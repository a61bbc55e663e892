//===- VerifyPlan.cpp - Verification of a plan before it is written -------===//
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Compile.h"
#include "tools/driver/ShrunkVerify.h"

#include "mlir/IR/Diagnostics.h"

#include <chrono>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

/// Plans larger than this are verified in shrunk form unless asked for:
/// elements of all parameters times ranks, operations per step, and ranks.
static constexpr double kVerifyParameterLimit = 2e8, kVerifyFlopLimit = 5e11;
static constexpr int64_t kVerifyRankLimit = 64;

static bool isSmall(const Searched &searched) {
  const cost::ModelTotals &totals = searched.result.totals;
  int64_t devices = searched.used.numDevices();
  return devices <= kVerifyRankLimit &&
         totals.parameters * devices <= kVerifyParameterLimit &&
         totals.flopsPerStep <= kVerifyFlopLimit;
}

/// To verify: kernels are for this machine's CPU.
static PlanSettings settingsOnCpu(const CompileOptions &options,
                                  const Built &built) {
  return {.options = options,
          .initialValues = built.initialValues,
          .places = {},
          .onCpu = true};
}

/// Builds what there is not yet: the plan of a report alone, and that for one
/// device.
static Verdict runAgainstOneDevice(const CompileOptions &options,
                                   const Built &built) {
  const LoweringSpec asked = built.degrees(options);
  // What topk leaves out is not what one device computes.
  LoweringSpec degrees = withWholeGradients(asked);
  bool isBuilt = built.plan && built.plan->targetGpu.empty() &&
                 degrees.compressGradients == asked.compressGradients;
  const fs::path &dir = built.folder->path();
  fs::path oneDir = dir / "one-device",
           ranksDir = isBuilt ? dir : dir / "ranks";
  std::error_code code;
  fs::create_directories(oneDir, code);
  fs::create_directories(ranksDir, code);
  Verdict verdict;
  verdict.cannotBeChecked = true;
  verdict.why = "the program cannot be compiled";
  ModuleOp whole = built.program.whole();
  if (!whole)
    return verdict;
  PlanSettings settings = settingsOnCpu(options, built);
  std::optional<rt::Plan> ranks =
      isBuilt ? built.plan
              : buildForRanks(settings, whole, built.used, degrees, ranksDir);
  std::optional<rt::Plan> one;
  if (ranks)
    one = buildForOneDevice(settings, whole, degrees, oneDir);
  if (one)
    verdict = verifyAgainstOneDevice(
        {*ranks, ranksDir.string(), compressionOf(degrees)},
        {*one, oneDir.string()}, options.init);
  fs::remove_all(oneDir, code);
  if (!isBuilt)
    fs::remove_all(ranksDir, code);
  return verdict;
}

/// Runs the plan as it is against one device, in folders inside the one that is
/// built. A report alone is also worth having where that cannot be done.
static cost::Verification verifyWhole(Session &session, const Built &built,
                                      std::string &mismatch) {
  auto begin = std::chrono::steady_clock::now();
  std::string error;
  std::optional<ScopedDiagnosticHandler> handler;
  if (!built.plan)
    handler.emplace(&session.context(), [&](Diagnostic &diagnostic) {
      if (error.empty() &&
          diagnostic.getSeverity() == DiagnosticSeverity::Error)
        error = diagnostic.str();
      return success();
    });
  cost::Verification verification;
  Verdict verdict = runAgainstOneDevice(session.options(), built);
  if (!verdict.ok() && (built.plan || !verdict.cannotBeChecked)) {
    mismatch = verdict.why;
    return verification;
  }
  if (!verdict.ok()) {
    verification.why = verdict.why + (error.empty() ? "" : ": " + error);
    return verification;
  }
  verification.scope = cost::Verification::Scope::full;
  verification.strategy = built.winner().strategy;
  verification.ranks = built.used.numDevices();
  verification.globalBatch = built.result.totals.globalBatch;
  setVerdict(verification, verdict);
  verification.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return verification;
}

/// With the shares of the batch that were found: they are part of what ranks
/// do.
static cost::Strategy strategyToShrink(const cost::Candidate &winner) {
  cost::Strategy strategy = winner.strategy;
  strategy.batchShares =
      cost::placedStrategy(strategy, winner.evaluation.decisions).batchShares;
  return strategy;
}

static cost::Verification verificationOf(Session &session, const Built &built,
                                         std::string &mismatch) {
  const CompileOptions &options = session.options();
  cost::Verification verification;
  if (options.verify == "off")
    verification.why = "--verify=off";
  else if (!built.isExecutable())
    verification.why = "there is no strategy that could run";
  else if (options.verify == "on" ||
           (options.verify == "auto" && isSmall(built)))
    verification = verifyWhole(session, built, mismatch);
  else if (!built.program.fused())
    verification.why = "the model is too large to run here, and only an "
                       "undifferentiated one can be shrunk (--verify=on runs "
                       "it all the same)";
  else
    verification = verifyInShrunkForm(
        built.program.fused(), settingsOnCpu(options, built), built.used,
        strategyToShrink(built.winner()),
        built.winner().evaluation.decisions.linkSpeed,
        built.result.totals.globalBatch, built.folder->path(), mismatch);
  return verification;
}

FailureOr<Verified> verify(Session &session, Built built) {
  session.begin("verifying");
  std::string mismatch;
  cost::Verification verification = verificationOf(session, built, mismatch);
  if (!mismatch.empty())
    return session.fail("verification failed: " + mismatch);
  return Verified{std::move(built), std::move(verification)};
}

} // namespace dpc
