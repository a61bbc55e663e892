//===- JobAnswers.cpp - --tokens, --deadline and several clusters ---------===//
#include "tools/driver/JobAnswers.h"

#include "cost-model/search/IdleDevices.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace dpc {

static std::optional<cost::JobCost> jobCostOn(const cost::Cluster &cluster,
                                              const cost::JobTerms &terms,
                                              const cost::Intervals *intervals,
                                              const cost::SearchResult &found) {
  if (terms.tokens <= 0 || !found.hasWinner())
    return std::nullopt;
  const cost::Candidate &winner = found.candidates.front();
  cost::JobCost job =
      cost::costOfJob(terms, cluster, found.totals,
                      winner.evaluation.stepSeconds, winner.strategy.ranks());
  if (intervals)
    job.error = intervals->timeOf(cluster, found.totals, winner.strategy);
  return job;
}

std::optional<cost::JobCost> jobCostOf(const CompileOptions &options,
                                       const Searched &searched,
                                       const cost::Intervals *intervals) {
  return jobCostOn(searched.machine.cluster, options.job, intervals,
                   searched.result);
}

/// Describes the result of a search on `cluster`, which `name` names.
static cost::ClusterAnswer
answerFor(const std::string &name, const cost::Cluster &cluster,
          const cost::JobTerms &terms, const cost::Intervals *intervals,
          const Expected<cost::SearchResult> &found) {
  cost::ClusterAnswer answer;
  answer.nodes = cluster.numNodes();
  answer.devices = cluster.numDevices();
  if (!found) {
    answer.plan.change = name;
    answer.plan.why = found.message();
    return answer;
  }
  answer.plan = cost::answerOf(name, *found, answer.devices);
  answer.job = jobCostOn(cluster, terms, intervals, *found);
  return answer;
}

static cost::ClusterAnswer searchOn(Session &session, const Searched &searched,
                                    const std::string &name,
                                    const cost::Cluster &cluster,
                                    const cost::JobTerms &terms,
                                    const cost::Intervals *intervals) {
  return answerFor(name, cluster, terms, intervals,
                   searchAgain(session, searched, session.options(), cluster,
                               /*accepts=*/nullptr, /*baselines=*/false));
}

std::vector<cost::ClusterAnswer>
compareClusters(Session &session, const Searched &searched,
                const cost::Intervals *intervals) {
  const CompileOptions &options = session.options();
  if (options.otherClusters.empty())
    return {};
  std::vector<cost::ClusterAnswer> answers = {
      answerFor(options.cluster, searched.machine.cluster, options.job,
                intervals, searched.result)};
  for (auto [other, cluster] :
       llvm::zip_equal(options.otherClusters, searched.machine.others)) {
    cost::JobTerms terms = options.job;
    terms.pricePerHour = other.price;
    answers.push_back(
        searchOn(session, searched, other.file, cluster, terms, intervals));
  }
  return answers;
}

namespace {

/// Finds the smallest number of nodes that meets a deadline. More nodes are
/// never slower, because a plan may leave devices idle (IdleDevices.h).
class SmallestCluster {
public:
  SmallestCluster(Session &session, const Searched &searched,
                  const cost::Intervals *intervals)
      : session(session), searched(searched), intervals(intervals),
        whole(searched.machine.cluster),
        deadline(session.options().deadlineSeconds) {}

  cost::DeadlineAnswer find();

private:
  /// Larger clusters than the given one have up to this many times its nodes.
  static constexpr int64_t kMostTimes = 16;

  Session &session;
  const Searched &searched;
  const cost::Intervals *intervals;
  const cost::Cluster &whole;
  double deadline;
  int64_t tooFew = 0;
  std::string why; ///< Why the last search found no plan, or "".
  std::optional<cost::ClusterAnswer> best;

  cost::Cluster withNodes(int64_t nodes) const;
  /// Returns the seconds of the job, or infinity if no plan fits.
  double tryNodes(int64_t nodes);
  int64_t nextTry(int64_t tried, double seconds) const;
};

} // namespace

cost::Cluster SmallestCluster::withNodes(int64_t nodes) const {
  int64_t present = whole.numNodes();
  if (nodes >= present)
    return cost::withMoreNodes(whole, nodes - present);
  int64_t perNode = 0;
  for (const cost::NodeGroup &group : whole.groups)
    perNode = std::max(perNode, group.devicesPerNode);
  return cost::partOf(whole, {nodes, perNode});
}

double SmallestCluster::tryNodes(int64_t nodes) {
  const CompileOptions &options = session.options();
  std::string name = std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
  cost::ClusterAnswer answer =
      nodes == whole.numNodes()
          ? answerFor(name, whole, options.job, intervals, searched.result)
          : searchOn(session, searched, name, withNodes(nodes), options.job,
                     intervals);
  double seconds = answer.job ? answer.job->seconds : INFINITY;
  why = answer.plan.why;
  if (seconds <= deadline)
    best = std::move(answer);
  else
    tooFew = nodes;
  return seconds;
}

/// Assumes that the time is inversely proportional to the nodes; halves the
/// range if that names a known end.
int64_t SmallestCluster::nextTry(int64_t tried, double seconds) const {
  int64_t enough = best->nodes;
  double scaled = std::ceil(static_cast<double>(tried) * seconds / deadline);
  int64_t next = scaled < static_cast<double>(enough)
                     ? static_cast<int64_t>(scaled)
                     : enough;
  return next > tooFew && next < enough && next != tried
             ? next
             : tooFew + (enough - tooFew) / 2;
}

cost::DeadlineAnswer SmallestCluster::find() {
  cost::DeadlineAnswer answer;
  answer.seconds = deadline;
  // The links to further nodes are unknown if no level joins nodes.
  bool joinsNodes = whole.numNodes() > 1 &&
                    (whole.levels.size() > 1 || whole.devicesPerNode() == 1);
  int64_t nodes = whole.numNodes(),
          most = (joinsNodes ? kMostTimes : 1) * nodes;
  double seconds = tryNodes(nodes);
  while (!best && nodes < most) {
    nodes = std::min(2 * nodes, most);
    seconds = tryNodes(nodes);
  }
  if (!best) {
    answer.why =
        "no plan on " +
        (most == 1 ? std::string("one node")
                   : "up to " + std::to_string(most) + " nodes") +
        " is fast enough" +
        (std::isfinite(seconds)
             ? "; on " + std::to_string(most) + " the job takes " +
                   cost::formatDuration(seconds)
         : why.empty() ? ""
                       : ": " + why) +
        (joinsNodes ? "" : " (a level between nodes allows more nodes)");
    return answer;
  }
  while (best->nodes - tooFew > 1) {
    nodes = nextTry(nodes, seconds);
    seconds = tryNodes(nodes);
  }
  answer.cluster = std::move(*best);
  return answer;
}

std::optional<cost::DeadlineAnswer>
searchDeadline(Session &session, const Searched &searched,
               const cost::Intervals *intervals) {
  if (session.options().deadlineSeconds <= 0)
    return std::nullopt;
  return SmallestCluster(session, searched, intervals).find();
}

} // namespace dpc
