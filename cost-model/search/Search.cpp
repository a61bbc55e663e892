//===- Search.cpp - The outer loop over strategies ------------------------===//

#include "cost-model/search/Search.h"
#include "cost-model/search/BlockSearch.h"
#include "cost-model/search/Neighbours.h"
#include "cost-model/search/StrategySearch.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace dpc::cost {

Pending StrategySearch::bounded(const Strategy &strategy) const {
  Pending entry;
  entry.bounds = evaluator.bound(strategy);
  entry.family = familyOf(strategy);
  entry.strategy = &strategy;
  return entry;
}

void StrategySearch::estimate(Pending &entry) const {
  if (entry.isEstimated)
    return;
  Evaluation estimate = byFormula(*entry.strategy).evaluation;
  entry.seconds = estimate.stepSeconds;
  entry.stateBytes = stateBytesOf(estimate.memory);
  entry.otherBytes = estimate.memory.total() - entry.stateBytes;
  entry.isEstimated = true;
}

void Corrections::learn(const Pending &entry, const Evaluation &truth) {
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  if (!truth.rejected.empty() || truth.stepSeconds <= 0 || bytes <= 0 ||
      entry.seconds <= 0 || entry.otherBytes <= 0)
    return;
  Correction &off = all[entry.family];
  off.seconds += std::log(truth.stepSeconds / entry.seconds);
  off.otherBytes += std::log(bytes / entry.otherBytes);
  ++off.count;
}

std::vector<Pending> StrategySearch::boundAll(const StrategyRequest &request) {
  const std::vector<Strategy> &all =
      listed.emplace_back(enumerateStrategies(request, options.space));
  std::vector<Pending> pending(all.size());
  parallelFor(pending.size(), kPendingAtOnce,
              [&](size_t i) { pending[i] = bounded(all[i]); });
  result.considered += static_cast<int64_t>(pending.size());
  return pending;
}

/// Evaluates what pieces say, for they may make it seem to fit.
bool StrategySearch::anyFits() {
  settle(0);
  return std::any_of(result.candidates.begin(), result.candidates.end(),
                     [](const Candidate &candidate) { return candidate.fits; });
}

/// The candidate that `entry` has become, or null.
const Candidate *StrategySearch::find(const Pending &entry) const {
  auto found = std::find_if(result.candidates.begin(), result.candidates.end(),
                            [&](const Candidate &candidate) {
                              return candidate.strategy == *entry.strategy;
                            });
  return found == result.candidates.end() ? nullptr : &*found;
}

/// Moving states takes time in every step: worth a look only where no strategy
/// fits without, the least of it first.
void StrategySearch::offload() {
  StrategyRequest request = options.request;
  if (request.offload || !options.space.offload)
    return;
  for (Offload what : {Offload::Optimizer, Offload::Parameters, Offload::All}) {
    if (anyFits())
      return;
    request.offload = what;
    // What is moved within one memory leaves no more of it.
    if (cluster.host.holdsDevices && !request.offloadTo)
      request.offloadTo = OffloadTarget::Disk;
    searchAll(request);
  }
}

/// In the device's memory and, with all ranks of its node, in the host's.
bool StrategySearch::fits(const Evaluation &evaluation) const {
  if (cluster.host.holdsDevices)
    return evaluation.memory.total() + evaluation.hostBytes <=
           limitOf(evaluation);
  double host =
      evaluation.hostBytes * static_cast<double>(cluster.devicesPerNode());
  bool hostFits =
      cluster.host.memoryBytes == 0 || host <= cluster.host.memoryBytes;
  return evaluation.memory.total() <= limitOf(evaluation) && hostFits;
}

