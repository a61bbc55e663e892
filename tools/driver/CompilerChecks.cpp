//===- CompilerChecks.cpp - What is verified, and what is reported --------===//
#include "cost-model/search/WhatIf.h"
#include "frontends/dims/StatedDims.h"
#include "passes/price/DescribeStep.h"
#include "passes/price/Evaluator.h"
#include "tools/driver/Compiler.h"
#include "tools/driver/CompilerSteps.h"
#include "tools/driver/EmitTrace.h"
#include "tools/driver/Fp8Checks.h"
#include "tools/driver/PlanSearch.h"
#include "tools/driver/ShrunkVerify.h"
#include "tools/driver/WriteReport.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <chrono>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

/// Plans larger than this are verified in shrunk form unless asked for:
/// elements of all parameters times ranks, operations per step, and ranks.
static constexpr double kVerifyParameterLimit = 2e8, kVerifyFlopLimit = 5e11;
static constexpr int64_t kVerifyRankLimit = 64;

bool Compiler::isSmall(const cost::SearchResult &result) const {
  double elements = result.totals.parameters * used.numDevices();
  return used.numDevices() <= kVerifyRankLimit &&
         elements <= kVerifyParameterLimit &&
         result.totals.flopsPerStep <= kVerifyFlopLimit;
}

/// Runs the plan as it is against one device, in folders inside `dir`. A report
/// alone is also worth having where that cannot be done.
cost::Verification Compiler::verifyWhole(const cost::SearchResult &result,
                                         const fs::path &dir,
                                         std::string &mismatch) {
  auto begin = std::chrono::steady_clock::now();
  std::string error;
  std::optional<ScopedDiagnosticHandler> handler;
  if (!plan)
    handler.emplace(context.get(), [&](Diagnostic &diagnostic) {
      if (error.empty() &&
          diagnostic.getSeverity() == DiagnosticSeverity::Error)
        error = diagnostic.str();
      return success();
    });
  cost::Verification verification;
  Verdict verdict = runAgainstOneDevice(degreesOfWinner(result), dir);
  if (!verdict.ok() && (plan || !verdict.cannotBeChecked)) {
    mismatch = verdict.why;
    return verification;
  }
  if (!verdict.ok()) {
    verification.why = verdict.why + (error.empty() ? "" : ": " + error);
    return verification;
  }
  verification.scope = cost::Verification::Scope::full;
  verification.strategy = result.candidates.front().strategy;
  verification.ranks = used.numDevices();
  verification.globalBatch = result.totals.globalBatch;
  setVerdict(verification, verdict);
  verification.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return verification;
}

/// Builds what there is not yet: the plan of a report alone, and that for one
/// device.
Verdict Compiler::runAgainstOneDevice(const LoweringSpec &asked,
                                      const fs::path &dir) {
  // What topk leaves out is not what one device computes.
  LoweringSpec degrees = withWholeGradients(asked);
  bool isBuilt = plan && plan->targetGpu.empty() &&
                 degrees.compressGradients == asked.compressGradients;
  fs::path oneDir = dir / "one-device",
           ranksDir = isBuilt ? dir : dir / "ranks";
  std::error_code code;
  fs::create_directories(oneDir, code);
  fs::create_directories(ranksDir, code);
  Verdict verdict;
  verdict.cannotBeChecked = true;
  verdict.why = "the program cannot be compiled";
  if (!whole())
    return verdict;
  PlanBuilder builder{options, initialValues, {}, /*onCpu=*/true};
  std::optional<rt::Plan> ranks =
      isBuilt ? plan : builder.build(whole(), used, degrees, ranksDir);
  std::optional<rt::Plan> one;
  if (ranks)
    one = builder.buildReference(whole(), degrees, oneDir);
  if (one)
    verdict = verifyAgainstOneDevice(
        {*ranks, ranksDir.string(), compressionOf(degrees)},
        {*one, oneDir.string()}, options.init);
  fs::remove_all(oneDir, code);
  if (!isBuilt)
    fs::remove_all(ranksDir, code);
  return verdict;
}

