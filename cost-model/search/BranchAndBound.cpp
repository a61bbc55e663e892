//===- BranchAndBound.cpp - Which strategies are evaluated ----------------===//
#include "cost-model/search/BranchAndBound.h"

#include "cost-model/report/Report.h"
#include "cost-model/search/BaselineSearch.h"
#include "cost-model/search/ConfirmWinner.h"
#include "cost-model/search/Explain.h"
#include "cost-model/search/Neighbours.h"
#include "cost-model/search/TriedValues.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>

namespace dpc::cost {

Pending BranchAndBound::bounded(const Strategy &strategy) const {
  Pending entry;
  entry.bounds = problem.evaluator.bound(strategy);
  entry.strategy = &strategy;
  return entry;
}

void BranchAndBound::estimate(Pending &entry) const {
  if (entry.isEstimated)
    return;
  Evaluation estimate = estimatedCandidate(problem, *entry.strategy).evaluation;
  entry.seconds = estimate.stepSeconds;
  entry.stateBytes = stateBytesOf(estimate.memory);
  entry.otherBytes = estimate.memory.total() - entry.stateBytes;
  entry.isEstimated = true;
}

void BranchAndBound::estimateAll(std::vector<Pending> &pending) const {
  parallelFor(pending.size(), kPendingAtOnce,
              [&](size_t i) { estimate(pending[i]); });
}

std::vector<Pending> BranchAndBound::list(const StrategyRequest &request) {
  return list(enumerateStrategies(request, problem.options.space));
}

std::vector<Pending> BranchAndBound::list(std::vector<Strategy> strategies) {
  const std::vector<Strategy> &all = listed.emplace_back(std::move(strategies));
  std::vector<Pending> pending(all.size());
  parallelFor(pending.size(), kPendingAtOnce,
              [&](size_t i) { pending[i] = bounded(all[i]); });
  counted.considered += static_cast<int64_t>(pending.size());
  return pending;
}

void BranchAndBound::learn(const Candidate &candidate) {
  Pending entry = bounded(candidate.strategy);
  estimate(entry);
  lessons.push_back(lessonOf(entry, candidate.evaluation));
}

/// Applies (P1) and (P2) of Search.h. Candidates must beat the value `worst`.
static bool isPruned(const SearchProblem &problem, const Pending &entry,
                     double worst) {
  return entry.bounds.memoryBytes > problem.feasibility.limitBytes() ||
         problem.value(entry.bounds.stepSeconds, entry.bounds.memoryBytes) >
             worst;
}

/// Returns why `entry` need not be evaluated, or "" if it must be evaluated.
std::string BranchAndBound::whyPruned(const Pending &entry, double worst,
                                      bool isFirst) const {
  double limit = problem.feasibility.limitBytes();
  // If nothing fits, the smallest candidate is evaluated nevertheless, so that
  // a strategy that the user fixed is always evaluated.
  if (entry.bounds.memoryBytes > limit)
    return isFirst ? ""
                   : "at least " + overMemory(entry.bounds.memoryBytes, limit);
  if (!isPruned(problem, entry, worst))
    return "";
  double bound =
      problem.value(entry.bounds.stepSeconds, entry.bounds.memoryBytes);
  return "at least " +
         (problem.options.objective == Objective::Memory
              ? formatBytes(bound)
              : formatSeconds(bound)) +
         ", past the kept ones";
}

/// Candidates that seem to fit come first, then candidates that do not seem to
/// fit, then candidates that cannot fit, by their bytes.
BranchAndBound::Promise BranchAndBound::promiseOf(const Pending &entry) const {
  double limit = problem.feasibility.limitBytes();
  bool isTooLarge = entry.bounds.memoryBytes > limit;
  // Before the search, nothing is known of the errors.
  double secondsFactor = 1, bytesFactor = 1, hopefulFactor = 1;
  if (entry.place != SIZE_MAX) {
    secondsFactor = corrections.hopefulSecondsFactor(entry.place);
    bytesFactor = corrections.bytesFactor(entry.place);
    hopefulFactor = corrections.hopefulBytesFactor(entry.place);
  }
  double promise = problem.value(
      std::max(entry.seconds * secondsFactor, entry.bounds.stepSeconds),
      std::max(entry.stateBytes + entry.otherBytes * hopefulFactor,
               entry.bounds.memoryBytes));
  return {isTooLarge, isTooLarge ? entry.bounds.memoryBytes : 0,
          entry.stateBytes + entry.otherBytes * bytesFactor > limit, promise};
}

/// Calls `visit` with the entries that are not done and that `accepts` accepts,
/// the most promising first, until it returns false.
void BranchAndBound::visitByPromise(
    const std::vector<Pending> &pending,
    const std::function<bool(const Pending &)> &accepts,
    const std::function<bool(size_t)> &visit) const {
  std::vector<std::pair<Promise, size_t>> order;
  for (size_t i = 0; i < pending.size(); ++i)
    if (!pending[i].isDone && accepts(pending[i]))
      order.emplace_back(promiseOf(pending[i]), i);
  std::make_heap(order.begin(), order.end(), std::greater<>());
  while (!order.empty()) {
    std::pop_heap(order.begin(), order.end(), std::greater<>());
    size_t i = order.back().second;
    order.pop_back();
    if (!visit(i))
      return;
  }
}

/// Returns at most `count` entries that are not done, the most promising first.
/// If `near` is not empty, only returns neighbours of these candidates, which
/// differ from one of them by at most `changes`.
std::vector<size_t>
BranchAndBound::mostPromising(const std::vector<Pending> &pending, size_t count,
                              const std::vector<const Candidate *> &near,
                              int changes) const {
  auto isNear = [&](const Pending &entry) {
    return near.empty() ||
           std::ranges::any_of(near, [&](const Candidate *candidate) {
             return areNeighbours(*entry.strategy, candidate->strategy,
                                  changes);
           });
  };
  std::vector<size_t> found, others;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> degrees;
  visitByPromise(pending, isNear, [&](size_t i) {
    // The best neighbour for each combination of degrees comes first.
    const Strategy &next = *pending[i].strategy;
    bool isFirstOfMove =
        near.empty() ||
        degrees.insert({next.dp, next.tp, next.pp, next.cp}).second;
    (isFirstOfMove ? found : others).push_back(i);
    return found.size() < count;
  });
  others.resize(std::min(others.size(), count - found.size()));
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

/// Evaluates the entries of `chosen` that their bounds do not exclude, and
/// returns how many. If the bounds exclude all entries, marks them as pruned
/// and returns nullopt.
std::optional<int64_t>
BranchAndBound::evaluateSome(std::vector<Pending> &pending,
                             const std::vector<size_t> &chosen, bool isFirst) {
  double worst = pool.worstShown();
  std::vector<Strategy> strategies;
  std::vector<size_t> asked;
  bool isAnyDone = false;
  for (size_t i : chosen) {
    Pending &entry = pending[i];
    if (pool.adoptEvaluated(*entry.strategy)) {
      entry.isDone = true;
    } else if (whyPruned(entry, worst, isFirst && asked.empty()).empty()) {
      entry.isDone = true;
      strategies.push_back(*entry.strategy);
      asked.push_back(i);
    }
    isAnyDone |= entry.isDone;
  }
  if (!isAnyDone) {
    for (size_t i : chosen)
      pending[i].isDone = pending[i].isPruned = true;
    return std::nullopt;
  }
  std::vector<Evaluation> answers = problem.evaluator.evaluateMany(strategies);
  for (size_t k = 0; k < asked.size(); ++k) {
    Candidate candidate =
        candidateOf(problem, strategies[k], std::move(answers[k]));
    Lesson lesson = lessonOf(pending[asked[k]], candidate.evaluation);
    if (lesson.seconds) {
      lessons.push_back(lesson);
      corrections.teach(lesson);
    }
    pool.candidates.push_back(std::move(candidate));
  }
  reportProgress(pending);
  return static_cast<int64_t>(asked.size());
}

/// Evaluates at most `most` strategies that differ in one change from the best
/// candidate with stages or without, and returns how many. The errors of their
/// estimates may be larger than those of similar strategies say.
int64_t BranchAndBound::evaluateChanges(std::vector<Pending> &pending,
                                        int64_t most) {
  int64_t evaluations = 0;
  while (evaluations < most && std::isfinite(pool.best())) {
    std::vector<const Candidate *> near;
    for (bool hasStages : {false, true})
      if (const Candidate *best = pool.bestToExtend(hasStages))
        near.push_back(best);
    std::vector<size_t> next = mostPromising(
        pending, std::min(problem.evaluator.batchSize(), most - evaluations),
        near, 1);
    std::erase_if(next, [&](size_t i) {
      auto [isTooLarge, excess, seemsTooLarge, value] = promiseOf(pending[i]);
      return isTooLarge || value > kWorstChange * pool.best();
    });
    if (next.empty())
      break;
    evaluations += evaluateSome(pending, next, false).value_or(0);
  }
  return evaluations;
}

/// Evaluates at most `most` strategies, each with a value of a key that no
/// evaluated strategy has, and returns how many.
int64_t BranchAndBound::evaluateValues(std::vector<Pending> &pending,
                                       int64_t most) {
  int64_t evaluations = 0;
  while (evaluations < most) {
    TriedValues tried(TriedValues::Keys::All);
    for (const Pending &entry : pending)
      if (entry.isDone && !entry.isPruned)
        tried.add(*entry.strategy);
    const size_t count =
        std::min(problem.evaluator.batchSize(), most - evaluations);
    // A value may be better than the errors of other values say.
    const double limit = kWorstValue * pool.leastValue();
    auto isNear = [&](const Pending &entry) {
      auto [isTooLarge, excess, seemsTooLarge, value] = promiseOf(entry);
      double estimate =
          problem.value(entry.seconds, entry.stateBytes + entry.otherBytes);
      return !isTooLarge && !seemsTooLarge && std::min(value, estimate) < limit;
    };
    std::vector<size_t> next;
    visitByPromise(pending, isNear, [&](size_t i) {
      if (tried.add(*pending[i].strategy))
        next.push_back(i);
      return next.size() < count;
    });
    if (next.empty())
      break;
    evaluations += evaluateSome(pending, next, false).value_or(0);
  }
  return evaluations;
}

/// If only some can be evaluated, stops when no other one seems to be about as
/// good as the best one.
void BranchAndBound::evaluateEach(std::vector<Pending> pending) {
  outgrown.clear();
  estimateAll(pending);
  corrections = Corrections(kErrorsOfFormulas);
  for (Pending &entry : pending)
    entry.place = corrections.addPlace(strategyFeatures(*entry.strategy));
  for (const Lesson &lesson : lessons)
    corrections.teach(lesson);
  const SearchOptions &options = problem.options;
  int64_t evaluations = 0, rounds = 0, most = options.maxEvaluations;
  bool isLimited = most < static_cast<int64_t>(pending.size());
  bool triesValues = false;
  constexpr double kError = 1.25; // Of the corrected estimates.
  const int64_t promising = isLimited ? most - most / kOfChanges : most;
  while (evaluations < promising) {
    int64_t count =
        std::min(problem.evaluator.batchSize(), promising - evaluations);
    if (evaluations == 0 && std::isfinite(options.goesOnUpTo))
      count = 1;
    std::vector<size_t> next = mostPromising(pending, count);
    if (next.empty())
      break;
    Promise limit{false, 0, false, kError * pool.leastValue()};
    if (isLimited && std::isfinite(pool.best()) &&
        promiseOf(pending[next.front()]) > limit)
      break;
    const Candidate *extended =
        isLimited && rounds++ % 3 == 2 ? pool.bestToExtend() : nullptr;
    if (extended)
      if (std::vector<size_t> near =
              mostPromising(pending, count, {extended}, 2);
          !near.empty())
        next = std::move(near);
    evaluations += evaluateSome(pending, next, evaluations == 0).value_or(0);
    if (!std::isfinite(pool.best()))
      continue;
    if (pool.best() > options.goesOnUpTo)
      break;
    if (isLimited && !triesValues &&
        pool.best() <= kError * pool.leastValue()) {
      triesValues = true;
      evaluations += evaluateValues(pending, (promising - evaluations) / 2);
    }
  }
  if (isLimited && pool.best() <= options.goesOnUpTo)
    evaluations += evaluateChanges(pending, most - evaluations);
  keepOutgrown(pending, nullptr);
  countSkipped(pending, evaluations);
}

/// Keeps the most promising of the skipped candidates for the report.
void BranchAndBound::countSkipped(std::vector<Pending> &pending,
                                  int64_t evaluations) {
  double worst = pool.worstShown();
  std::atomic<int64_t> proven = 0, open = 0;
  parallelFor(pending.size(), kPendingAtOnce, [&](size_t i) {
    Pending &entry = pending[i];
    if (entry.isDone && !entry.isPruned)
      return;
    entry.isDone = false;
    ++(isPruned(problem, entry, worst) ? proven : open);
  });
  counted.pruned += proven;
  counted.skipped += open;
  size_t room =
      problem.shown() - std::min(problem.shown(), pool.candidates.size());
  if (room == 0)
    return;
  estimateAll(pending);
  for (size_t i : mostPromising(pending, room)) {
    std::string why = whyPruned(pending[i], worst, false);
    Candidate candidate = estimatedCandidate(problem, *pending[i].strategy);
    candidate.fits = false;
    if (why.empty())
      candidate.skipped = "not evaluated: behind the most promising " +
                          std::to_string(evaluations);
    else
      candidate.evaluation.rejected = why;
    pool.candidates.push_back(std::move(candidate));
  }
}

void BranchAndBound::search(std::vector<Pending> pending) {
  bool hasBlocks =
      !pending.empty() &&
      !problem.evaluator.blockOf(*pending.front().strategy).empty();
  if (hasBlocks)
    searchBlocks(std::move(pending));
  else
    evaluateEach(std::move(pending));
  listed.clear();
}

/// Replaces composed evaluations by those in the pool, some of which are exact.
static void takeExact(const CandidatePool &pool,
                      std::vector<Pending> &pending) {
  for (Pending &entry : pending)
    if (entry.composed)
      if (const Candidate *known = pool.find(*entry.strategy))
        *entry.composed = known->evaluation;
}

/// Measures blocks. If no measured plan fits, evaluates strategies one by one.
void BranchAndBound::searchBlocks(std::vector<Pending> pending) {
  const SearchOptions &options = problem.options;
  int64_t asked = static_cast<int64_t>(pending.size());
  bool hasChoice = asked > 1;
  if (options.baselines && !megatron)
    addMegatronLayouts(pending);
  BlockSearch blocks(problem, pending, blockLessons, pool.leastValue(),
                     [this](Pending &entry) { estimate(entry); });
  blocks.onMeasured = [&] { reportProgress(pending); };
  constexpr int64_t kMegatronBlocks = 4;
  blocks.run(hasChoice ? options.maxEvaluations : kMegatronBlocks, hasChoice);
  keepComposed(pending);
  // Exact evaluations replace composed ones, and the search goes on around the
  // plan that is then the best.
  constexpr int kRounds = 3;
  for (int round = 0; hasChoice && round < kRounds; ++round) {
    bool fits = anyFitsConfirmed(problem, pool);
    takeExact(pool, pending);
    int64_t measured = blocks.measured();
    if (fits)
      blocks.runChanges(options.maxEvaluations);
    else if (round == 0)
      blocks.run(measured + options.maxEvaluations, true);
    if (blocks.measured() == measured)
      break;
    keepComposed(pending);
  }
  keepOutgrown(pending, &blocks);
  std::erase_if(pending, [](const Pending &entry) { return !entry.isAllowed; });
  // A strategy that cannot be composed may fit.
  if (!hasChoice || !anyFitsConfirmed(problem, pool))
    return evaluateEach(std::move(pending));
  countSkipped(pending, blocks.measured());
}

/// Sets `outgrown`. Of strategies without blocks, the estimates decide.
void BranchAndBound::keepOutgrown(const std::vector<Pending> &pending,
                                  const BlockSearch *blocks) {
  constexpr size_t kMost = 4096;
  constexpr double kBytesError = 0.9; // Estimates may be too low by this.
  double limit = problem.feasibility.limitBytes(), least = pool.best();
  std::vector<std::pair<double, const Strategy *>> found;
  for (size_t i = 0; i < pending.size(); ++i) {
    const Pending &entry = pending[i];
    if (!entry.isAllowed || !entry.isEstimated ||
        (entry.composed && !entry.composed->rejected.empty()))
      continue;
    std::pair<double, double> expected{entry.seconds,
                                       entry.stateBytes + entry.otherBytes};
    if (blocks)
      expected = blocks->expected(i);
    double bytes = std::max(expected.second, entry.bounds.memoryBytes);
    if (expected.first < least && bytes > kBytesError * limit)
      found.emplace_back(expected.first, entry.strategy);
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  found.resize(std::min(found.size(), kMost));
  outgrown.clear();
  for (const auto &[seconds, strategy] : found)
    outgrown.push_back(*strategy);
}

/// Marks the layouts in `pending` and adds those that the request excludes.
void BranchAndBound::addMegatronLayouts(std::vector<Pending> &pending) {
  parallelFor(pending.size(), kPendingAtOnce, [&](size_t i) {
    pending[i].isMegatron =
        isMegatronLike(*pending[i].strategy, problem.cluster);
  });
  std::vector<Strategy> &others =
      listed.emplace_back(megatronStrategies(problem));
  std::erase_if(others, [&](const Strategy &strategy) {
    return problem.allows(strategy);
  });
  pending.reserve(pending.size() + others.size());
  for (const Strategy &strategy : others) {
    pending.push_back(bounded(strategy));
    pending.back().isMegatron = true;
    pending.back().isAllowed = false;
  }
}

/// Keeps the best composed evaluations and the best of Megatron-LM's layouts.
void BranchAndBound::keepComposed(const std::vector<Pending> &pending) {
  std::vector<Candidate> found;
  auto isBetter = [&](const Candidate &a, const Candidate &b) {
    return isBefore(problem, a, b);
  };
  for (const Pending &entry : pending) {
    if (!entry.composed)
      continue;
    Candidate candidate =
        candidateOf(problem, *entry.strategy, *entry.composed);
    pool.addToFront(candidate);
    if (entry.isMegatron && (!megatron || isBetter(candidate, *megatron)))
      megatron = candidate;
    if (entry.isAllowed && !pool.find(*entry.strategy))
      found.push_back(std::move(candidate));
  }
  std::stable_sort(found.begin(), found.end(), isBetter);
  auto miss = std::find_if(found.begin(), found.end(),
                           [](const Candidate &c) { return !c.fits; });
  // Candidates whose exact memory may fit are sorted by their value.
  auto far = std::find_if(miss, found.end(), [&](const Candidate &candidate) {
    return kindOf(candidate) != CandidateKind::TooLarge ||
           !mayFitNearLimit(problem, candidate);
  });
  std::stable_sort(miss, far, [&](const Candidate &a, const Candidate &b) {
    return problem.valueOf(a) < problem.valueOf(b);
  });
  // Compositions of plans with stages and without have different errors, so
  // the best ones of both are kept.
  auto keep = [&](auto begin, auto end, size_t most) {
    size_t room[] = {most, most};
    for (; begin != end; ++begin)
      if (size_t &left = room[begin->strategy.pp > 1]; left > 0) {
        --left;
        pool.candidates.push_back(std::move(*begin));
      }
  };
  constexpr size_t kMisses = 16;
  bool nothingFits = miss == found.begin();
  keep(found.begin(), miss, 2 * problem.kept());
  keep(miss, found.end(), nothingFits ? problem.kept() : kMisses);
}

void BranchAndBound::reportProgress(const std::vector<Pending> &pending) const {
  if (!problem.options.progress)
    return;
  SearchProgress progress;
  progress.considered = counted.considered;
  auto consider = [&](const Evaluation &evaluation) {
    if (evaluation.rejected.empty() && problem.feasibility.fits(evaluation))
      progress.best = std::min(progress.best,
                               valueOf(problem.options.objective, evaluation));
  };
  for (const Pending &entry : pending) {
    progress.done += entry.isDone;
    if (entry.composed && entry.isAllowed)
      consider(*entry.composed);
  }
  for (const Candidate &candidate : pool.candidates)
    if (candidate.method != "formula")
      consider(candidate.evaluation);
  problem.options.progress(progress);
}

} // namespace dpc::cost
