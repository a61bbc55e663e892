//===- VerifyStage.cpp - Built -> Verified --------------------------------===//
#include "tools/driver/Compile.h"
#include "tools/driver/Session.h"
#include "tools/driver/ShrunkVerify.h"

#include <chrono>
#include <cstdio>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

/// --verify=auto shrinks a plan above one of these limits: parameters times
/// ranks, FLOPs per step, or ranks.
static constexpr double kVerifyParameterLimit = 2e8, kVerifyFlopLimit = 5e11;
static constexpr int64_t kVerifyRankLimit = 64;

static bool isSmall(const Searched &searched) {
  const cost::ModelTotals &totals = searched.result.totals;
  int64_t devices = searched.used.numDevices();
  return devices <= kVerifyRankLimit &&
         totals.parameters * devices <= kVerifyParameterLimit &&
         totals.flopsPerStep <= kVerifyFlopLimit;
}

static PlanSettings settingsOnCpu(const CompileOptions &options,
                                  const Built &built) {
  return {.options = options,
          .initialValues = built.initialValues,
          .places = {},
          .onCpu = true,
          .sourceFiles = built.sourceFiles};
}

/// Compares the plan for ranks with a plan for one device. Builds both, unless
/// --emit has already built a plan for ranks that can run here.
static Verdict runAgainstOneDevice(const CompileOptions &options,
                                   const Built &built) {
  const LoweringSpec asked = built.spec(options);
  // One device does not compress gradients, so the ranks must not either.
  LoweringSpec spec = withWholeGradients(asked);
  bool isBuilt = built.plan && built.plan->targetGpu.empty() &&
                 spec.compressGradients == asked.compressGradients;
  const fs::path &dir = built.folder->path();
  fs::path oneDir = dir / "one-device",
           ranksDir = isBuilt ? dir : dir / "ranks";
  std::error_code code;
  fs::create_directories(oneDir, code);
  fs::create_directories(ranksDir, code);
  Verdict verdict;
  verdict.cannotBeChecked = true;
  verdict.why = "the program cannot be compiled";
  FailureOr<ModuleOp> whole = built.program.whole();
  if (failed(whole))
    return verdict;
  PlanSettings settings = settingsOnCpu(options, built);
  std::optional<rt::Plan> ranks =
      isBuilt ? built.plan
              : buildForRanks(settings, *whole, built.used, spec, ranksDir);
  std::optional<rt::Plan> one;
  if (ranks)
    one = buildForOneDevice(settings, *whole, spec, oneDir);
  if (one)
    verdict =
        verifyAgainstOneDevice({*ranks, ranksDir.string(), compressionOf(spec)},
                               {*one, oneDir.string()}, options.init);
  fs::remove_all(oneDir, code);
  if (!isBuilt)
    fs::remove_all(ranksDir, code);
  return verdict;
}

/// Verifies the plan without shrinking, in temporary folders inside the output
/// folder. A plan that cannot be verified is an error only if a plan is
/// written.
static cost::Verification verifyWhole(Session &session, const Built &built,
                                      std::string &mismatch) {
  auto begin = std::chrono::steady_clock::now();
  std::optional<SilencedErrors> error;
  if (!built.plan)
    error.emplace(&session.context());
  cost::Verification verification;
  Verdict verdict = runAgainstOneDevice(session.options(), built);
  if (!verdict.ok() && (built.plan || !verdict.cannotBeChecked)) {
    mismatch = verdict.why;
    return verification;
  }
  if (!verdict.ok()) {
    verification.why =
        verdict.why + (error->text().empty() ? "" : ": " + error->text());
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
    verification.why = "no strategy can run";
  else if (options.verify == "on" ||
           (options.verify == "auto" && isSmall(built)))
    verification = verifyWhole(session, built, mismatch);
  else if (!built.program.fused())
    verification.why = "the model is too large to run here, and a model with "
                       "gradients cannot be shrunk (--verify=on runs it "
                       "anyway)";
  else
    verification = verifyInShrunkForm(
        built.program.fused(), settingsOnCpu(options, built), built.used,
        strategyToShrink(built.winner()),
        built.winner().evaluation.decisions.linkSpeed,
        built.result.totals.globalBatch, built.folder->path(), mismatch);
  return verification;
}

/// Returns the first remark on a node of the model, which may be the cause of a
/// failure, or "".
static std::string remarkOnNodes(Session &session) {
  for (StringRef text : session.remarks())
    if (text.starts_with("node '"))
      return "; remark: " + text.str();
  return "";
}

/// Says that a large learning rate may be the cause of a failure after the
/// first update, or returns "". AdamW changes a weight by about the rate in a
/// step.
static std::string remarkOnRate(const CompileOptions &options,
                                StringRef mismatch) {
  constexpr double kLarge = 0.1; // larger than most weights
  if (options.train == "sgd" || options.lr < kLarge ||
      mismatch.contains("of step 1"))
    return "";
  char rate[32];
  std::snprintf(rate, sizeof rate, "%.4g", options.lr);
  return std::string("; --lr=") + rate +
         " changes each weight by about that number in a step, which magnifies "
         "rounding errors";
}

FailureOr<Verified> verify(Session &session, Built built) {
  session.begin("verifying");
  std::string mismatch;
  cost::Verification verification = verificationOf(session, built, mismatch);
  if (!mismatch.empty())
    return session.fail("verification failed: " + mismatch +
                        remarkOnRate(session.options(), mismatch) +
                        remarkOnNodes(session));
  return Verified{std::move(built), std::move(verification)};
}

} // namespace dpc