/// Those that cannot fit come last, the least over the limit first; then those
/// that do not seem to fit.
StrategySearch::Promise StrategySearch::promiseOf(const Pending &entry) const {
  bool isTooLarge = entry.bounds.memoryBytes > result.memoryLimitBytes;
  const Correction &off = corrections[entry.family];
  double bytes = entry.stateBytes + entry.otherBytes * off.bytesFactor();
  double promise = value(
      std::max(entry.seconds * off.secondsFactor(), entry.bounds.stepSeconds),
      bytes);
  return {isTooLarge, isTooLarge ? entry.bounds.memoryBytes : 0,
          bytes > result.memoryLimitBytes, promise};
}

/// The one whose neighbours are worth a look; of what is too large the less the
/// more it is.
const Candidate *StrategySearch::bestSoFar() const {
  constexpr double kExponent = 4; // 5 % over the limit: as if 22 % slower
  const Candidate *best = nullptr;
  double least = 0;
  auto look = [&](const Candidate &candidate) {
    const Evaluation &evaluation = candidate.evaluation;
    if (candidate.method == "formula" || !evaluation.rejected.empty() ||
        !options.request.allows(candidate.strategy, options.space.globalBatch))
      return;
    double excess = evaluation.memory.total() / limitOf(evaluation);
    double value =
        valueOf(candidate) * std::pow(std::max(1.0, excess), kExponent);
    if (!best || value < least) {
      best = &candidate;
      least = value;
    }
  };
  for (const Candidate &candidate : result.candidates)
    look(candidate);
  for (const Baseline &baseline : result.baselines)
    look(baseline.candidate);
  return best;
}

/// The most promising ones that are open, at most `count`; near the best
/// candidate so far if there are such and `isNear`.
std::vector<size_t>
StrategySearch::mostPromising(const std::vector<Pending> &pending, size_t count,
                              bool isNear) const {
  const Candidate *best = isNear ? bestSoFar() : nullptr;
  std::vector<std::pair<Promise, size_t>> order;
  for (size_t i = 0; i < pending.size(); ++i)
    if (!pending[i].isDone &&
        (!best || areNeighbours(*pending[i].strategy, best->strategy)))
      order.emplace_back(promiseOf(pending[i]), i);
  if (order.empty() && best)
    return mostPromising(pending, count, false);
  std::vector<size_t> found, others;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> degrees;
  std::make_heap(order.begin(), order.end(), std::greater<>());
  while (!order.empty() && found.size() < count) {
    std::pop_heap(order.begin(), order.end(), std::greater<>());
    size_t i = order.back().second;
    order.pop_back();
    // Of neighbours every move of a degree is tried in turn.
    const Strategy &next = *pending[i].strategy;
    bool isTurn =
        !best || degrees.insert({next.dp, next.tp, next.pp, next.cp}).second;
    (isTurn ? found : others).push_back(i);
  }
  others.resize(std::min(others.size(), count - found.size()));
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

void StrategySearch::take(Candidate &candidate, Evaluation evaluation) const {
  candidate.evaluation = std::move(evaluation);
  candidate.fits =
      candidate.evaluation.rejected.empty() && fits(candidate.evaluation);
  candidate.method = candidate.evaluation.isComposed ? "pieces"
                     : candidate.evaluation.isFolded ? "folded"
                                                     : "graph";
}

Candidate StrategySearch::evaluate(const Strategy &strategy) {
  Candidate candidate;
  candidate.strategy = strategy;
  take(candidate, evaluator.evaluate(strategy));
  return candidate;
}

double StrategySearch::worstKept() const {
  std::vector<double> values;
  for (const Candidate &candidate : result.candidates)
    if (candidate.fits)
      values.push_back(valueOf(candidate));
  size_t top = static_cast<size_t>(std::max<int64_t>(options.top, 1));
  if (values.size() < top)
    return std::numeric_limits<double>::infinity();
  std::nth_element(values.begin(), values.begin() + (top - 1), values.end());
  return values[top - 1];
}

/// The value of the best that fits; infinite where nothing does yet.
double StrategySearch::leastKept() const {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : result.candidates)
    if (candidate.fits)
      least = std::min(least, valueOf(candidate));
  return least;
}

