//===- RobustSearch.cpp - The plan that is best under its interval --------===//
//
// --objective=robust prefers the plan whose step is the shortest at the upper
// end of its interval, among those whose memory certainly fits. The intervals
// of plans differ only by the kinds of parallelism they use, so the search
// keeps more of the fastest plans than usual and chooses among them.
//
//===----------------------------------------------------------------------===//
#include "cost-model/report/Intervals.h"
#include "cost-model/report/Report.h"
#include "tools/driver/PlanSearch.h"

#include <algorithm>

namespace dpc {

/// The number of plans among which the most robust one is chosen.
static constexpr int64_t kCandidates = 48;

static std::string nameOf(const cost::Candidate &candidate, int64_t devices) {
  return cost::stringifyStrategy(
      cost::placedStrategy(candidate.strategy, candidate.evaluation.decisions),
      devices);
}

Expected<cost::PartResult>
PlanSearch::runRobust(std::vector<std::string> &remarks) const {
  auto errors = cost::loadMeasuredErrors();
  if (!errors)
    return Error{"--objective=robust: " + errors.message()};
  cost::Intervals intervals(*errors);
  if (!intervals.isKnown())
    return Error{"--objective=robust: no measured run is known"};
  CompileOptions asked = options;
  asked.objective = "throughput";
  asked.top = std::max(options.top, kCandidates);
  PlanSearch search = {asked,    cluster, program,  isArranged,
                       progress, accepts, baselines};
  auto found = search.run(remarks);
  if (!found || !found->search.hasWinner())
    return found;
  std::vector<cost::Candidate> &candidates = found->search.candidates;
  size_t best = cost::mostRobust(intervals, found->used, found->search);
  if (best > 0) {
    // The search evaluated only its winner from the whole program.
    std::vector<std::string> ignored;
    asked.strategy = nameOf(candidates[best], cluster.numDevices());
    asked.microBatch = 0;
    asked.top = 1;
    PlanSearch fixed = {asked,
                        cluster,
                        program,
                        isArranged,
                        progress,
                        accepts,
                        /*baselines=*/false};
    auto exact = fixed.run(ignored);
    auto upperOf = [&](const cost::SearchResult &result) {
      return intervals.of(found->used, result, result.candidates.front())
          .highSeconds;
    };
    if (exact && exact->search.hasWinner() &&
        upperOf(exact->search) < upperOf(found->search)) {
      cost::Candidate &fastest = candidates.front();
      fastest.why = "faster in the mean, but not at the upper ends of the "
                    "intervals of time and memory (--objective=robust)";
      candidates.erase(candidates.begin() + static_cast<int64_t>(best));
      candidates.insert(candidates.begin(),
                        std::move(exact->search.candidates.front()));
      found->search.headroom = exact->search.headroom;
      found->search.idle.clear();
      found->search.bindingConstraint = exact->search.bindingConstraint;
      found->search.bindingDetail.clear();
      found->search.changes.clear();
      found->used = std::move(exact->used);
    }
  }
  if (candidates.size() > static_cast<size_t>(options.top))
    candidates.resize(static_cast<size_t>(options.top));
  return found;
}

} // namespace dpc
