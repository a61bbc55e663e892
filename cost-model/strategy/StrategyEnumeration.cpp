//===- StrategyEnumeration.cpp - All strategies of a request --------------===//

#include "cost-model/strategy/Strategy.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <iterator>
#include <set>

namespace dpc::cost {

using Strategies = std::vector<Strategy>;

/// Returns the divisors of `ranks` up to `limit`, or only `wanted` if it is set
/// and divides `ranks`.
static std::vector<int64_t> degreesToTry(std::optional<int64_t> wanted,
                                         int64_t ranks, int64_t limit) {
  std::vector<int64_t> degrees;
  for (int64_t degree = 1; degree <= ranks; ++degree)
    if (ranks % degree == 0 && (wanted ? degree == *wanted : degree <= limit))
      degrees.push_back(degree);
  return degrees;
}

/// Replaces each strategy by one strategy for each value in `values(strategy)`.
/// `key` is a pointer to a member, or a function that returns a reference to
/// the member.
template <typename Key, typename Values>
static void expand(Strategies &strategies, Key key, Values values) {
  std::vector<decltype(values(strategies.front()))> lists;
  lists.reserve(strategies.size());
  size_t count = 0;
  for (const Strategy &strategy : strategies)
    count += lists.emplace_back(values(strategy)).size();
  Strategies expanded;
  expanded.reserve(count);
  for (size_t k = 0; k < strategies.size(); ++k) {
    auto &list = lists[k];
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      expanded.push_back(strategies[k]);
      std::invoke(key, expanded.back()) = list[i];
    }
    if (list.empty())
      continue;
    expanded.push_back(std::move(strategies[k]));
    std::invoke(key, expanded.back()) = list.back();
  }
  strategies = std::move(expanded);
}

/// Keys that are not fixed stay neutral unless they are expanded later.
static void setFixedKeys(const StrategyRequest &request,
                         Strategies &strategies) {
  visitKeys([&](const KeyInfo &, auto field) {
    if (field(request))
      for (Strategy &strategy : strategies)
        field(strategy) = *field(request);
  });
}

static void expandForSoftware(const StrategyRequest &request,
                              const StrategySpace &space,
                              Strategies &strategies) {
  visitKeys([&](const KeyInfo &key, auto field) {
    using T = std::decay_t<decltype(field(strategies.front()))>;
    assert((NamedEnum<T> || !key.isTriedFor) && "isTriedFor is for enums");
    if constexpr (NamedEnum<T>)
      if (!field(request) && key.isTriedFor && key.isTriedFor(space.software))
        expand(strategies, field, [&](const Strategy &strategy) {
          std::vector<T> values = {field(strategy)};
          for (size_t i = 0; hasEffect(key, strategy) && i < kNamesOf<T>.size();
               ++i)
            if (auto value = static_cast<T>(i); value != values.front())
              values.push_back(value);
          return values;
        });
  });
}

static Strategies enumerateDegrees(const StrategyRequest &request,
                                   const StrategySpace &space) {
  Strategies strategies(1);
  expand(strategies, &Strategy::pp, [&](const Strategy &) {
    return degreesToTry(request.pp, space.ranks, space.maxPp);
  });
  expand(strategies, &Strategy::cp, [&](const Strategy &strategy) {
    return degreesToTry(request.cp, space.ranks / strategy.pp, space.maxCp);
  });
  expand(strategies, &Strategy::tp, [&](const Strategy &strategy) {
    std::optional<int64_t> wanted;
    if (request.tp)
      wanted = request.tp->ranks;
    return degreesToTry(wanted, space.ranks / (strategy.pp * strategy.cp),
                        space.maxTp);
  });
  for (Strategy &strategy : strategies)
    strategy.dp = space.ranks / (strategy.pp * strategy.cp * strategy.tp);
  std::erase_if(strategies, [&](const Strategy &strategy) {
    return request.dp && strategy.dp != *request.dp;
  });
  return strategies;
}

