//===- Search.cpp - The outer loop over strategies ------------------------===//

#include "cost-model/Search.h"
#include "cost-model/ComputeCost.h"
#include "cost-model/Neighbours.h"
#include "cost-model/Report.h"
#include "cost-model/SearchParts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace dpc::cost {

Evaluator::~Evaluator() = default;

namespace {

class StrategySearch {
public:
  StrategySearch(const Cluster &cluster, Evaluator &evaluator,
                 const SearchOptions &options)
      : cluster(cluster), evaluator(evaluator), options(options) {}

  SearchResult run();

private:
  Pending promising(const Strategy &strategy);
  std::vector<Pending> boundAll(const StrategyRequest &request);
  bool fits(const Evaluation &evaluation) const;
  void offload();
  const Candidate *bestSoFar() const;
  using Promise = std::tuple<bool, double, bool, double>;
  Promise promiseOf(const Pending &entry) const;
  std::vector<size_t> mostPromising(const std::vector<Pending> &pending,
                                    size_t count, bool isNear) const;
  bool isKnown(const Strategy &strategy);
  void addSkipped(std::vector<Pending> &pending, int64_t evaluations);
  void evaluateAll(std::vector<Pending> pending);
  std::string whyPruned(const Pending &entry, double worst, bool isFirst) const;
  void learn(const Pending &entry, const Evaluation &truth);
  Candidate evaluate(const Strategy &strategy);
  void take(Candidate &candidate, Evaluation evaluation) const;
  double value(double seconds, double bytes) const {
    return options.objective == Objective::Memory ? bytes : seconds;
  }
  double valueOf(const Candidate &candidate) const {
    return value(candidate.evaluation.stepSeconds,
                 candidate.evaluation.memory.total());
  }
  /// The value a candidate must beat to be kept: of the `top` best that fit.
  double worstKept() const;
  void sortAll();
  void confirmWinner();
  void explainAll();
  std::string explain(const Candidate &candidate) const;
  void addBaselines();
  void explainBaseline(Candidate &candidate) const;
  Candidate bestFormula(const std::vector<Strategy> &strategies) const;
  Candidate byFormula(const Strategy &strategy) const;
  bool canExecute(const Strategy &strategy) const;
  Candidate byGraph(Candidate estimate);
  std::string overMemory(double bytes) const;
  std::string bindingConstraint() const;

  const Cluster &cluster;
  Evaluator &evaluator;
  const SearchOptions &options;
  SearchResult result;
  std::vector<Correction> corrections = std::vector<Correction>(numFamilies);
};

} // namespace

/// Bytes of parameters, gradients and optimizer states.
static double stateBytesOf(const MemoryBreakdown &memory) {
  return memory[MemoryCategory::Parameters] +
         memory[MemoryCategory::Gradients] + memory[MemoryCategory::Optimizer];
}

/// Rank by kind: fits, too large, cannot be built, not evaluated.
static int kindOf(const Candidate &candidate) {
  if (!candidate.skipped.empty())
    return 3;
  if (!candidate.evaluation.rejected.empty())
    return 2;
  return candidate.fits ? 0 : 1;
}

std::string StrategySearch::overMemory(double bytes) const {
  return "memory " + formatBytes(bytes) + " > " +
         formatBytes(result.memoryLimitBytes);
}

Pending StrategySearch::promising(const Strategy &strategy) {
  Evaluation estimate = byFormula(strategy).evaluation;
  double states = stateBytesOf(estimate.memory);
  return {strategy, evaluator.bound(strategy),        estimate.stepSeconds,
          states,   estimate.memory.total() - states, familyOf(strategy)};
}

std::vector<Pending> StrategySearch::boundAll(const StrategyRequest &request) {
  std::vector<Pending> pending;
  for (const Strategy &strategy : enumerateStrategies(request, options.space))
    pending.push_back(promising(strategy));
  result.considered += static_cast<int64_t>(pending.size());
  return pending;
}

/// Moving states takes time in every step: worth a look only where no strategy
/// fits without, the least of it first.
void StrategySearch::offload() {
  StrategyRequest request = options.request;
  if (request.offload || !options.space.offload)
    return;
  for (const char *what : {"optimizer", "parameters", "all"}) {
    if (std::any_of(result.candidates.begin(), result.candidates.end(),
                    [](const Candidate &candidate) { return candidate.fits; }))
      return;
    request.offload = what;
    evaluateAll(boundAll(request));
  }
}

