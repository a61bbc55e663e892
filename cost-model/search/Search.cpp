//===- Search.cpp - The outer loop over strategies ------------------------===//
#include "cost-model/search/Search.h"

#include "cost-model/search/BaselineSearch.h"
#include "cost-model/search/BranchAndBound.h"
#include "cost-model/search/Changes.h"
#include "cost-model/search/ConfirmWinner.h"
#include "cost-model/search/Explain.h"
#include "runtime/base/Parallel.h"

#include <cassert>
#include <chrono>

namespace dpc::cost {

std::optional<Objective> symbolizeObjective(std::string_view name) {
  if (name == "throughput" || name == "latency" || name == "robust")
    return Objective::Throughput;
  if (name == "memory")
    return Objective::Memory;
  return std::nullopt;
}

/// Returns those of `strategies` with other offloading that the request
/// accepts, and moves the others to `refused`, if it is given.
static std::vector<Strategy> offloaded(const SearchProblem &problem,
                                       std::vector<Strategy> strategies,
                                       Offload what,
                                       std::vector<Strategy> *refused) {
  const StrategyRequest &request = problem.options.request;
  for (Strategy &strategy : strategies) {
    strategy.offload = what;
    // If host and devices share memory, offloading to the host frees nothing.
    strategy.offloadTo = request.offloadTo.value_or(
        problem.cluster.host.holdsDevices ? OffloadTarget::Disk
                                          : strategy.offloadTo);
  }
  std::erase_if(strategies, [&](const Strategy &strategy) {
    const bool isRefused = request.accepts && !request.accepts(strategy);
    if (isRefused && refused)
      refused->push_back(strategy);
    return isRefused;
  });
  return strategies;
}

/// Whether offloading is tried for strategies whose tensors may all be on the
/// device.
static bool choosesOffloading(const SearchOptions &options) {
  return !options.request.offload && options.space.offload;
}

/// Returns the strategies to search. If memory is the objective, each one is
/// also listed with offloading.
static std::vector<Pending> listAll(const SearchProblem &problem,
                                    BranchAndBound &branch) {
  const SearchOptions &options = problem.options;
  if (options.objective != Objective::Memory || !choosesOffloading(options))
    return branch.list(options.request);
  const std::vector<Strategy> whole =
      enumerateStrategies(options.request, options.space);
  std::vector<Strategy> all = whole;
  for (Offload what : {Offload::Optimizer, Offload::Parameters, Offload::All}) {
    std::vector<Strategy> others = offloaded(problem, whole, what, nullptr);
    all.insert(all.end(), others.begin(), others.end());
  }
  return branch.list(std::move(all));
}

/// Transfers take time in every step, so that only strategies that need too
/// much memory are also tried with offloading. Offloads optimizer states, then
/// parameters, then both. Both are also tried if the request does not accept
/// that only optimizer states are offloaded.
static void searchOffloading(const SearchProblem &problem,
                             BranchAndBound &branch) {
  if (problem.options.objective == Objective::Memory ||
      !choosesOffloading(problem.options))
    return;
  std::vector<Strategy> whole = branch.takeOutgrown();
  auto search = [&](std::vector<Strategy> strategies, Offload what) {
    std::vector<Strategy> remaining;
    strategies = offloaded(problem, std::move(strategies), what, &remaining);
    if (!strategies.empty())
      branch.search(branch.list(std::move(strategies)));
    for (Strategy &strategy : branch.takeOutgrown())
      remaining.push_back(std::move(strategy));
    return remaining;
  };
  std::vector<Strategy> withoutStates = search(whole, Offload::Optimizer);
  search(std::move(whole), Offload::Parameters);
  search(std::move(withoutStates), Offload::All);
}

/// Searches all strategies, evaluates the baselines concurrently, and settles
/// the winner. Returns the plan on one device, which becomes a baseline only at
/// the end.
static std::optional<Candidate> searchAll(const SearchProblem &problem,
                                          CandidatePool &pool,
                                          BranchAndBound &branch) {
  const SearchOptions &options = problem.options;
  std::vector<Pending> pending;
  parallelFor(3, 1, [&](size_t i) {
    if (i == 0 && options.baselines)
      pool.baselines = dataParallelBaselines(problem);
    else if (i == 1)
      pending = listAll(problem, branch);
    else if (i == 2 && options.confirmsWinner)
      problem.evaluator.prepareToDescribe();
  });
  for (const Baseline &baseline : pool.baselines)
    if (baseline.candidate.method != "formula")
      branch.learn(baseline.candidate);
  branch.search(std::move(pending));
  searchOffloading(problem, branch);
  std::optional<Candidate> single;
  if (options.baselines) {
    OtherBaselines others = otherBaselines(problem, branch.bestMegatron());
    pool.baselines.push_back({"megatron-3d", std::move(others.megatron)});
    addBaselinesToCandidates(problem, pool);
    single = std::move(others.single);
  }
  constexpr size_t kMostExact = 12;
  settle(problem, pool, kMostExact);
  for (const Candidate &candidate : pool.candidates)
    pool.updateBaselines(candidate, /*replacesEstimates=*/false);
  return single;
}

/// Returns SearchResult::splitsRejected.
static std::string whyNoSplits(const std::vector<Candidate> &candidates,
                               int64_t globalBatch) {
  std::string why;
  for (const Candidate &candidate : candidates) {
    if (candidate.method == "formula" ||
        candidate.strategy.microBatches(globalBatch) == 1)
      continue;
    if (candidate.evaluation.rejected.empty())
      return "";
    if (why.empty())
      why = candidate.evaluation.rejected;
  }
  return why;
}

void SearchCounts::add(const SearchResult &result) {
  seconds += result.seconds;
  considered += result.considered;
  pruned += result.pruned;
  skipped += result.skipped;
}

void SearchCounts::writeTo(SearchResult &result) const {
  result.seconds = seconds;
  result.considered = considered;
  result.pruned = pruned;
  result.skipped = skipped;
}

SearchResult searchStrategies(const Cluster &cluster, Evaluator &evaluator,
                              const SearchOptions &options) {
  assert(options.space.ranks == cluster.numDevices() &&
         "strategies are for all devices of the cluster");
  auto start = std::chrono::steady_clock::now();
  SearchProblem problem(cluster, evaluator, options);
  CandidatePool pool(problem);
  BranchAndBound branch(problem, pool);
  std::optional<Candidate> single = searchAll(problem, pool, branch);
  ChangesToWinner changes;
  if (options.baselines)
    changes = findChanges(problem, pool);
  confirmWinner(problem, pool);

  SearchResult result;
  result.pareto = pool.takeFront();
  result.candidates = std::move(pool.candidates);
  result.baselines = std::move(pool.baselines);
  // On one device, ddp is the plan on one device.
  if (options.baselines)
    result.baselines.insert(
        result.baselines.begin(),
        {"single", single ? *single : result.baselines.front().candidate});
  result.changedFrom = std::move(changes.from);
  result.changes = std::move(changes.changes);
  result.totals = problem.totals;
  result.memoryLimitBytes = problem.feasibility.limitBytes();
  branch.counts().writeTo(result);
  result.splitsRejected =
      whyNoSplits(result.candidates, problem.totals.globalBatch);
  if (result.candidates.size() > problem.shown())
    result.candidates.resize(problem.shown());
  explainCandidates(problem, result);
  findBindingConstraint(problem, result);
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

} // namespace dpc::cost