static std::vector<TensorDegree> gridsToTry(const StrategyRequest &request,
                                            const StrategySpace &space,
                                            const Strategy &strategy) {
  if (request.tp)
    return {*request.tp};
  std::vector<TensorDegree> grids = {strategy.tp};
  auto add = [&](std::vector<int64_t> factors) {
    grids.push_back(strategy.tp);
    grids.back().grid = std::move(factors);
  };
  // Context parallelism leaves too few elements for the second axis of a grid.
  if (!space.grids || strategy.cp > 1)
    return grids;
  int64_t side = 1, edge = 1;
  for (int64_t factor = 2; factor * factor <= strategy.tp; ++factor) {
    if (strategy.tp % factor == 0)
      side = factor;
    if (factor * factor * factor == strategy.tp)
      edge = factor;
  }
  if (side > 1)
    add({side, strategy.tp / side});
  if (edge > 1)
    add({edge, edge, edge});
  return grids;
}

static std::vector<CpKind> cpKindsToTry(const StrategyRequest &request,
                                        const StrategySpace &,
                                        const Strategy &strategy) {
  if (request.cpKind)
    return {*request.cpKind};
  return strategy.cp == 1 ? std::vector{CpKind::Ring}
                          : std::vector{CpKind::Ring, CpKind::Ulysses};
}

static std::vector<int64_t> hybridShardsToTry(const StrategyRequest &request,
                                              const StrategySpace &space,
                                              const Strategy &strategy) {
  if (request.hybridShard)
    return {*request.hybridShard};
  int64_t inner = space.nodeRanks / (strategy.tp * strategy.cp);
  // ZeRO 2 is rarely the best (SearchSpace.cpp).
  bool isTried = strategy.zero == 1 || strategy.zero == 3 || request.zero;
  bool isOne = strategy.zero == 0 || !isTried || inner <= 1 ||
               strategy.dp <= inner || strategy.dp % inner != 0;
  return isOne ? std::vector<int64_t>{1} : std::vector<int64_t>{1, inner};
}

static std::vector<bool> sequenceToTry(const StrategyRequest &request,
                                       const StrategySpace &space,
                                       const Strategy &strategy) {
  if (strategy.tp == 1)
    return {false};
  if (request.sp)
    return {*request.sp};
  if (!strategy.tp.grid.empty() && !space.sequencesOfGrids)
    return {false};
  return space.sequenceParallel ? std::vector<bool>{false, true}
                                : std::vector<bool>{false};
}

static std::vector<int64_t> zerosToTry(const StrategyRequest &request,
                                       const StrategySpace &space,
                                       const Strategy &strategy) {
  if (request.zero)
    return {*request.zero};
  // ZeRO also shards over context-parallel ranks.
  return strategy.dp * strategy.cp == 1 ? std::vector<int64_t>{0} : space.zeros;
}

/// Returns 1 and larger values of ep, each of which leaves fewer experts per
/// rank than the previous value. The first values span only data-parallel
/// ranks. If there are more experts than data-parallel ranks, further values
/// also span all of tp (K5).
static std::vector<int64_t> usefulEps(int64_t experts,
                                      const Strategy &strategy) {
  std::vector<int64_t> eps;
  int64_t held = experts + 1;
  auto tryRanks = [&](int64_t ep) {
    int64_t left = (experts + ep - 1) / ep;
    if (ep <= experts && left < held) {
      eps.push_back(ep);
      held = left;
    }
  };
  for (int64_t ranks = 1; ranks <= std::min(experts, strategy.dp); ++ranks)
    if (strategy.dp % ranks == 0)
      tryRanks(ranks);
  if (strategy.tp > 1 && strategy.dp < experts)
    for (int64_t ranks = 1; ranks <= strategy.dp; ++ranks)
      if (strategy.dp % ranks == 0 && strategy.dp % (strategy.tp * ranks) != 0)
        tryRanks(strategy.tp * ranks);
  return eps;
}

