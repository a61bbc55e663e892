//===- BaselineStrategies.cpp - Plain strategies everybody knows ----------===//

#include "cost-model/machine/HeterogeneousCluster.h"
#include "runtime/base/Parallel.h"
#include "cost-model/search/StrategySearch.h"

#include <algorithm>
#include <limits>

namespace dpc::cost {

/// What people do by hand knows no unlike shares of the batch.
static void shareEvenly(const Cluster &cluster,
                        std::vector<Strategy> &strategies) {
  for (Strategy &strategy : strategies)
    if (strategy.dp > 1 && isMixed(cluster))
      strategy.batchShares = BatchShares::even();
}

/// Pure data parallelism over `ranks` with the wanted ZeRO stage, over
/// micro-batch sizes.
static std::vector<Strategy>
dataParallelStrategies(const Cluster &cluster, const SearchOptions &options,
                       int64_t ranks, int64_t zero) {
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
  shareEvenly(cluster, strategies);
  return strategies;
}

/// tp inside a node, pp over the layers, dp the rest, with the optimizer's
/// states split or not, and what else Megatron does.
std::vector<Strategy> megatronStrategies(const Cluster &cluster,
                                         const ModelTotals &totals,
                                         const SearchOptions &options) {
  StrategySpace space = options.space;
  space.maxTp = cluster.devicesPerNode();
  space.maxPp = std::max<int64_t>(1, std::min(space.maxPp, totals.layers));
  space.maxCp = 1;
  space.grids = false;
  space.nodeRanks = 0;
  std::erase(space.zeros, 3);
  std::erase(space.schedules, ScheduleKind::ZbH1);
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
         strategy.schedule != ScheduleKind::ZbH1 && strategy.offload == Offload::None;
}

/// The best that fits; else the one with the least memory.
Candidate
StrategySearch::bestFormula(const std::vector<Strategy> &strategies) const {
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
  if (best)
    return std::move(*best);
  // With the micro-batch that the user fixed, there may be too many of them.
  Candidate none;
  none.method = "formula";
  none.evaluation.rejected = "a step would have more than " +
                             std::to_string(kMaxMicroBatches) +
                             " micro-batches on a rank";
  return none;
}

bool StrategySearch::mayFit(const Candidate &candidate) {
  return candidate.fits && evaluator.bound(candidate.strategy).memoryBytes <=
                               result.memoryLimitBytes;
}

/// What the pieces or the graph say about strategies that were found by
/// formula.
std::vector<Candidate>
StrategySearch::byGraph(std::vector<Candidate> estimates) {
  std::vector<std::vector<Strategy>> blocks;
  blocks.reserve(estimates.size());
  for (const Candidate &estimate : estimates)
    blocks.push_back({estimate.strategy});
  bool hasPieces = std::all_of(
      estimates.begin(), estimates.end(), [&](const Candidate &estimate) {
        return !evaluator.blockOf(estimate.strategy).empty();
      });
  std::vector<std::vector<std::optional<Composition>>> answers(blocks.size());
  if (hasPieces && !blocks.empty())
    answers =
        evaluator.compose(blocks, std::numeric_limits<double>::infinity());
  std::vector<size_t> open;
  std::vector<Strategy> strategies;
  for (size_t i = 0; i < estimates.size(); ++i)
    if (!answers[i].empty() && answers[i].front()) {
      take(estimates[i], std::move(answers[i].front()->evaluation));
    } else {
      open.push_back(i);
      strategies.push_back(estimates[i].strategy);
    }
  std::vector<Evaluation> alone = evaluator.evaluateMany(strategies);
  for (size_t k = 0; k < open.size(); ++k)
    take(estimates[open[k]], std::move(alone[k]));
  return estimates;
}

/// The next of `strategies` to ask about where `tried` needs more memory than
/// there is: the best of those that fit if the formula errs for them as much as
/// for `tried`, else the smallest; nothing if none is smaller.
std::optional<Candidate>
StrategySearch::nextSmaller(std::vector<Strategy> &strategies,
                            const Candidate &tried) const {
  auto bytesOf = [&](const Strategy &strategy) {
    return byFormula(strategy).evaluation.memory.total();
  };
  double bytes = bytesOf(tried.strategy);
  std::erase_if(strategies, [&](const Strategy &strategy) {
    return bytesOf(strategy) >= bytes;
  });
  if (strategies.empty())
    return std::nullopt;
  double most =
      limitOf(tried.evaluation) * bytes / tried.evaluation.memory.total();
  auto isPromising = [&](const Strategy &strategy) {
    return bytesOf(strategy) <= most;
  };
  std::vector<Strategy> promising;
  std::copy_if(strategies.begin(), strategies.end(),
               std::back_inserter(promising), isPromising);
  if (promising.empty())
    promising.push_back(*std::min_element(
        strategies.begin(), strategies.end(),
        [&](const auto &a, const auto &b) { return bytesOf(a) < bytesOf(b); }));
  return bestFormula(promising);
}

/// The best of each family: the formula proposes, the graph answers for those
/// that may fit, and where it finds too much memory what needs less is proposed
/// next. With `isFirstEasy` the first is asked even if it should not fit,
/// unless that takes long.
std::vector<Candidate>
StrategySearch::bestOfEach(std::vector<std::vector<Strategy>> families,
                           bool isFirstEasy) {
  std::vector<Candidate> best;
  std::vector<size_t> open;
  for (size_t i = 0; i < families.size(); ++i) {
    best.push_back(bestFormula(families[i]));
    bool isEasy = i == 0 && isFirstEasy &&
                  best[i].evaluation.rejected.empty() &&
                  evaluator.blockOf(best[i].strategy).empty();
    if (isEasy || mayFit(best[i]))
      open.push_back(i);
  }
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds && !open.empty(); ++round) {
    std::vector<Candidate> asked;
    asked.reserve(open.size());
    for (size_t i : open)
      asked.push_back(best[i]);
    std::vector<Candidate> found = byGraph(std::move(asked));
    std::vector<size_t> again;
    for (size_t k = 0; k < open.size(); ++k) {
      size_t i = open[k];
      best[i] = std::move(found[k]);
      if (kindOf(best[i]) != 1 || round + 1 == kRounds)
        continue;
      auto next = nextSmaller(families[i], best[i]);
      if (next && mayFit(*next)) {
        best[i] = std::move(*next);
        again.push_back(i);
      }
    }
    open = std::move(again);
  }
  return best;
}