/// In the device's memory and, with all ranks of its node, in the host's.
bool StrategySearch::fits(const Evaluation &evaluation) const {
  double host =
      evaluation.hostBytes * static_cast<double>(cluster.devicesPerNode());
  bool hostFits =
      cluster.host.memoryBytes == 0 || host <= cluster.host.memoryBytes;
  return evaluation.memory.total() <= result.memoryLimitBytes && hostFits;
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
        !options.request.allows(candidate.strategy))
      return;
    double excess = evaluation.memory.total() / result.memoryLimitBytes;
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
        (!best || areNeighbours(pending[i].strategy, best->strategy)))
      order.emplace_back(promiseOf(pending[i]), i);
  if (order.empty() && best)
    return mostPromising(pending, count, false);
  std::vector<size_t> found;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> degrees;
  std::make_heap(order.begin(), order.end(), std::greater<>());
  while (!order.empty() && found.size() < count) {
    std::pop_heap(order.begin(), order.end(), std::greater<>());
    size_t i = order.back().second;
    order.pop_back();
    // Of neighbours every move of a degree is tried in turn.
    const Strategy &next = pending[i].strategy;
    if (!best || degrees.insert({next.dp, next.tp, next.pp, next.cp}).second)
      found.push_back(i);
  }
  return found;
}

/// Compares a formula with the truth.
void StrategySearch::learn(const Pending &entry, const Evaluation &truth) {
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  if (!truth.rejected.empty() || truth.stepSeconds <= 0 || bytes <= 0 ||
      entry.seconds <= 0 || entry.otherBytes <= 0)
    return;
  Correction &off = corrections[entry.family];
  off.seconds += std::log(truth.stepSeconds / entry.seconds);
  off.otherBytes += std::log(bytes / entry.otherBytes);
  ++off.count;
}