/// With the shares of the batch that were found: they are part of what ranks
/// do.
static cost::Strategy strategyToShrink(const cost::Candidate &winner) {
  cost::Strategy strategy = winner.strategy;
  strategy.batchShares =
      cost::placedStrategy(strategy, winner.evaluation.decisions).batchShares;
  return strategy;
}

bool Compiler::verify(const cost::SearchResult &result, const fs::path &dir) {
  cost::Verification &verification = reportContext.verification;
  std::string mismatch;
  if (options.verify == "off")
    verification.why = "--verify=off";
  else if (result.candidates.empty() ||
           !result.candidates.front().evaluation.rejected.empty())
    verification.why = "there is no strategy that could run";
  else if (options.verify == "on" ||
           (options.verify == "auto" && isSmall(result)))
    verification = verifyWhole(result, dir, mismatch);
  else if (!fused)
    verification.why = "the model is too large to run here, and only an "
                       "undifferentiated one can be shrunk (--verify=on runs "
                       "it all the same)";
  else
    verification = verifyInShrunkForm(
        *fused, PlanBuilder{options, initialValues, {}, true}, used,
        strategyToShrink(result.candidates.front()),
        result.candidates.front().evaluation.decisions.linkSpeed,
        result.totals.globalBatch, dir, mismatch);
  return mismatch.empty() || fail("verification failed: " + mismatch);
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

/// What the winner's evaluation saw of its step, or one more that sees it.
/// Leaves the report without where that cannot be done.
void Compiler::describe(const cost::SearchResult &result) {
  if (auto seen = result.candidates.front().evaluation.detail) {
    reportContext.detail = *seen;
    return;
  }
  ScopedDiagnosticHandler quiet(context.get(), [](Diagnostic &) {
    return success(); // Search has said it.
  });
  if (!whole())
    return;
  auto detail =
      describeStep(whole(), used,
                   pricedDegrees(degreesOfWinner(result), used.software,
                                 result.totals.computeType));
  if (succeeded(detail))
    reportContext.detail = std::move(*detail);
}

nlohmann::ordered_json
Compiler::reportOf(const cost::SearchResult &result) const {
  return cost::reportToJson(cluster, result, reportContext);
}

bool Compiler::writeTrace(const cost::SearchResult &result,
                          const fs::path &dir) {
  if (!whole())
    return fail("the program cannot be made");
  std::string leftOut;
  std::string error = emitTrace(options, whole(), used, degreesOfWinner(result),
                                dir / "trace.json", leftOut);
  if (!leftOut.empty())
    addRemark("trace.json: " + leftOut);
  return error.empty() ? true : fail("trace.json: " + error);
}

/// What is chosen for the command line alone; nothing is written or printed.
Expected<cost::SearchResult> Compiler::searchAlone() {
  isSilent = true;
  registerEverything(registry);
  context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  installDiagnostics();
  std::optional<cost::SearchResult> found;
  if (loadCluster() && loadProgram() && prepareProgram())
    found = search();
  if (!found)
    return Error{firstError};
  return std::move(*found);
}

/// seq, seq_len, sequence_length, src_seq, but not num_seqs.
static bool isSequenceLength(StringRef name) {
  SmallVector<StringRef> words;
  name.split(words, '_');
  return llvm::any_of(words, [](StringRef word) {
    return word.equals_insensitive("seq") ||
           word.equals_insensitive("sequence") ||
           word.equals_insensitive("seqlen");
  });
}

/// A model of twice the sequence in `path`, where the file of this one states
/// what it was made of.
static bool writeLongerModel(const std::string &file, const std::string &path) {
  std::optional<model::ModelDims> dims = model::dimsOfFile(file);
  if (!dims || dims->isImage())
    return false;
  dims->seq *= 2;
  return dims->refusal().empty() && model::writeModelFile(*dims, path);
}

/// The same command with all sequences twice as long: of a dimension that was
/// bound, or of a model made again in `path`. None where there is neither.
static std::optional<CompileOptions>
withLongerSequence(const CompileOptions &options, const std::string &path) {
  CompileOptions longer = options;
  if (!options.calibrate.empty()) // What was measured is what was written.
    (options.links.empty() ? longer.device : longer.cluster) =
        options.calibrate;
  longer.calibrate.clear();
  longer.links.clear();
  longer.dumpIrDir.clear();
  bool isLonger = false;
  for (auto &[name, size] : longer.bind)
    if (isSequenceLength(name)) {
      size *= 2;
      isLonger = true;
    }
  if (!isLonger && writeLongerModel(options.model, path)) {
    longer.model = path;
    isLonger = true;
  }
  return isLonger ? std::optional(std::move(longer)) : std::nullopt;
}

/// Who names a file asks what it does, and what would be better on as many
/// devices.
void Compiler::askForBetter(const cost::SearchResult &result) {
  CompileOptions free = options;
  free.microBatch = 0;
  int64_t used = result.candidates.empty()
                     ? cluster.numDevices()
                     : result.candidates.front().strategy.ranks();
  free.strategy =
      used < cluster.numDevices() ? "ranks=" + std::to_string(used) : "auto";
  PlanSearch search{free,         cluster,
                    family.get(), family ? ModuleOp() : *program,
                    sample(),     isArranged};
  std::vector<std::string> remarks;
  if (auto found = search.run(remarks))
    reportContext.better = cost::betterPlan(
        result, found->search, *cost::symbolizeObjective(options.objective),
        cluster.numDevices());
}

/// Searches changed clusters, and a longer sequence.
void Compiler::askWhatIf() {
  auto add = [&](const std::string &change,
                 const Expected<cost::SearchResult> &found, int64_t devices) {
    cost::WhatIf unknown;
    unknown.change = change;
    if (!found)
      unknown.why = found.message();
    reportContext.whatIfs.push_back(
        found ? cost::answerOf(change, *found, devices) : unknown);
  };
  for (const cost::ChangedCluster &changed : cost::changedClusters(cluster)) {
    std::vector<std::string> remarks;
    PlanSearch search{options,      changed.cluster,
                      family.get(), family ? ModuleOp() : *program,
                      sample(),     isArranged};
    int64_t devices = changed.cluster.numDevices();
    if (!changed.why.empty())
      add(changed.change, Error{changed.why}, devices);
    else if (auto found = search.run(remarks); !found)
      add(changed.change, Error{found.message()}, devices);
    else
      add(changed.change, std::move(found->search), devices);
  }
  const std::string kLonger = "sequences twice as long";
  SmallString<128> path;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("dpc-longer", "onnx", path)) {
    add(kLonger, Error{"no temporary file: " + code.message()},
        cluster.numDevices());
    return;
  }
  llvm::FileRemover remover(path);
  auto longer = withLongerSequence(options, path.str().str());
  add(kLonger,
      longer ? Compiler(*longer).searchAlone()
             : Error{"the file fixes the model's sequence: export it "
                     "with a dimension that --bind=seq=N sets"},
      cluster.numDevices());
}

/// The report's, or described for this alone: what a rank multiplies in fp8 is
/// known from its own program.
void Compiler::remarkOnPlanOfFp8(const cost::SearchResult &result) {
  if (options.precision != "fp8" || plan)
    return;
  if (reportContext.detail.empty())
    describe(result);
  if (reportContext.detail.empty())
    return;
  bool hasFp8 = reportContext.detail.fp8Share > 0;
  if (std::string text = remarkOnFp8(options, hasFp8); !text.empty())
    addRemark(text);
}

bool Compiler::writeReport(const cost::SearchResult &result,
                           const fs::path &dir) {
  bool isExecutable = !result.candidates.empty() &&
                      result.candidates.front().evaluation.rejected.empty();
  if (isExecutable) {
    describe(result);
    remarkOnPlanOfFp8(result);
  }
  if (isExecutable && options.whatIf)
    askWhatIf();
  std::string error = writeReportFiles(reportOf(result), dir);
  return error.empty() ? true : fail(error);
}

} // namespace dpc