/// What a baseline has shown already; a candidate then.
bool StrategySearch::isKnown(const Strategy &strategy) {
  auto isSame = [&](const Candidate &candidate) {
    return candidate.strategy == strategy && candidate.method != "formula";
  };
  if (std::any_of(result.candidates.begin(), result.candidates.end(), isSame))
    return true;
  for (const Baseline &baseline : result.baselines)
    if (isSame(baseline.candidate)) {
      result.candidates.push_back(baseline.candidate);
      return true;
    }
  return false;
}

/// Where not all can be evaluated, it ends when some rounds have found nothing
/// better.
void StrategySearch::evaluateAll(std::vector<Pending> pending) {
  parallelFor(pending.size(), kPendingAtOnce,
              [&](size_t i) { estimate(pending[i]); });
  int64_t evaluations = 0, rounds = 0, most = options.maxEvaluations;
  bool isLimited = most < static_cast<int64_t>(pending.size());
  double worst = worstKept();
  constexpr int64_t kPatience = 5; // Rounds: of both kinds, and some more.
  constexpr double kBetter = 1e-3;
  double least = std::numeric_limits<double>::infinity();
  int64_t idle = 0;
  while (evaluations < most && !(isLimited && idle >= kPatience)) {
    int64_t count = std::min(evaluator.batchSize(), most - evaluations);
    if (evaluations == 0 && std::isfinite(options.goesOnUpTo))
      count = 1; // It tells whether there are others.
    std::vector<size_t> next =
        mostPromising(pending, count, isLimited && rounds++ % 3 != 1);
    if (next.empty())
      break;
    std::vector<Strategy> strategies;
    std::vector<size_t> asked;
    for (size_t i : next) {
      Pending &entry = pending[i];
      if (isKnown(*entry.strategy)) {
        entry.isDone = true;
      } else if (whyPruned(entry, worst, evaluations == 0).empty()) {
        entry.isDone = true;
        strategies.push_back(*entry.strategy);
        asked.push_back(i);
        ++evaluations;
      }
    }
    // The rest promises less, and what can be proven stays proven.
    if (asked.empty() && !std::any_of(next.begin(), next.end(), [&](size_t i) {
          return pending[i].isDone;
        })) {
      for (size_t i : next)
        pending[i].isDone = pending[i].isPruned = true;
      continue;
    }
    std::vector<Evaluation> answers = evaluator.evaluateMany(strategies);
    for (size_t k = 0; k < asked.size(); ++k) {
      Candidate candidate;
      candidate.strategy = strategies[k];
      take(candidate, std::move(answers[k]));
      corrections.learn(pending[asked[k]], candidate.evaluation);
      result.candidates.push_back(std::move(candidate));
    }
    worst = worstKept();
    tell(pending);
    double best = leastKept();
    idle = best < (1 - kBetter) * least ? 0 : idle + std::isfinite(best);
    least = std::min(least, best);
    if (std::isfinite(least) && least > options.goesOnUpTo)
      break;
  }
  addSkipped(pending, evaluations);
}

/// Counts what was not evaluated, and shows the most promising of it.
void StrategySearch::addSkipped(std::vector<Pending> &pending,
                                int64_t evaluations) {
  double worst = worstKept();
  std::atomic<int64_t> proven = 0, open = 0;
  parallelFor(pending.size(), kPendingAtOnce, [&](size_t i) {
    Pending &entry = pending[i];
    if (entry.isDone && !entry.isPruned)
      return;
    entry.isDone = false;
    ++(isPruned(entry, worst) ? proven : open);
  });
  result.pruned += proven;
  result.skipped += open;
  size_t top = static_cast<size_t>(std::max<int64_t>(options.top, 1));
  size_t room = top - std::min(top, result.candidates.size());
  if (room == 0)
    return;
  parallelFor(pending.size(), kPendingAtOnce,
              [&](size_t i) { estimate(pending[i]); });
  for (size_t i : mostPromising(pending, room, false)) {
    std::string why = whyPruned(pending[i], worst, false);
    Candidate candidate = byFormula(*pending[i].strategy);
    candidate.fits = false;
    if (why.empty())
      candidate.skipped = "not evaluated: behind the most promising " +
                          std::to_string(evaluations);
    else
      candidate.evaluation.rejected = why;
    result.candidates.push_back(std::move(candidate));
  }
}