/// DDP is asked of the graph even where it does not fit, if that is easy.
void StrategySearch::addDataParallel() {
  std::vector<std::vector<Strategy>> families;
  for (int64_t zero = 0; zero <= 3; ++zero)
    families.push_back(
        dataParallelStrategies(cluster, options, options.space.ranks, zero));
  std::vector<Candidate> found = bestOfEach(std::move(families), true);
  for (size_t zero = 0; zero < found.size(); ++zero) {
    Candidate &candidate = found[zero];
    if (candidate.method != "formula") {
      Pending entry = bounded(candidate.strategy);
      estimate(entry);
      corrections.learn(entry, candidate.evaluation);
    }
    result.baselines.push_back(
        {zero == 0 ? "ddp" : "zero" + std::to_string(zero),
         std::move(candidate)});
  }
}

/// Marks Megatron's layouts in `pending`, and adds those that the request does
/// not allow.
void StrategySearch::addPlain(std::vector<Pending> &pending) {
  parallelFor(pending.size(), kPendingAtOnce, [&](size_t i) {
    pending[i].isPlain = isMegatronLike(*pending[i].strategy, cluster);
  });
  std::vector<Strategy> &others =
      listed.emplace_back(megatronStrategies(cluster, result.totals, options));
  std::erase_if(others, [&](const Strategy &strategy) {
    return options.request.allows(strategy, options.space.globalBatch);
  });
  pending.reserve(pending.size() + others.size());
  for (const Strategy &strategy : others) {
    pending.push_back(bounded(strategy));
    pending.back().isPlain = true;
    pending.back().isAllowed = false;
  }
}

/// Why no layout is like Megatron's.
static Candidate noMegatron(const ModelTotals &totals, int64_t ranks) {
  Candidate none;
  none.method = "formula";
  none.evaluation.rejected =
      "no tp x pp x dp with tp inside a node, at most " +
      std::to_string(totals.layers) + " stages and dp at most " +
      std::to_string(totals.globalBatch) + " samples gives " +
      std::to_string(ranks) + " ranks";
  return none;
}

/// Megatron's layout, where pieces have not told it, and what one of the
/// devices does alone, both at once. The latter is there to compare with, not
/// one of the plans that are searched (IdleDevices.h has those), and joins the
/// others at the end.
void StrategySearch::addMegatron() {
  std::vector<std::vector<Strategy>> families;
  if (options.space.ranks > 1)
    families.push_back(dataParallelStrategies(cluster, options, 1, 0));
  if (!megatron) {
    std::vector<Strategy> layouts =
        megatronStrategies(cluster, result.totals, options);
    if (layouts.empty())
      megatron = noMegatron(result.totals, options.space.ranks);
    else
      families.push_back(std::move(layouts));
  }
  std::vector<Candidate> found = bestOfEach(std::move(families), false);
  if (options.space.ranks > 1)
    single = std::move(found.front());
  if (!megatron)
    megatron = std::move(found.back());
  result.baselines.push_back({"megatron-3d", *megatron});
}

void StrategySearch::addSingle() {
  if (options.space.ranks == 1)
    single = result.baselines.front().candidate; // ddp of one rank
  result.baselines.insert(result.baselines.begin(), {"single", single});
}

/// ZeRO-2 does what ZeRO-1 does where there is one micro-batch.
bool StrategySearch::isSame(const Candidate &a, const Candidate &b) const {
  constexpr double kRounding = 1e-4;
  return a.fits && b.fits && !a.evaluation.isComposed &&
         std::abs(valueOf(a) - valueOf(b)) <= kRounding * valueOf(b);
}

/// What everybody knows is not to beat what was searched for.
void StrategySearch::keepBaselines() {
  for (const Baseline &baseline : result.baselines) {
    const Candidate &candidate = baseline.candidate;
    bool isKept = std::any_of(
        result.candidates.begin(), result.candidates.end(),
        [&](const Candidate &kept) {
          return kept.strategy == candidate.strategy || isSame(kept, candidate);
        });
    if (!isKept && candidate.method != "formula" && candidate.fits &&
        options.request.allows(candidate.strategy, options.space.globalBatch))
      result.candidates.push_back(candidate);
  }
}

} // namespace dpc::cost