static std::vector<int64_t> expertRanksToTry(const StrategyRequest &request,
                                             const StrategySpace &space,
                                             const Strategy &strategy) {
  if (request.ep)
    return {*request.ep};
  std::vector<int64_t> eps = usefulEps(space.experts, strategy);
  if (space.expertSpans.empty() || eps.size() <= 1)
    return eps;
  std::vector<int64_t> largest = {1};
  for (int64_t span : space.expertSpans) {
    int64_t most = 1;
    for (int64_t ep : eps) {
      // On the devices, the axis of the expert ranks is outside cp and tp.
      int64_t data = strategy.dp % ep == 0 ? ep : ep / strategy.tp;
      if (data * strategy.cp * strategy.tp <= span)
        most = std::max(most, ep);
    }
    if (most > largest.back())
      largest.push_back(most);
  }
  return largest;
}

static std::vector<ScheduleKind> schedulesToTry(const StrategyRequest &request,
                                                const StrategySpace &space,
                                                const Strategy &strategy) {
  // With one stage, all schedules are the same.
  if (strategy.pp == 1)
    return {ScheduleKind::OneFOneB};
  if (request.schedule)
    return {*request.schedule};
  return request.vpp.value_or(1) > 1 ? std::vector{ScheduleKind::Interleaved}
                                     : space.schedules;
}

static std::vector<int64_t> chunksToTry(const StrategyRequest &request,
                                        const StrategySpace &space,
                                        const Strategy &strategy) {
  if (request.vpp)
    return {*request.vpp};
  if (!hasChunks(strategy.schedule))
    return {1};
  std::vector<int64_t> chunks;
  // Above maxVpp, all chunks must have the same number of layers. Above three
  // times maxVpp, the bubble shrinks too little.
  int64_t most = std::min(space.maxVpp > 1 ? 3 * space.maxVpp : 1,
                          space.maxPp / strategy.pp);
  for (int64_t vpp = 2; vpp <= most; ++vpp)
    if (vpp <= space.maxVpp || space.maxPp % (strategy.pp * vpp) == 0)
      chunks.push_back(vpp);
  // A fixed schedule=interleaved falls back to one chunk, which is 1F1B.
  if (chunks.empty() && request.schedule)
    chunks.push_back(1);
  return chunks;
}

Status checkMicroBatches(const StrategyRequest &request, int64_t globalBatch,
                         int64_t ranks) {
  int64_t dp = request.dp.value_or(ranks);
  int64_t local = (globalBatch + dp - 1) / dp;
  int64_t least = (local + kMaxMicroBatches - 1) / kMaxMicroBatches;
  if (!request.microBatch || *request.microBatch >= least)
    return Status();
  return Error{
      "--strategy: micro_batch=" + std::to_string(*request.microBatch) +
      " gives " + std::to_string((local - 1) / *request.microBatch + 1) +
      " micro-batches in a step of " + std::to_string(globalBatch) +
      " samples; expected at most " + std::to_string(kMaxMicroBatches) +
      ", so at least micro_batch=" + std::to_string(least)};
}

static std::vector<int64_t> sizesToTry(const StrategyRequest &request,
                                       const StrategySpace &space,
                                       const Strategy &strategy) {
  int64_t local = (space.globalBatch + strategy.dp - 1) / strategy.dp;
  int64_t least = (local + kMaxMicroBatches - 1) / kMaxMicroBatches;
  if (request.microBatch) {
    int64_t size = std::clamp<int64_t>(*request.microBatch, 1, local);
    return size >= least ? std::vector{size} : std::vector<int64_t>();
  }
  // 24 samples: 24, 12, 6, 3, 2, 1, and with `triesDivisors` also 8 and 4.
  std::set<int64_t, std::greater<>> sizes;
  for (int64_t size = local; size > least; size = (size + 1) / 2)
    sizes.insert(size);
  for (int64_t parts = 1; space.triesDivisors && parts * parts <= local;
       ++parts)
    if (local % parts == 0)
      for (int64_t size : {parts, local / parts})
        if (size > least)
          sizes.insert(size);
  std::vector<int64_t> tried;
  for (int64_t size : sizes)
    if (space.idleStages || (local + size - 1) / size >= strategy.pp)
      tried.push_back(size);
  tried.push_back(least);
  return tried;
}

