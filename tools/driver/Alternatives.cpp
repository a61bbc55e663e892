//===- Alternatives.cpp - Plans to compare the winner with ----------------===//
#include "tools/driver/Compile.h"

#include "cost-model/report/Report.h"
#include "frontends/dims/StatedDims.h"
#include "passes/shard/Passes.h"
#include "tools/driver/BuildPlan.h"
#include "tools/driver/Routers.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;

namespace dpc {

std::optional<cost::BetterPlan> searchFreely(Session &session,
                                             const Searched &searched) {
  const CompileOptions &options = session.options();
  const Machine &machine = searched.machine;
  int64_t devices = machine.cluster.numDevices();
  int64_t used = searched.result.candidates.empty()
                     ? devices
                     : searched.winner().strategy.ranks();
  CompileOptions free = options;
  free.microBatch = 0;
  free.strategy = used < devices ? "ranks=" + std::to_string(used) : "auto";
  auto found = searchAgain(session, searched, free, machine.cluster);
  if (!found)
    return std::nullopt;
  return cost::betterPlan(searched.result, *found,
                          *cost::symbolizeObjective(options.objective),
                          devices);
}

/// Accepts seq, seq_len, sequence_length and src_seq, but not num_seqs.
static bool isSequenceLength(StringRef name) {
  SmallVector<StringRef> words;
  name.split(words, '_');
  return llvm::any_of(words, [](StringRef word) {
    return word.equals_insensitive("seq") ||
           word.equals_insensitive("sequence") ||
           word.equals_insensitive("seqlen");
  });
}

static bool writeLongerModel(const std::string &file, const std::string &path) {
  std::optional<model::ModelDims> dims = model::dimsOfFile(file);
  if (!dims || dims->isImage())
    return false;
  dims->seq *= 2;
  return dims->refusal().empty() && model::writeModelFile(*dims, path);
}

/// Returns the options for sequences of twice the length. Doubles the size that
/// --bind sets, or writes a model with longer sequences to `path`. Returns
/// nullopt if neither is possible.
static std::optional<CompileOptions>
withLongerSequence(const CompileOptions &options, const std::string &path) {
  CompileOptions longer = options;
  if (!options.calibrate.empty()) // the file already has the measurements
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

namespace {

class QuietReporter : public Reporter {
public:
  explicit QuietReporter(ProgressView *progress) : shown(progress) {}
  ProgressView *progress() override { return shown; }

private:
  ProgressView *shown;
};

} // namespace

static Expected<cost::SearchResult> searchAlone(const CompileOptions &options,
                                                ProgressView *progress) {
  QuietReporter reporter(progress);
  Session session(options, reporter);
  FailureOr<Loaded> loaded = load(session);
  FailureOr<Prepared> prepared = failure();
  if (succeeded(loaded))
    prepared = prepare(session, std::move(*loaded));
  session.clearProgress();
  if (failed(prepared))
    return Error{session.firstError()};
  auto found =
      searchAgain(session, *prepared, options, prepared->machine.cluster);
  if (!found) {
    // fail() ignores all but the first error.
    (void)session.fail(found.message());
    return Error{session.firstError()};
  }
  return found;
}

static Expected<cost::SearchResult> searchLonger(const CompileOptions &options,
                                                 ProgressView *progress) {
  SmallString<128> path;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("dpc-longer", "onnx", path))
    return Error{"cannot create a temporary file: " + code.message()};
  llvm::FileRemover remover(path);
  auto longer = withLongerSequence(options, path.str().str());
  if (!longer)
    return Error{"the file fixes the model's sequence: export it with a "
                 "dimension that --bind=seq=N sets"};
  return searchAlone(*longer, progress);
}

static cost::WhatIf answer(const std::string &change,
                           const Expected<cost::SearchResult> &found,
                           int64_t devices) {
  if (found)
    return cost::answerOf(change, *found, devices);
  cost::WhatIf unknown;
  unknown.change = change;
  unknown.why = found.message();
  return unknown;
}

/// Whether the step is faster and no device is idle.
static bool helps(const cost::WhatIf &answer, double stepSeconds) {
  constexpr double kVisible = 0.999;
  return answer.why.empty() && answer.idleDevices == 0 &&
         answer.stepSeconds < kVisible * stepSeconds;
}

/// Returns the answer for the smallest number of more nodes that helps, or
/// `one`, the answer for one more node, if none does.
static cost::WhatIf searchMoreNodes(Session &session, const Searched &searched,
                                    const cost::WhatIf &one) {
  double now = searched.winner().evaluation.stepSeconds;
  if (!one.why.empty() || helps(one, now))
    return one;
  std::string tried = "1";
  for (int64_t more : cost::nodesToAdd(searched.machine.cluster)) {
    if (more == 1)
      continue;
    cost::Cluster larger = cost::withMoreNodes(searched.machine.cluster, more);
    cost::WhatIf next =
        answer(std::to_string(more) + " more nodes (" + tried +
                   " more would add nothing)",
               searchAgain(session, searched, session.options(), larger),
               larger.numDevices());
    if (helps(next, now))
      return next;
    tried += " or " + std::to_string(more);
  }
  return one;
}

std::vector<cost::WhatIf> searchChanges(Session &session,
                                        const Searched &searched) {
  const cost::Cluster &cluster = searched.machine.cluster;
  std::vector<cost::WhatIf> answers;
  for (const cost::ChangedCluster &changed : cost::changedClusters(cluster))
    answers.push_back(answer(
        changed.change,
        changed.why.empty()
            ? searchAgain(session, searched, session.options(), changed.cluster)
            : Error{changed.why},
        changed.cluster.numDevices()));
  answers.front() = searchMoreNodes(session, searched, answers.front());
  answers.push_back(
      answer("sequences twice as long",
             searchLonger(session.options(), session.reporter().progress()),
             cluster.numDevices()));
  return answers;
}

void remarkOnSkew(Session &session, const Searched &searched) {
  const CompileOptions &options = session.options();
  const cost::Candidate &winner = searched.winner();
  const cost::Strategy &plan = winner.strategy;
  auto placed = [](const cost::Candidate &candidate) {
    return cost::placedStrategy(candidate.strategy,
                                candidate.evaluation.decisions);
  };
  if (plan.ep == 1 || !options.routing.isBalanced())
    return;
  const cost::Routing skew = cost::Routing::zipf(cost::kShownSkew);
  std::vector<double> loads =
      loadsOfRouting(findProgram(searched.program.source()), skew);
  constexpr size_t kMost = 4; // candidates, of which each takes a moment
  std::vector<cost::Strategy> strategies = {placed(winner)};
  for (const cost::Candidate &other : searched.result.candidates)
    if (strategies.size() < kMost && other.fits && other.skipped.empty() &&
        other.strategy.ep != plan.ep && other.strategy.ranks() == plan.ranks())
      strategies.push_back(placed(other));
  if (loads.empty() || strategies.size() == 1)
    return;
  auto program = searched.program.withExpertLoads(loads);
  if (!program)
    return;
  std::vector<cost::Evaluation> skewed =
      program
          ->evaluator(searched.used,
                      searched.machine.isArranged || searched.accepts,
                      commonSpec(options))
          ->evaluateMany(strategies);
  constexpr double kVisible = 0.97; // more than the errors of estimates
  size_t best = 0;
  for (size_t i = 1; i < skewed.size(); ++i)
    if (skewed[i].rejected.empty() &&
        skewed[i].stepSeconds < kVisible * skewed[best].stepSeconds)
      best = i;
  if (best > 0)
    session.remark("if tokens choose experts as in " + skew.name() +
                   ", this plan takes " +
                   cost::formatSeconds(skewed.front().stepSeconds) +
                   " a step, and " + cost::stringifyStrategy(strategies[best]) +
                   " " + cost::formatSeconds(skewed[best].stepSeconds) +
                   ": --routing plans for uneven or measured choices");
}

} // namespace dpc