void StrategySearch::sortAll() {
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [&](const Candidate &a, const Candidate &b) {
                     if (kindOf(a) != kindOf(b))
                       return kindOf(a) < kindOf(b);
                     // Of those too large the nearest miss comes first.
                     if (kindOf(a) == 1)
                       return a.evaluation.memory.total() <
                              b.evaluation.memory.total();
                     return kindOf(a) == 0 && valueOf(a) < valueOf(b);
                   });
}

Candidate StrategySearch::byFormula(const Strategy &strategy) const {
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.evaluation = estimateByFormula(cluster, result.totals, strategy);
  candidate.fits = fits(candidate.evaluation);
  candidate.method = "formula";
  return candidate;
}

void StrategySearch::searchAll(const StrategyRequest &request) {
  searchPending(boundAll(request));
  listed.clear();
}

/// Where strategies share pieces, as many are known as have measured ones; else
/// each is evaluated by itself.
void StrategySearch::searchPending(std::vector<Pending> pending) {
  bool hasPieces =
      !pending.empty() && !evaluator.blockOf(*pending.front().strategy).empty();
  if (!hasPieces)
    return evaluateAll(std::move(pending));
  int64_t asked = static_cast<int64_t>(pending.size());
  if (options.baselines)
    addPlain(pending);
  BlockSearch search(
      evaluator, pending, [this](Pending &entry) { estimate(entry); },
      options.objective, result.memoryLimitBytes, kept());
  search.onMeasured = [&] { tell(pending); };
  constexpr int64_t kPlain = 4;
  search.run(asked > 1 ? options.maxEvaluations : kPlain, asked > 1);
  keepComposed(pending);
  if (asked > 1 && !anyFits()) {
    // Pieces may have said so of some: once more, with what is known of these.
    for (Pending &entry : pending)
      if (const Candidate *known = entry.composed ? find(entry) : nullptr)
        *entry.composed = known->evaluation;
    search.run(search.measured() + options.maxEvaluations, true);
    keepComposed(pending);
  }
  std::erase_if(pending, [](const Pending &entry) { return !entry.isAllowed; });
  // Not all strategies are made of pieces, and what is must not hide the
  // others.
  if (asked == 1 || !anyFits())
    return evaluateAll(std::move(pending));
  addSkipped(pending, search.measured());
}

/// The best of what pieces have told: candidates, and Megatron's best layout.
void StrategySearch::keepComposed(const std::vector<Pending> &pending) {
  std::vector<Candidate> found;
  auto isBetter = [&](const Candidate &a, const Candidate &b) {
    if (kindOf(a) != kindOf(b))
      return kindOf(a) < kindOf(b);
    return kindOf(a) == 1
               ? a.evaluation.memory.total() < b.evaluation.memory.total()
               : kindOf(a) == 0 && valueOf(a) < valueOf(b);
  };
  for (const Pending &entry : pending) {
    if (!entry.composed)
      continue;
    Candidate candidate;
    candidate.strategy = *entry.strategy;
    take(candidate, *entry.composed);
    addPoint(candidate);
    if (entry.isPlain && (!megatron || isBetter(candidate, *megatron)))
      megatron = candidate;
    if (entry.isAllowed && !find(entry))
      found.push_back(std::move(candidate));
  }
  std::stable_sort(found.begin(), found.end(), isBetter);
  auto miss = std::find_if(found.begin(), found.end(),
                           [](const Candidate &c) { return !c.fits; });
  // Of those that may fit nevertheless the fastest.
  auto far = std::find_if(miss, found.end(), [&](const Candidate &candidate) {
    return kindOf(candidate) != 1 || !isNearLimit(candidate);
  });
  std::stable_sort(miss, far, [&](const Candidate &a, const Candidate &b) {
    return valueOf(a) < valueOf(b);
  });
  auto keep = [&](auto begin, auto end, size_t most) {
    for (; begin != end && most > 0; ++begin, --most)
      result.candidates.push_back(std::move(*begin));
  };
  size_t top = kept();
  constexpr size_t kMisses = 4;
  bool nothingFits = miss == found.begin();
  keep(found.begin(), miss, 2 * top);
  keep(miss, found.end(), nothingFits ? top : kMisses);
}