void StrategySearch::take(Candidate &candidate, Evaluation evaluation) const {
  candidate.evaluation = std::move(evaluation);
  candidate.fits =
      candidate.evaluation.rejected.empty() && fits(candidate.evaluation);
  candidate.method = candidate.evaluation.isFolded ? "folded" : "graph";
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

/// Why an entry need not be evaluated; empty when it must be.
std::string StrategySearch::whyPruned(const Pending &entry, double worst,
                                      bool isFirst) const {
  bool isTooLarge = entry.bounds.memoryBytes > result.memoryLimitBytes;
  // When nothing fits, the nearest miss is still worth an exact number; a
  // strategy that the user fixed is evaluated as it is.
  if (isTooLarge)
    return isFirst ? "" : "at least " + overMemory(entry.bounds.memoryBytes);
  double bound = value(entry.bounds.stepSeconds, entry.bounds.memoryBytes);
  if (bound <= worst)
    return "";
  return "at least " +
         (options.objective == Objective::Memory ? formatBytes(bound)
                                                 : formatSeconds(bound)) +
         ", past the kept ones";
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

void StrategySearch::evaluateAll(std::vector<Pending> pending) {
  int64_t evaluations = 0, rounds = 0, most = options.maxEvaluations;
  bool isLimited = most < static_cast<int64_t>(pending.size());
  double worst = worstKept();
  while (evaluations < most) {
    int64_t count = std::min(evaluator.batchSize(), most - evaluations);
    std::vector<size_t> next =
        mostPromising(pending, count, isLimited && rounds++ % 3 != 1);
    if (next.empty())
      break;
    std::vector<Strategy> strategies;
    std::vector<size_t> asked;
    for (size_t i : next) {
      Pending &entry = pending[i];
      if (isKnown(entry.strategy)) {
        entry.isDone = true;
      } else if (whyPruned(entry, worst, evaluations == 0).empty()) {
        entry.isDone = true;
        strategies.push_back(entry.strategy);
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
      learn(pending[asked[k]], candidate.evaluation);
      result.candidates.push_back(std::move(candidate));
    }
    worst = worstKept();
  }
  addSkipped(pending, evaluations);
}

/// Counts what was not evaluated, and shows the most promising of it.
void StrategySearch::addSkipped(std::vector<Pending> &pending,
                                int64_t evaluations) {
  double worst = worstKept();
  for (Pending &entry : pending) {
    if (entry.isDone && !entry.isPruned)
      continue;
    entry.isDone = false;
    bool isProven = !whyPruned(entry, worst, false).empty();
    ++(isProven ? result.pruned : result.skipped);
  }
  size_t top = static_cast<size_t>(std::max<int64_t>(options.top, 1));
  size_t room = top - std::min(top, result.candidates.size());
  for (size_t i : mostPromising(pending, room, false)) {
    std::string why = whyPruned(pending[i], worst, false);
    Candidate candidate = byFormula(pending[i].strategy);
    candidate.fits = false;
    if (why.empty())
      candidate.skipped = "not evaluated: behind the most promising " +
                          std::to_string(evaluations);
    else
      candidate.evaluation.rejected = why;
    result.candidates.push_back(std::move(candidate));
  }
}

std::string StrategySearch::explain(const Candidate &candidate) const {
  const Evaluation &evaluation = candidate.evaluation;
  if (!candidate.skipped.empty())
    return candidate.skipped;
  if (!evaluation.rejected.empty())
    return evaluation.rejected;
  if (!candidate.fits && evaluation.memory.total() <= result.memoryLimitBytes)
    return "offloaded " + formatBytes(evaluation.hostBytes) + " a rank, " +
           std::to_string(cluster.devicesPerNode()) + " ranks a node > " +
           formatBytes(cluster.host.memoryBytes) + " of host memory";
  if (!candidate.fits)
    return overMemory(evaluation.memory.total());
  const Evaluation &winner = result.candidates.front().evaluation;
  if (options.objective == Objective::Memory) {
    double more = evaluation.memory.total() - winner.memory.total();
    if (more > 0)
      return formatBytes(more) + " more memory";
  }
  double slower = evaluation.stepSeconds - winner.stepSeconds;
  constexpr double kEqual = 1e-3; // Of a step: less is rounding.
  if (slower < -kEqual * winner.stepSeconds)
    return formatSeconds(-slower) + " faster, but not what --strategy allows";
  if (slower <= 0)
    return "equal; the first of equals is taken";
  double compute = evaluation.computeSeconds - winner.computeSeconds;
  double exposed = evaluation.exposedCommunicationSeconds -
                   winner.exposedCommunicationSeconds;
  std::string text = formatSeconds(slower) + " slower";
  if (exposed > compute && exposed > 0)
    return text + ": " + formatSeconds(exposed) + " more communication";
  if (compute > 0)
    return text + ": " + formatSeconds(compute) + " more compute";
  return text;
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

/// Evaluates the first one whole, until it is and still the first.
void StrategySearch::confirmWinner() {
  while (result.hasWinner()) {
    Candidate &winner = result.candidates.front();
    const Evaluation &evaluation = winner.evaluation;
    if (!evaluation.isFolded || !(evaluation.isRough || options.confirmsWinner))
      return;
    take(winner, evaluator.evaluateWhole(winner.strategy));
    for (Baseline &baseline : result.baselines)
      if (baseline.candidate.strategy == winner.strategy &&
          baseline.candidate.method == "folded")
        baseline.candidate = winner;
    sortAll();
  }
}

void StrategySearch::explainAll() {
  size_t top = static_cast<size_t>(std::max<int64_t>(options.top, 1));
  if (result.candidates.size() > top)
    result.candidates.resize(top);
  for (size_t i = 0; i < result.candidates.size(); ++i)
    if (i > 0 || !result.candidates[i].fits)
      result.candidates[i].why = explain(result.candidates[i]);
  for (Baseline &baseline : result.baselines)
    explainBaseline(baseline.candidate);
}

Candidate StrategySearch::byFormula(const Strategy &strategy) const {
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.evaluation = estimateByFormula(cluster, result.totals, strategy);
  candidate.fits = fits(candidate.evaluation);
  candidate.method = "formula";
  return candidate;
}

/// The best that fits; else the one with the least memory.
Candidate
StrategySearch::bestFormula(const std::vector<Strategy> &strategies) const {
  assert(!strategies.empty() && "a baseline has a strategy");
  std::optional<Candidate> best;
  for (const Strategy &strategy : strategies) {
    Candidate candidate = byFormula(strategy);
    bool isBetter = !best || (candidate.fits && !best->fits) ||
                    (candidate.fits == best->fits &&
                     (best->fits ? valueOf(candidate) < valueOf(*best)
                                 : candidate.evaluation.memory.total() <
                                       best->evaluation.memory.total()));
    if (isBetter)
      best = std::move(candidate);
  }
  return *best;
}

/// Whether the search itself could try it: the keys are available.
bool StrategySearch::canExecute(const Strategy &strategy) const {
  const StrategySpace &space = options.space;
  return (strategy.pp == 1 || strategy.pp <= space.maxPp) &&
         std::find(space.recomputes.begin(), space.recomputes.end(),
                   strategy.recompute) != space.recomputes.end();
}

/// Asks the graph about a strategy that was found by formula, but only once,
/// and not where the answer is known.
Candidate StrategySearch::byGraph(Candidate estimate) {
  if (!canExecute(estimate.strategy))
    return estimate;
  auto same = std::find_if(result.candidates.begin(), result.candidates.end(),
                           [&](const Candidate &kept) {
                             return kept.strategy == estimate.strategy &&
                                    kept.method != "formula";
                           });
  return same != result.candidates.end() ? *same : evaluate(estimate.strategy);
}

void StrategySearch::addBaselines() {
  auto mayFit = [&](const Candidate &candidate) {
    return candidate.fits && evaluator.bound(candidate.strategy).memoryBytes <=
                                 result.memoryLimitBytes;
  };
  for (int64_t zero = 0; zero <= 3; ++zero) {
    Candidate candidate = bestFormula(dataParallelStrategies(options, zero));
    if (zero == 0 || mayFit(candidate))
      candidate = byGraph(std::move(candidate));
    result.baselines.push_back(
        {zero == 0 ? "ddp" : "zero" + std::to_string(zero), candidate});
  }
  std::vector<Strategy> megatron =
      megatronStrategies(cluster, result.totals, options);
  if (!megatron.empty()) {
    Candidate candidate = bestFormula(megatron);
    if (mayFit(candidate))
      candidate = byGraph(std::move(candidate));
    result.baselines.push_back({"megatron-3d", candidate});
  } else {
    Baseline baseline{"megatron-3d", {}};
    baseline.candidate.method = "formula";
    baseline.candidate.evaluation.rejected =
        "no tp x pp x dp with tp inside a node, pp dividing " +
        std::to_string(result.totals.layers) + " layers and dp at most " +
        std::to_string(result.totals.globalBatch) + " samples gives " +
        std::to_string(options.space.ranks) + " ranks";
    result.baselines.push_back(baseline);
  }
  for (const Baseline &baseline : result.baselines) {
    // What everybody knows is not to beat what was searched for.
    const Candidate &candidate = baseline.candidate;
    bool isKept =
        std::any_of(result.candidates.begin(), result.candidates.end(),
                    [&](const Candidate &kept) {
                      return kept.strategy == candidate.strategy;
                    });
    if (!isKept && candidate.method != "formula" && candidate.fits &&
        options.request.allows(candidate.strategy))
      result.candidates.push_back(candidate);
  }
}

void StrategySearch::explainBaseline(Candidate &candidate) const {
  bool isWinner = result.hasWinner() && candidate.method != "formula" &&
                  candidate.strategy == result.candidates[0].strategy;
  candidate.why.clear();
  if (isWinner)
    return;
  if (candidate.fits && candidate.method == "formula")
    candidate.why = "estimate by formula";
  else if (!candidate.fits || result.hasWinner())
    candidate.why = explain(candidate);
}

std::string StrategySearch::bindingConstraint() const {
  if (!result.hasWinner())
    return "memory";
  const Evaluation &winner = result.candidates.front().evaluation;
  // A faster candidate that does not fit: memory decides.
  auto isFasterButTooLarge = [&](const Candidate &candidate) {
    return kindOf(candidate) == 1 && candidate.method != "formula" &&
           candidate.evaluation.stepSeconds < winner.stepSeconds;
  };
  for (const Candidate &candidate : result.candidates)
    if (isFasterButTooLarge(candidate))
      return "memory";
  for (const Baseline &baseline : result.baselines)
    if (isFasterButTooLarge(baseline.candidate))
      return "memory";
  if (winner.exposedCommunicationSeconds <= winner.stepSeconds / 2) {
    const Device &device = cluster.slowestDevice(result.totals.computeType);
    DType type = computeType(device, result.totals.computeType);
    double ideal = winner.flops / double(options.space.ranks) /
                   std::max(device.peak(type), 1.0);
    return ideal < 0.02 * winner.computeSeconds ? "launch overhead" : "compute";
  }
  size_t slowest = 0;
  double most = -1;
  for (size_t i = 0; i < winner.bytesPerLevel.size(); ++i) {
    double seconds = winner.bytesPerLevel[i] / cluster.levels[i].bytesPerSecond;
    if (seconds > most) {
      most = seconds;
      slowest = i;
    }
  }
  if (winner.transferSeconds > most)
    return winner.diskBytes > 0 ? "transfers to disk"
                                : "transfers to host memory";
  return "communication over " + cluster.levels[slowest].name;
}

SearchResult StrategySearch::run() {
  auto start = std::chrono::steady_clock::now();
  result.totals = evaluator.totals();
  result.memoryLimitBytes = cluster.usableBytes();
  addBaselines();
  for (const Baseline &baseline : result.baselines)
    if (baseline.candidate.method != "formula")
      learn(promising(baseline.candidate.strategy),
            baseline.candidate.evaluation);
  evaluateAll(boundAll(options.request));
  offload();
  sortAll();
  confirmWinner();
  explainAll();
  result.bindingConstraint = bindingConstraint();
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
