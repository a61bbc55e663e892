//===- BaselineSearch.cpp - Strategies that people use by default ---------===//
#include "cost-model/search/BaselineSearch.h"

#include "cost-model/machine/HeterogeneousCluster.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::cost {

/// Users who choose a strategy by hand use even shares of the batch.
static void shareEvenly(const Cluster &cluster,
                        std::vector<Strategy> &strategies) {
  for (Strategy &strategy : strategies)
    if (strategy.dp > 1 && isHeterogeneous(cluster))
      strategy.batchShares = BatchShares::even();
}

/// Returns one strategy for each micro-batch size.
static std::vector<Strategy>
dataParallelStrategies(const SearchProblem &problem, int64_t ranks,
                       int64_t zero) {
  const SearchOptions &options = problem.options;
  StrategySpace space = options.space;
  space.ranks = ranks;
  StrategyRequest request;
  request.dp = ranks;
  request.tp = request.ep = 1;
  if (!options.freesBaselines)
    request.microBatch = options.request.microBatch;
  std::vector<Strategy> strategies = enumerateStrategies(request, space);
  for (Strategy &strategy : strategies)
    strategy.zero = zero;
  shareEvenly(problem.cluster, strategies);
  return strategies;
}

std::vector<Strategy> megatronStrategies(const SearchProblem &problem) {
  const Cluster &cluster = problem.cluster;
  const ModelTotals &totals = problem.totals;
  const SearchOptions &options = problem.options;
  StrategySpace space = options.space;
  space.maxTp = cluster.devicesPerNode();
  space.maxPp = std::max<int64_t>(1, std::min(space.maxPp, totals.layers));
  space.maxCp = 1;
  space.grids = false;
  space.nodeRanks = 0;
  std::erase(space.zeros, 3);
  std::erase_if(space.schedules, splitsBackward);
  StrategyRequest request;
  if (!options.freesBaselines)
    request.microBatch = options.request.microBatch;
  std::vector<Strategy> strategies = enumerateStrategies(request, space);
  std::erase_if(strategies, [&](const Strategy &strategy) {
    return strategy.dp > totals.globalBatch;
  });
  shareEvenly(cluster, strategies);
  return strategies;
}

bool isMegatronLike(const Strategy &strategy, const Cluster &cluster) {
  return strategy.tp <= cluster.devicesPerNode() && strategy.tp.grid.empty() &&
         strategy.cp == 1 && strategy.zero <= 1 && strategy.hybridShard == 1 &&
         !splitsBackward(strategy.schedule) &&
         strategy.offload == Offload::None;
}

/// Returns the best plan that fits according to the formula. If no plan fits,
/// returns the plan that needs the least memory.
static Candidate bestEstimate(const SearchProblem &problem,
                              const std::vector<Strategy> &strategies) {
  std::optional<Candidate> best;
  for (const Strategy &strategy : strategies) {
    Candidate candidate = estimatedCandidate(problem, strategy);
    if (!best || isBefore(problem, candidate, *best))
      best = std::move(candidate);
  }
  if (best)
    return std::move(*best);
  // A small fixed micro-batch may need too many micro-batches per step.
  Candidate none;
  none.method = "formula";
  none.evaluation.rejected = "a step would have more than " +
                             std::to_string(kMaxMicroBatches) +
                             " micro-batches on a rank";
  return none;
}

static bool mayFit(const SearchProblem &problem, const Candidate &candidate) {
  return candidate.fits &&
         problem.evaluator.bound(candidate.strategy).memoryBytes <=
             problem.feasibility.limitBytes();
}

/// Replaces estimates by evaluations, composed if all strategies have blocks.
static std::vector<Candidate> evaluateAll(const SearchProblem &problem,
                                          std::vector<Candidate> estimates) {
  Evaluator &evaluator = problem.evaluator;
  std::vector<std::vector<Strategy>> blocks;
  blocks.reserve(estimates.size());
  for (const Candidate &estimate : estimates)
    blocks.push_back({estimate.strategy});
  bool haveBlocks = std::all_of(
      estimates.begin(), estimates.end(), [&](const Candidate &estimate) {
        return !evaluator.blockOf(estimate.strategy).empty();
      });
  std::vector<std::vector<std::optional<Composition>>> answers(blocks.size());
  if (haveBlocks && !blocks.empty())
    answers =
        evaluator.compose(blocks, std::numeric_limits<double>::infinity());
  std::vector<size_t> open;
  std::vector<Strategy> strategies;
  for (size_t i = 0; i < estimates.size(); ++i) {
    const Strategy &strategy = blocks[i].front();
    if (!answers[i].empty() && answers[i].front()) {
      estimates[i] = candidateOf(problem, strategy,
                                 std::move(answers[i].front()->evaluation));
    } else {
      open.push_back(i);
      strategies.push_back(strategy);
    }
  }
  std::vector<Evaluation> alone = evaluator.evaluateMany(strategies);
  for (size_t k = 0; k < open.size(); ++k)
    estimates[open[k]] =
        candidateOf(problem, strategies[k], std::move(alone[k]));
  return estimates;
}