/// Baselines are not always what the request allows.
void StrategySearch::addPoint(const Candidate &candidate) {
  if (!candidate.fits || candidate.method == "formula" ||
      !options.request.allows(candidate.strategy, options.space.globalBatch))
    return;
  const Evaluation &evaluation = candidate.evaluation;
  ParetoPoint point{candidate.strategy, evaluation.stepSeconds,
                    evaluation.memory.total(), candidate.method};
  if (evaluation.isComposed)
    result.pareto.add(point);
  else
    result.pareto.replace(point);
}

/// Evaluations are known late, some by the baselines only.
void StrategySearch::finishFront() {
  for (const Candidate &candidate : result.candidates)
    addPoint(candidate);
  for (const Baseline &baseline : result.baselines)
    addPoint(baseline.candidate);
}

void StrategySearch::tell(const std::vector<Pending> &pending) const {
  if (!options.progress)
    return;
  SearchProgress progress;
  progress.considered = result.considered;
  auto look = [&](const Evaluation &evaluation) {
    if (evaluation.rejected.empty() && fits(evaluation))
      progress.best = std::min(progress.best, value(evaluation.stepSeconds,
                                                    evaluation.memory.total()));
  };
  for (const Pending &entry : pending) {
    progress.done += entry.isDone;
    if (entry.composed && entry.isAllowed)
      look(*entry.composed);
  }
  for (const Candidate &candidate : result.candidates)
    if (candidate.method != "formula")
      look(candidate.evaluation);
  options.progress(progress);
}

SearchResult StrategySearch::run() {
  auto start = std::chrono::steady_clock::now();
  result.totals = evaluator.totals();
  result.memoryLimitBytes = cluster.mostUsableBytes();
  std::vector<Pending> pending;
  parallelFor(3, 1, [&](size_t i) {
    if (i == 0 && options.baselines)
      addDataParallel();
    else if (i == 1)
      pending = boundAll(options.request);
    else if (i == 2 && options.confirmsWinner)
      evaluator.prepareToDescribe();
  });
  searchPending(std::move(pending));
  listed.clear();
  offload();
  if (options.baselines) {
    addMegatron();
    keepBaselines();
  }
  constexpr size_t kMost = 12;
  settle(kMost);
  for (Baseline &baseline : result.baselines)
    for (const Candidate &candidate : result.candidates)
      if (candidate.strategy == baseline.candidate.strategy &&
          baseline.candidate.method != "formula")
        baseline.candidate = candidate;
  if (options.baselines)
    findChanges();
  confirmWinner();
  finishFront();
  if (options.baselines)
    addSingle();
  explainAll();
  findBinding();
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return std::move(result);
}

SearchResult searchStrategies(const Cluster &cluster, Evaluator &evaluator,
                              const SearchOptions &options) {
  assert(options.space.ranks == cluster.numDevices() &&
         "strategies are for all devices of the cluster");
  return StrategySearch(cluster, evaluator, options).run();
}

} // namespace dpc::cost