/// Returns a request with all keys of `strategy` except the micro-batch.
static StrategyRequest requestOf(const Strategy &strategy) {
  StrategyRequest request;
  visitKeys(
      [&](const KeyInfo &, auto field) { field(request) = field(strategy); });
  request.microBatch = std::nullopt;
  return request;
}

/// Returns whether more than space.maxVpp chunks save less than 1 % of the
/// time: the bubble takes (pp - 1) / vpp times the time of one micro-batch.
static bool gainsLittle(const Strategy &strategy, const StrategySpace &space) {
  return 100 * (strategy.pp - 1) <
         space.maxVpp * strategy.microBatches(space.globalBatch);
}

static void expandKeys(const StrategyRequest &request,
                       const StrategySpace &space, Strategies &strategies) {
  auto with = [&](auto valuesToTry) {
    return [&request, &space, valuesToTry](const Strategy &strategy) {
      return valuesToTry(request, space, strategy);
    };
  };
  setFixedKeys(request, strategies);
  expand(strategies, &Strategy::cpKind, with(cpKindsToTry));
  expand(strategies, &Strategy::tp, with(gridsToTry));
  expand(strategies, &Strategy::ep, with(expertRanksToTry));
  expand(strategies, &Strategy::sp, with(sequenceToTry));
  expand(strategies, &Strategy::zero, with(zerosToTry));
  expand(strategies, &Strategy::hybridShard, with(hybridShardsToTry));
  expand(strategies, &Strategy::recompute, [&](const Strategy &) {
    return request.recompute ? std::vector{*request.recompute}
                             : space.recomputes;
  });
  expand(strategies, &Strategy::schedule, with(schedulesToTry));
  expand(strategies, &Strategy::vpp, with(chunksToTry));
  expandForSoftware(request, space, strategies);
  // micro_batch contradicts no key, so it is expanded last.
  std::erase_if(strategies, [](const Strategy &strategy) {
    return !checkCombination(requestOf(strategy));
  });
  expand(strategies, &Strategy::microBatch, with(sizesToTry));
  // With one micro-batch, ZeRO 2 does the same as ZeRO 1.
  if (!request.zero && std::count(space.zeros.begin(), space.zeros.end(), 1))
    std::erase_if(strategies, [&](const Strategy &strategy) {
      return strategy.zero == 2 &&
             strategy.microBatches(space.globalBatch) == 1;
    });
  if (!request.vpp)
    std::erase_if(strategies, [&](const Strategy &strategy) {
      return strategy.vpp > space.maxVpp && gainsLittle(strategy, space);
    });
  if (request.accepts)
    std::erase_if(strategies, [&](const Strategy &strategy) {
      return !request.accepts(strategy);
    });
}

Strategies enumerateStrategies(const StrategyRequest &request,
                               const StrategySpace &space) {
  assert(space.ranks >= 1 && space.globalBatch >= 1 && "ranks and samples");
  Strategies degrees = enumerateDegrees(request, space);
  std::vector<Strategies> parts(degrees.size());
  parallelFor(parts.size(), 1, [&](size_t i) {
    parts[i].push_back(std::move(degrees[i]));
    expandKeys(request, space, parts[i]);
  });
  size_t count = 0;
  for (const Strategies &part : parts)
    count += part.size();
  Strategies strategies;
  strategies.reserve(count);
  for (Strategies &part : parts)
    std::move(part.begin(), part.end(), std::back_inserter(strategies));
  return strategies;
}

} // namespace dpc::cost