/// Returns the strategy to evaluate after `tried`, which needs too much memory.
/// Removes the strategies that need at least as much memory by formula. Of the
/// other strategies, returns the best one that fits if the formula has the same
/// error as for `tried`, or, if none fits, the smallest one. Returns nullopt if
/// no strategy is left.
static std::optional<Candidate> nextSmaller(const SearchProblem &problem,
                                            std::vector<Strategy> &strategies,
                                            const Candidate &tried) {
  auto bytesOf = [&](const Strategy &strategy) {
    return estimatedCandidate(problem, strategy).evaluation.memory.total();
  };
  double bytes = bytesOf(tried.strategy);
  std::erase_if(strategies, [&](const Strategy &strategy) {
    return bytesOf(strategy) >= bytes;
  });
  if (strategies.empty())
    return std::nullopt;
  double most = problem.feasibility.limitOf(tried.evaluation) * bytes /
                tried.evaluation.memory.total();
  std::vector<Strategy> promising;
  std::copy_if(
      strategies.begin(), strategies.end(), std::back_inserter(promising),
      [&](const Strategy &strategy) { return bytesOf(strategy) <= most; });
  if (promising.empty())
    promising.push_back(*std::min_element(
        strategies.begin(), strategies.end(),
        [&](const auto &a, const auto &b) { return bytesOf(a) < bytesOf(b); }));
  return bestEstimate(problem, promising);
}

/// Returns the best plan of each family of strategies. The formulas propose a
/// plan, which is evaluated if it may fit. If the evaluated plan does not fit,
/// the formulas propose a smaller one. If `isFirstEasy`, the first family's
/// plan is evaluated even if it does not fit, unless its evaluation takes long.
static std::vector<Candidate>
bestOfEach(const SearchProblem &problem,
           std::vector<std::vector<Strategy>> families, bool isFirstEasy) {
  std::vector<Candidate> best;
  std::vector<size_t> open;
  for (size_t i = 0; i < families.size(); ++i) {
    best.push_back(bestEstimate(problem, families[i]));
    bool isEasy = i == 0 && isFirstEasy &&
                  best[i].evaluation.rejected.empty() &&
                  problem.evaluator.blockOf(best[i].strategy).empty();
    if (isEasy || mayFit(problem, best[i]))
      open.push_back(i);
  }
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds && !open.empty(); ++round) {
    std::vector<Candidate> asked;
    asked.reserve(open.size());
    for (size_t i : open)
      asked.push_back(best[i]);
    std::vector<Candidate> found = evaluateAll(problem, std::move(asked));
    std::vector<size_t> again;
    for (size_t k = 0; k < open.size(); ++k) {
      size_t i = open[k];
      best[i] = std::move(found[k]);
      if (kindOf(best[i]) != CandidateKind::TooLarge || round + 1 == kRounds)
        continue;
      auto next = nextSmaller(problem, families[i], best[i]);
      if (next && mayFit(problem, *next)) {
        best[i] = std::move(*next);
        again.push_back(i);
      }
    }
    open = std::move(again);
  }
  return best;
}

std::vector<Baseline> dataParallelBaselines(const SearchProblem &problem) {
  std::vector<std::vector<Strategy>> families;
  for (int64_t zero = 0; zero <= 3; ++zero)
    families.push_back(
        dataParallelStrategies(problem, problem.options.space.ranks, zero));
  std::vector<Candidate> found =
      bestOfEach(problem, std::move(families), /*isFirstEasy=*/true);
  std::vector<Baseline> baselines;
  for (size_t zero = 0; zero < found.size(); ++zero)
    baselines.push_back({zero == 0 ? "ddp" : "zero" + std::to_string(zero),
                         std::move(found[zero])});
  return baselines;
}

static Candidate noMegatron(const SearchProblem &problem) {
  Candidate none;
  none.method = "formula";
  none.evaluation.rejected =
      "no tp x pp x dp with tp inside a node, at most " +
      std::to_string(problem.totals.layers) + " stages and dp at most " +
      std::to_string(problem.totals.globalBatch) + " samples gives " +
      std::to_string(problem.options.space.ranks) + " ranks";
  return none;
}

OtherBaselines otherBaselines(const SearchProblem &problem,
                              std::optional<Candidate> megatron) {
  std::vector<std::vector<Strategy>> families;
  bool hasOthers = problem.options.space.ranks > 1;
  if (hasOthers)
    families.push_back(dataParallelStrategies(problem, 1, 0));
  if (!megatron) {
    std::vector<Strategy> layouts = megatronStrategies(problem);
    if (layouts.empty())
      megatron = noMegatron(problem);
    else
      families.push_back(std::move(layouts));
  }
  std::vector<Candidate> found =
      bestOfEach(problem, std::move(families), /*isFirstEasy=*/false);
  OtherBaselines others;
  if (hasOthers)
    others.single = std::move(found.front());
  others.megatron = megatron ? std::move(*megatron) : std::move(found.back());
  return others;
}

/// Returns whether two plans have the same value, to within rounding, and so
/// differ only in name. For example, ZeRO 1 and ZeRO 2 do the same work with
/// one micro-batch.
static bool isSame(const SearchProblem &problem, const Candidate &a,
                   const Candidate &b) {
  constexpr double kRounding = 1e-4;
  return a.fits && b.fits && !a.evaluation.isComposed &&
         std::abs(problem.valueOf(a) - problem.valueOf(b)) <=
             kRounding * problem.valueOf(b);
}

void addBaselinesToCandidates(const SearchProblem &problem,
                              CandidatePool &pool) {
  for (const Baseline &baseline : pool.baselines) {
    const Candidate &candidate = baseline.candidate;
    bool isKnown = std::any_of(pool.candidates.begin(), pool.candidates.end(),
                               [&](const Candidate &known) {
                                 return known.strategy == candidate.strategy ||
                                        isSame(problem, known, candidate);
                               });
    if (!isKnown && candidate.method != "formula" && candidate.fits &&
        problem.allows(candidate.strategy))
      pool.candidates.push_back(candidate);
  }
}

} // namespace dpc::cost
